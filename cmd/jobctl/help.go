package main

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"jobd/cmd/internal/layout"
)

// overview is what jobctl without a command shows: what people want most, on one screen.
const overview = `jobctl asks a worker of jobd, with --master all workers of a master.

look      status, top           what works and what doesn't; a live view
          queue, ps             what waits, and when it is done; what runs
          failed                what failed, and what it wrote last
          why ID, show ID       why a job doesn't run yet; its row and its story
          tail [-f] ID          what a job writes
          schedule --list       what recurs, and when it runs next

act       run-manual ID         run a job of status manual, and see its output
          run-now ID, retry ID  a delayed job now; one that has ended once more
          cancel ID             end a job, or don't start it
          pause T, continue T   start no jobs of a target for a while
          restart, recycle      a new worker, or new processes, without a gap

wait      wait ID               until a job is done; fails where the job does
          health                one line and an exit code for monitors

journal   journal log           what happened, event by event
          journal show ID       the same of one job
          journal verify        whether anything is damaged or was altered

jobctl help: all commands and flags. jobctl help COMMAND: one, with examples.
`

// usage writes the help of a command, and of those below it. It tells whether the global flags are
// to follow: they are in the top help only.
func usage(w io.Writer, c *cmd) (global bool) {
	global = c.Name == "jobctl"
	for i, line := range layout.Wrap("usage: jobctl [flags] "+c.ShortUsage, layout.Width-4) {
		fmt.Fprintf(w, "%s%s\n", strings.Repeat("    ", min(i, 1)), line)
	}
	fmt.Fprintln(w)
	if c.ShortHelp != "" {
		layout.Text(w, c.ShortHelp)
		fmt.Fprintln(w)
	}
	if !global && len(c.Subcommands) > 0 {
		layout.List(w, termsOf(c.Subcommands))
		fmt.Fprintln(w)
	}
	if flags := flagsOf(c); len(flags) > 0 && !global {
		fmt.Fprintln(w, "flags:")
		layout.List(w, flags)
		fmt.Fprintln(w)
	}
	if global {
		return true
	}
	writeExamples(w, c)
	layout.Text(w, "The flags of all commands are in: jobctl help. More: man jobctl, docs/jobctl.md.")
	return false
}

// usageBelow writes what stands below the global flags: the commands, where a terminal shows them last.
func usageBelow(w io.Writer, c *cmd) {
	if c != nil && c.Name == "jobctl" {
		fmt.Fprintln(w)
		listGroups(w, c.Subcommands)
		writeExamples(w, c)
		layout.Text(w, "One command, with its flags and examples: jobctl help COMMAND. More: man jobctl, docs/jobctl.md.")
	}
}

func writeExamples(w io.Writer, c *cmd) {
	if c.LongHelp != "" {
		fmt.Fprintf(w, "examples:\n%s\n\n", strings.Trim(c.LongHelp, "\n"))
	}
}

// listGroups writes all commands, in their groups.
func listGroups(w io.Writer, all []*cmd) {
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].Group == all[0].Group {
			n++
		}
		fmt.Fprintf(w, "%s:\n", all[0].Group)
		layout.List(w, termsOf(all[:n]))
		fmt.Fprintln(w)
		all = all[n:]
	}
}

// termsOf is commands as they are listed.
func termsOf(commands []*cmd) (terms []layout.Term) {
	for _, c := range commands {
		terms = append(terms, layout.Term{Name: c.ShortUsage, Meaning: c.ShortHelp})
	}
	return terms
}

// flagsOf is the flags of a command as they are listed.
func flagsOf(c *cmd) (terms []layout.Term) {
	c.FlagSet.VisitAll(func(f *flag.Flag) {
		terms = append(terms, layout.Term{Name: withValue(f), Meaning: f.Usage})
	})
	return terms
}

// dashed is a flag as people write it.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// helpCommand is the word that asks for help. What follows it are the words of a command.
const helpCommand = "help"

// help is that word as a command, to be listed: arrange makes it the flag.
func help() *cmd {
	return command("help [COMMAND]", "this help, or the purpose, flags and examples of one command", nil)
}

// elsewhere are commands of docker, systemctl, kubectl, gearadmin and others, and what does that here.
func elsewhere() map[string]string {
	return map[string]string{
		"active": "status", "attach": "tail -f ID", "cat": "show ID", "cordon": "pause TARGET", "cron": "schedule --list",
		"create-function": "add-target TARGET N", "delete": "cancel ID", "describe": "show ID", "disable": "pause TARGET",
		"drain": "pause TARGET", "drop-function": "remove-target TARGET", "enable": "continue TARGET", "errors": "failed",
		"events": "journal log", "exec": "run-manual ID", "explain": "why ID", "get": "ps, queue or show ID",
		"getpid": "status", "history": "journal show ID", "info": "status", "inspect": "show ID", "is-active": "health",
		"jobs": "ps, or queue for what waits", "journalctl": "journal log", "kill": "cancel ID, or send-signal KILL ID",
		"list": "ps, queue, failed or list-targets", "list-jobs": "ps, or queue for what waits", "list-timers": "schedule --list",
		"list-units": "list-targets", "log": "journal log, or tail ID for a job's output", "logs": "tail ID, or journal log",
		"ls": "ps, queue, failed or list-targets", "maxqueue": "set-target-concurrency TARGET N",
		"requeue": "retry ID", "resume": "continue TARGET", "rm": "cancel ID", "rollout": "restart", "run": "run-manual ID or run-now ID",
		"scale": "set-target-concurrency TARGET N", "show-jobs": "ps, or queue for what waits", "shutdown": "pause, and stop the service",
		"start": "run-manual ID or run-now ID", "stats": "journal stats, or top", "stop": "cancel ID, or pause TARGET",
		"targets": "list-targets", "timers": "schedule --list", "uncordon": "continue TARGET", "unpause": "continue TARGET",
		"version": "--version", "workers": "--master list-workers",
	}
}

// examples are what the help of a command ends with, by the command's words, one a line.
func examples() map[string][]string {
	return map[string][]string{
		"":                       {"jobctl status", "jobctl --master --host 10.0.0.5 list-workers", "jobctl journal log --since 1h"},
		"status":                 {"jobctl status", "jobctl --master status --watch", "jobctl status --output json | jq .database"},
		"health":                 {"jobctl health", "jobctl --master health --max-age 10m", "jobctl health --max-lag 5m --timeout 8s"},
		"list-targets":           {"jobctl list-targets", "jobctl list-targets --host 10.0.0.7"},
		"list-workers":           {"jobctl --master list-workers", "jobctl --master list-workers --output json | jq '.workers[].name'"},
		"memory-usage":           {"jobctl memory-usage", "jobctl --master memory-usage"},
		"poll":                   {"jobctl poll", "jobctl poll mail video/convert"},
		"poke":                   {"jobctl --master poke mail"},
		"pause":                  {"jobctl pause mail", "jobctl --master pause"},
		"continue":               {"jobctl continue mail", "jobctl --master continue"},
		"recycle":                {"jobctl recycle", "jobctl --master recycle mail"},
		"add-target":             {"jobctl add-target reports 2"},
		"remove-target":          {"jobctl remove-target reports"},
		"set-target-concurrency": {"jobctl set-target-concurrency mail 20", "jobctl --master set-target-concurrency mail 20 --dry-run"},
		"reload":                 {"jobctl reload", "jobctl --master reload"},
		"restart":                {"jobctl restart", "jobctl restart --timeout 5m", "jobctl --master restart --all"},
		"run-manual":             {"jobctl run-manual 4711", "jobctl --master run-manual mail:4711 mail:4712"},
		"send-signal":            {"jobctl send-signal TERM 4711", "jobctl --master send-signal USR1 mail:4711", "jobctl send-signal 0 4711"},
		"ps":                     {"jobctl ps --sort memory", "jobctl --master ps --target mail"},
		"wait":                   {"jobctl wait 4711 4712 --timeout 10m && echo all went well"},
		"top":                    {"jobctl top", "jobctl --master --host 10.0.0.1 top --interval 5s"},
		"failed":                 {"jobctl failed --since 2h --target mail", "jobctl --master failed --group"},
		"show":                   {"jobctl show 5", "jobctl --master show mail:5", "jobctl show 5 --output json | jq .row"},
		"why":                    {"jobctl why 5", "jobctl --master why 5 mail:6", "jobctl why 5 --output json | jq -r .reason"},
		"run-now":                {"jobctl run-now 4711", "jobctl --master run-now reports:12 13"},
		"retry":                  {"jobctl retry 4711", "jobctl --master retry --failed --since 2h --target mail --code 75 --dry-run"},
		"queue":                  {"jobctl queue", "jobctl --master queue mail"},
		"schedule":               {"jobctl schedule daily 02:30 --zone Europe/Berlin", "jobctl schedule '*/20 8-18 * * mon-fri' -n 3", "jobctl --master schedule --list --target reports", "jobctl schedule pause 4711"},
		"cancel":                 {"jobctl cancel 4711", "jobctl --master cancel --grace 1m mail:4711 4712", "jobctl --master cancel --target mail --waiting"},
		"tail":                   {"jobctl tail 4711", "jobctl --master tail -f 4711", "jobctl tail -n 100 mail:4711"},
		"token":                  {"jobctl token new shop --scope submit --targets 'mail,reports/*' --expires 90d", "jobctl token check --file /etc/jobd/principals <token.txt"},
		"token new":              {"jobctl token new shop --scope submit --targets 'mail,reports/*' --expires 90d", "jobctl token new prom --scope status --targets '*' --output json"},
		"token check":            {"jobctl token check <token.txt", "sudo -u jobd jobctl token check --file /etc/jobd/principals"},
		"completion":             {"source <(jobctl completion bash)", "jobctl completion zsh >~/.zfunc/_jobctl", "jobctl completion fish >~/.config/fish/completions/jobctl.fish"},
		"help":                   {"jobctl help pause", "jobctl help journal log"},
		"journal":                {"jobctl journal show 4711", "jobctl --master journal log --since 1h", "jobctl journal verify --journal /var/lib/jobd/node-1"},
		"journal log":            {"jobctl journal log -n 20", "jobctl journal log --job 4711", "jobctl --master journal log --kind done --target mail --follow"},
		"journal show":           {"jobctl journal show 4711", "jobctl journal show --journal /var/lib/jobd/node-1 -- -5"},
		"journal state":          {"jobctl journal state --status running", "jobctl journal state --at '2026-11-20 14:00'", "jobctl journal state --target mail --since 1h -n 20"},
		"journal conflicts":      {"jobctl journal conflicts --since 1d"},
		"journal stats":          {"jobctl journal stats --since 1d", "jobctl --master journal stats"},
		"journal export":         {"jobctl journal export --since 1d >events.jsonl", "jobctl journal export --format csv >events.csv"},
		"journal verify":         {"jobctl journal verify", "jobctl journal verify --anchor /mnt/safe/anchors"},
		"journal anchor":         {"jobctl --master journal anchor --out /mnt/safe/anchors"},
		"journal diff":           {"jobctl journal diff", "jobctl --master journal diff --ignore-deleted"},
		"journal reapply":        {"jobctl --master journal reapply --since '2026-11-20 03:00' --dry-run", "jobctl --master journal reapply --journal /mnt/node-3"},
	}
}

// illustrate gives the examples to a command and to all below it.
func illustrate(c *cmd, words string) {
	lines := examples()[words]
	if c.LongHelp == "" && len(lines) > 0 {
		c.LongHelp = "  " + strings.Join(lines, "\n  ")
	}
	for _, below := range c.Subcommands {
		illustrate(below, strings.TrimSpace(words+" "+below.Name))
	}
}

//go:embed completions
var completions embed.FS

// shells are those for which there is a script.
func shells() []string { return []string{"bash", "zsh", "fish"} }

func (p *program) completion() *cmd {
	return command("completion SHELL", "print the completion script for bash, zsh or fish", func(_ context.Context, args []string) error {
		if len(args) != 1 || !slices.Contains(shells(), args[0]) {
			return wrongUsage("completion: needs a shell, got %q; allowed: bash, zsh, fish", args)
		}
		script, err := completions.ReadFile("completions/jobctl." + args[0])
		if err != nil {
			return err
		}
		p.say("%s", script)
		return nil
	})
}

// completeCommand is what the scripts of shells call. It is in no help.
const completeCommand = "__complete"

// complete prints what the last of some words may become, one a line: commands, flags, or the words
// that the flag before it takes. It asks nobody.
func (p *program) complete(words []string) {
	root := p.tree()
	chosen, before := root, ""
	for _, word := range words[:max(0, len(words)-1)] {
		if i := slices.Index(names(chosen), word); i >= 0 && word != helpCommand {
			chosen = chosen.Subcommands[i]
		}
		before = strings.TrimLeft(word, "-")
	}
	all := names(chosen)
	if last := words[len(words)-1]; strings.HasPrefix(last, "-") {
		offer := func(f *flag.Flag) { all = append(all, dashed(f.Name)) }
		chosen.FlagSet.VisitAll(offer)
		root.FlagSet.VisitAll(offer)
	}
	for _, flags := range []*flag.FlagSet{chosen.FlagSet, root.FlagSet} {
		if f := flags.Lookup(before); f != nil && takesValue(f) {
			all = choicesOf(f)
		}
	}
	for _, word := range slices.Compact(slices.Sorted(slices.Values(all))) {
		if strings.HasPrefix(word, words[len(words)-1]) {
			p.say("%s\n", word)
		}
	}
}

// choicesOf are the words that a flag takes, where it takes certain ones only.
func choicesOf(f *flag.Flag) []string {
	if words, is := f.Value.(oneOf); is {
		return words.allowed
	}
	return map[string][]string{
		"output": {"table", "json"}, "tls": {"off", "verify"}, "log-level": {"trace", "debug", "info", "warn", "error"},
	}[f.Name]
}
