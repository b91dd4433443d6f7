package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/page"
)

// groupOf names the commands of a group.
type groupOf struct {
	title    string
	commands []string
}

// groups are the commands as the help has them. What is in none comes last.
func groups() []groupOf {
	return []groupOf{
		{"see what is", []string{
			"status", "top", "ps", "queue", "failed", "show", "why", "tail", "health", "list-targets", "list-workers", "memory-usage",
		}},
		{"change what is to happen to jobs", []string{"run-manual", "run-now", "retry", "cancel", "send-signal", "wait", "schedule"}},
		{"targets, and the worker itself", []string{
			"pause", "continue", "poll", "poke", "add-target", "remove-target", "set-target-concurrency", "recycle", "reload", "restart",
		}},
		{"read what happened", []string{"journal"}},
		{"about jobctl", []string{helpCommand, "completion"}},
	}
}

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
func usage(w io.Writer, c *ffcli.Command) (global bool) {
	global = c.Name == "jobctl"
	for i, line := range page.Wrap("usage: jobctl [flags] "+c.ShortUsage, page.Width-4) {
		fmt.Fprintf(w, "%s%s\n", strings.Repeat("    ", min(i, 1)), line)
	}
	fmt.Fprintln(w)
	if c.ShortHelp != "" {
		page.Text(w, c.ShortHelp)
		fmt.Fprintln(w)
	}
	if !global && len(c.Subcommands) > 0 {
		page.List(w, termsOf(c.Subcommands))
		fmt.Fprintln(w)
	}
	if flags := flagsOf(c); len(flags) > 0 && !global {
		fmt.Fprintln(w, "flags:")
		page.List(w, flags)
		fmt.Fprintln(w)
	}
	if global {
		return true
	}
	writeExamples(w, c)
	page.Text(w, "The flags of all commands are in: jobctl help. More: man jobctl, docs/jobctl.md.")
	return false
}

// usageBelow writes what stands below the global flags: the commands, where a terminal shows them last.
func usageBelow(w io.Writer, c *ffcli.Command) {
	if c != nil && c.Name == "jobctl" {
		fmt.Fprintln(w)
		listGroups(w, c.Subcommands)
		writeExamples(w, c)
		page.Text(w, "One command, with its flags and examples: jobctl help COMMAND. More: man jobctl, docs/jobctl.md.")
	}
}

func writeExamples(w io.Writer, c *ffcli.Command) {
	if c.LongHelp != "" {
		fmt.Fprintf(w, "examples:\n%s\n\n", strings.Trim(c.LongHelp, "\n"))
	}
}

// listGroups writes all commands, in their groups.
func listGroups(w io.Writer, all []*ffcli.Command) {
	for _, group := range grouped(all) {
		fmt.Fprintf(w, "%s:\n", group.title)
		page.List(w, termsOf(group.members))
		fmt.Fprintln(w)
	}
}

// commandGroup is commands that are listed together.
type commandGroup struct {
	title   string
	members []*ffcli.Command
}

// grouped gives all commands in their groups; what is in none is in the last one.
func grouped(all []*ffcli.Command) (list []commandGroup) {
	rest := slices.Clone(all)
	for _, group := range groups() {
		var members []*ffcli.Command
		for _, name := range group.commands {
			if i := slices.IndexFunc(rest, func(c *ffcli.Command) bool { return c.Name == name }); i >= 0 {
				members, rest = append(members, rest[i]), slices.Delete(rest, i, i+1)
			}
		}
		if len(members) > 0 {
			list = append(list, commandGroup{group.title, members})
		}
	}
	if len(rest) > 0 {
		list = append(list, commandGroup{"further", rest})
	}
	return list
}

// termsOf is commands as they are listed.
func termsOf(commands []*ffcli.Command) (terms []page.Term) {
	for _, c := range commands {
		terms = append(terms, page.Term{Name: c.ShortUsage, Meaning: c.ShortHelp})
	}
	return terms
}

// flagsOf is the flags of a command as they are listed.
func flagsOf(c *ffcli.Command) (terms []page.Term) {
	c.FlagSet.VisitAll(func(f *flag.Flag) {
		terms = append(terms, page.Term{Name: withValue(c.Name, f), Meaning: f.Usage})
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
func help() *ffcli.Command {
	return command(helpCommand, "help [COMMAND]", "this; of a command: what it does, its flags, and examples", nil)
}

// examples are what the help of a command ends with, by the command's words, one a line.
func examples() map[string][]string {
	return map[string][]string{
		"":                       {"jobctl status", "jobctl --master --host 10.0.0.5 list-workers", "jobctl journal log --since 1h"},
		"status":                 {"jobctl status", "jobctl --master status", "jobctl status --output json | jq .journal"},
		"health":                 {"jobctl health", "jobctl --master health --workers 3,1 --oldest 10m,1h", "jobctl health --waiting 1000,5000 --failures 10%,50% --timeout 8s"},
		"list-targets":           {"jobctl list-targets", "jobctl list-targets --host 10.0.0.7"},
		"list-workers":           {"jobctl --master list-workers", "jobctl --master list-workers --output json | jq '.workers[].name'"},
		"memory-usage":           {"jobctl memory-usage", "jobctl --master memory-usage"},
		"poll":                   {"jobctl poll", "jobctl poll mail video/convert"},
		"poke":                   {"jobctl --master poke mail"},
		"pause":                  {"jobctl pause mail", "jobctl --master pause"},
		"continue":               {"jobctl continue mail", "jobctl --master continue"},
		"recycle":                {"jobctl recycle", "jobctl --master recycle mail --wait"},
		"add-target":             {"jobctl add-target reports 2"},
		"remove-target":          {"jobctl remove-target reports"},
		"set-target-concurrency": {"jobctl set-target-concurrency mail 20", "jobctl --master set-target-concurrency mail 20 --dry-run"},
		"reload":                 {"jobctl reload", "jobctl --master reload"},
		"restart":                {"jobctl restart", "jobctl restart --timeout 5m", "jobctl --master restart --all"},
		"run-manual":             {"jobctl run-manual 4711", "jobctl --master run-manual mail:4711 mail:4712"},
		"send-signal":            {"jobctl send-signal TERM 4711", "jobctl --master send-signal USR1 mail:4711", "jobctl send-signal 0 4711"},
		"completion":             {"source <(jobctl completion bash)", "jobctl completion zsh >~/.zfunc/_jobctl", "jobctl completion fish >~/.config/fish/completions/jobctl.fish"},
		"help":                   {"jobctl help pause", "jobctl help journal log"},
		"journal":                {"jobctl journal show 4711", "jobctl --master journal log --since 1h", "jobctl journal verify --journal /var/lib/jobd/node-1"},
		"journal log":            {"jobctl journal log -n20", "jobctl journal log --job 4711", "jobctl --master journal log --kind done --target mail --follow"},
		"journal show":           {"jobctl journal show 4711", "jobctl journal show --journal /var/lib/jobd/node-1 -- -5"},
		"journal state":          {"jobctl journal state --status running", "jobctl journal state --at '2026-11-20 14:00'", "jobctl journal state --target mail --since 1h -n20"},
		"journal conflicts":      {"jobctl journal conflicts --since 1d"},
		"journal stats":          {"jobctl journal stats --since 1d", "jobctl --master journal stats --by worker"},
		"journal export":         {"jobctl journal export --since 1d >events.jsonl", "jobctl journal export --format csv >events.csv"},
		"journal verify":         {"jobctl journal verify", "jobctl journal verify --anchor /mnt/safe/anchors"},
		"journal anchor":         {"jobctl --master journal anchor --out /mnt/safe/anchors"},
		"journal diff":           {"jobctl journal diff", "jobctl --master journal diff --ignore-deleted"},
		"journal reapply":        {"jobctl --master journal reapply --since '2026-11-20 03:00' --dry-run", "jobctl --master journal reapply --journal /mnt/node-3"},
	}
}

// illustrate gives the examples to a command and to all below it.
func illustrate(c *ffcli.Command, words string) {
	lines := examples()[words]
	if c.LongHelp == "" && len(lines) > 0 {
		c.LongHelp = "  " + strings.Join(lines, "\n  ")
	}
	for _, below := range c.Subcommands {
		illustrate(below, strings.TrimSpace(words+" "+below.Name))
	}
}
