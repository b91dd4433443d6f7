package main

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"jobd/cmd/internal/layout"
	"jobd/cmd/internal/logging"
	"jobd/cmd/internal/screen"
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
	return command("help [COMMAND]", "this help; of a command: what it does, its flags and examples", nil)
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
		"recycle":                {"jobctl recycle", "jobctl --master recycle mail --wait"},
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
		"queue":                  {"jobctl queue", "jobctl --master queue mail --watch"},
		"schedule":               {"jobctl schedule daily 02:30 --zone Europe/Berlin", "jobctl schedule '*/20 8-18 * * mon-fri' -n 3", "jobctl --master schedule --list --target reports", "jobctl schedule pause 4711"},
		"cancel":                 {"jobctl cancel 4711", "jobctl --master cancel --grace 1m mail:4711 4712", "jobctl --master cancel --target mail --waiting"},
		"tail":                   {"jobctl tail 4711", "jobctl --master tail -f 4711", "jobctl tail -n 100 mail:4711"},
		"token":                  {"jobctl token new shop --scope submit --targets 'mail,reports/*' --expires 90d", "jobctl token check --file /etc/jobd/principals <token.txt"},
		"token new":              {"jobctl token new shop --scope submit --targets 'mail,reports/*' --expires 90d", "jobctl token new prom --scope status --targets '*' --output json"},
		"token check":            {"jobctl token check <token.txt", "sudo -u jobd jobctl token check --file /etc/jobd/principals"},
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
	return command("completion SHELL", "print what makes bash, zsh or fish complete jobctl's commands, flags, targets and workers", func(_ context.Context, args []string) error {
		if len(args) != 1 || !slices.Contains(shells(), args[0]) {
			return wrongUsage("completion: needs a shell, got %q; allowed are: bash, zsh, fish", args)
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

// completeLimit is how long a daemon may take to name its targets: somebody has pressed a key.
const completeLimit = 500 * time.Millisecond

// aboutWidth is how much of a meaning is told: shells show it in one line.
const aboutWidth = 60

// What a script does beside offering words.
const (
	offerFiles      = ":files"      // files are to be offered
	offerUnfinished = ":unfinished" // no blank is to follow a word: it goes on
)

// candidate is a word that is offered, and what it means.
type candidate struct{ word, about string }

// complete prints what the last word of a command line may become, one candidate a line, with what
// it means behind a tab. args are "words" and the words of the line, or "line" and the line as a
// shell has it, up to the cursor. It never fails: there is just nothing to offer.
func (p *program) complete(ctx context.Context, args []string) error {
	words := []string{}
	switch {
	case len(args) > 1 && args[0] == "line":
		if words = splitLine(args[1]); len(words) > 0 {
			words = words[1:] // jobctl itself
		}
	case len(args) > 1 && args[0] == "words":
		words = args[1:]
	}
	if len(words) == 0 {
		return nil
	}
	p.err = io.Discard
	p.log, _ = logging.New(logging.Config{}, io.Discard)
	root := p.tree()
	before := words[:len(words)-1]
	given, _ := separate(root, before, false)
	c := completing{program: p, root: root, last: words[len(words)-1], known: given.known, profile: given.profile, value: given.pending}
	c.only = slices.Contains(before, "--")
	if c.helped = len(given.words) > 0 && given.words[0] == helpCommand; c.helped {
		given.words = given.words[1:]
	}
	for _, flag := range given.flags {
		if root.FlagSet.Lookup(flag.name) != nil {
			c.global = append(c.global, flag.args...)
		}
	}
	chosen, path := given.command(root)
	c.chosen, c.args = chosen, len(given.words)-len(path)
	ctx, cancel := context.WithTimeout(ctx, completeLimit)
	defer cancel()
	for _, one := range c.offer(ctx) {
		if strings.HasPrefix(one.word, c.last) && clean(one.word) == one.word || strings.HasPrefix(one.word, ":") {
			p.say("%s\n", strings.TrimRight(one.word+"\t"+screen.Cut(clean(one.about), aboutWidth), "\t"))
		}
	}
	return nil
}

// completing is a command line of which the last word is to be completed.
type completing struct {
	*program
	root, chosen *cmd
	known        map[string]*flag.Flag
	last         string

	global  []string   // the global flags so far
	args    int        // how many arguments the command has so far
	profile string     // "": none
	value   *flag.Flag // whose value the last word is; nil: of none
	only    bool       // behind --: there are only words
	helped  bool       // behind the word help: there are only commands
}

// offer gives all that may stand in the place of the last word.
func (c *completing) offer(ctx context.Context) []candidate {
	name, _, hasValue := strings.Cut(strings.TrimLeft(c.last, "-"), "=")
	isFlag := !c.only && strings.HasPrefix(c.last, "-")
	switch {
	case c.value != nil:
		return c.values(ctx, c.value.Name)
	case isFlag && hasValue:
		var all []candidate
		for _, one := range c.values(ctx, name) {
			if one.word != offerFiles {
				one.word = c.last[:strings.Index(c.last, "=")+1] + one.word
			}
			all = append(all, one)
		}
		return all
	case isFlag:
		return c.flags()
	case !c.only && strings.HasPrefix(c.last, "@"):
		return c.profiles()
	case len(c.chosen.Subcommands) > 0 && c.args == 0:
		return c.commands()
	case len(c.chosen.Subcommands) > 0, c.helped:
		return nil
	}
	return c.arguments(ctx)
}

func (c *completing) commands() (all []candidate) {
	for _, below := range c.chosen.Subcommands {
		all = append(all, candidate{below.Name, below.ShortHelp})
	}
	return all
}

func (c *completing) flags() (all []candidate) {
	offer := func(f *flag.Flag) { all = append(all, candidate{dashed(f.Name), f.Usage}) }
	c.chosen.FlagSet.VisitAll(offer)
	if c.chosen != c.root {
		c.root.FlagSet.VisitAll(offer)
	}
	return all
}

func (c *completing) profiles() (all []candidate) {
	c.configure()
	for _, name := range c.set.Profiles() {
		all = append(all, candidate{word: "@" + name})
	}
	return all
}

// configure reads what says which daemon is meant.
func (c *completing) configure() bool {
	c.set.Choose(c.profile)
	if err := c.set.Parse(c.global, c.environ, io.Discard); err != nil {
		return false
	}
	c.config.validate(c.set)
	return c.set.Err() == nil && !c.config.askPassword
}

// splitLine divides the beginning of a shell's command line into words. The last one is that which
// is being written; it is empty where a new one may begin. A quote that is not closed is open still.
func splitLine(line string) (words []string) {
	var word strings.Builder
	begun, quote := false, rune(0)
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case quote != 0 && r == quote:
			quote = 0
		case quote == '\'':
			word.WriteRune(r)
		case r == '\\':
			begun, escaped = true, true
		case quote == '"':
			word.WriteRune(r)
		case r == '\'' || r == '"':
			begun, quote = true, r
		case r == ' ' || r == '\t' || r == '\n':
			if begun {
				words = append(words, word.String())
				word.Reset()
			}
			begun = false
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	return append(words, word.String())
}

// choicesOf are the words that a flag takes, where it takes certain ones only.
func choicesOf(f *flag.Flag) []string {
	if words, is := f.Value.(oneOf); is {
		return words.allowed
	}
	switch f.Name {
	case "output":
		return []string{"table", "json"}
	case "tls":
		return []string{"off", "verify"}
	case "log-level":
		return []string{"trace", "debug", "info", "warn", "error"}
	}
	return nil
}

// values are the values of a flag that are offered.
func (c *completing) values(ctx context.Context, name string) []candidate {
	f := c.known[name]
	if f == nil {
		return nil
	}
	switch name {
	case "anchor", "config", "file", "journal", "out", "socket", "tls-ca", "tls-cert", "tls-key":
		return []candidate{{word: offerFiles}}
	case "target":
		return c.targets(ctx, "")
	}
	choices := slices.Clone(choicesOf(f))
	if words, is := f.Value.(oneOf); is && words.list != nil { // the word may have some of them already
		before := c.last[:strings.LastIndexAny(c.last, ",=")+1]
		if strings.Contains(before, "=") {
			before = before[strings.Index(before, "=")+1:]
		}
		for i := range choices {
			choices[i] = before + choices[i]
		}
	}
	return candidates(choices)
}

// candidates offers words whose meaning is plain.
func candidates(words []string) (all []candidate) {
	for _, word := range words {
		all = append(all, candidate{word: word})
	}
	return all
}

// arguments are what the chosen command's usage says of its next argument.
func (c *completing) arguments(ctx context.Context) []candidate {
	forms := strings.Fields(strings.TrimPrefix(c.chosen.ShortUsage, c.chosen.Name))
	if end := slices.Index(forms, "|"); end >= 0 {
		forms = forms[:end]
	}
	at := c.args
	if at >= len(forms) {
		if len(forms) == 0 || !strings.Contains(forms[len(forms)-1], "…") {
			return nil
		}
		at = len(forms) - 1
	}
	switch strings.Trim(forms[at], "[]…") {
	case "T":
		return c.targets(ctx, "")
	case "SIG":
		return signalNames()
	case "SHELL":
		return candidates(shells())
	case "ID":
		if all := c.targets(ctx, ":"); strings.Contains(c.chosen.ShortUsage, "T:ID") && len(all) > 0 {
			return append(all, candidate{word: offerUnfinished})
		}
	}
	return nil
}

func signalNames() (all []candidate) {
	for number := 1; number <= lastSignal; number++ {
		if name := unix.SignalName(unix.Signal(number)); name != "" {
			all = append(all, candidate{word: strings.TrimPrefix(name, "SIG")})
		}
	}
	return all
}

// targets are those of the worker, or of the master's workers, each with an end. A worker's jobs
// need none.
func (c *completing) targets(ctx context.Context, end string) (all []candidate) {
	if !c.configure() || end != "" && !c.config.master {
		return nil
	}
	for _, name := range c.daemon().Served(ctx) {
		all = append(all, candidate{word: name + end})
	}
	return all
}
