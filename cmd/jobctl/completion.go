package main

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"
	"golang.org/x/sys/unix"

	"jobd/cmd/internal/logging"
	"jobd/cmd/internal/operator"
	"jobd/net/api"
)

//go:embed completions
var completions embed.FS

// shells are those for which there is a script.
func shells() []string { return []string{"bash", "zsh", "fish"} }

func (p *program) completion() *ffcli.Command {
	return command("completion", "completion SHELL", "print what makes bash, zsh or fish complete jobctl's commands, flags, targets and workers", func(_ context.Context, args []string) error {
		if len(args) != 1 || !slices.Contains(shells(), args[0]) {
			return wrongUsage("completion: needs a shell, got %q; allowed are: bash, zsh, fish", args)
		}
		script, err := completions.ReadFile("completions/jobctl." + args[0])
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.out, "%s", script)
		return err
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
	c := completing{program: p, root: root, chosen: root, last: words[len(words)-1], known: map[string]*flag.Flag{}}
	collect(root, c.known)
	c.read(words[:len(words)-1])
	ctx, cancel := context.WithTimeout(ctx, completeLimit)
	defer cancel()
	for _, one := range c.offer(ctx) {
		if strings.HasPrefix(one.word, c.last) && clean(one.word) == one.word || strings.HasPrefix(one.word, ":") {
			fmt.Fprintln(p.out, strings.TrimRight(one.word+"\t"+cut(clean(one.about), aboutWidth), "\t"))
		}
	}
	return nil
}

// completing is a command line of which the last word is to be completed.
type completing struct {
	*program
	root, chosen *ffcli.Command
	known        map[string]*flag.Flag
	last         string

	global  []string   // the global flags so far
	args    []string   // the command's arguments so far
	profile string     // "": none
	value   *flag.Flag // whose value the last word is; nil: of none
	only    bool       // behind --: there are only words
	helped  bool       // behind the word help: there are only commands
}

// read takes in the words before the last one. What makes no sense is passed over.
func (c *completing) read(words []string) {
	for _, word := range words {
		profile, isProfile := strings.CutPrefix(word, "@")
		switch {
		case c.value != nil:
			if c.root.FlagSet.Lookup(c.value.Name) != nil {
				c.global = append(c.global, "--"+c.value.Name, word)
			}
			c.value = nil
		case c.only:
			c.word(word)
		case word == "--":
			c.only = true
		case len(word) > 1 && word[0] == '-' && !negative.MatchString(word):
			c.flag(word)
		case isProfile:
			c.profile = profile
		default:
			c.word(word)
		}
	}
}

func (c *completing) word(word string) {
	if c.chosen == c.root && word == helpCommand && len(c.args) == 0 {
		c.helped = true
		return
	}
	i := slices.IndexFunc(c.chosen.Subcommands, func(below *ffcli.Command) bool { return below.Name == word })
	if i < 0 {
		c.args = append(c.args, word)
		return
	}
	c.chosen = c.chosen.Subcommands[i]
}

func (c *completing) flag(word string) {
	name, _, hasValue := strings.Cut(strings.TrimPrefix(word[1:], "-"), "=")
	f := c.known[name]
	switch {
	case f == nil:
	case !hasValue && takesValue(f):
		c.value = f
	case c.root.FlagSet.Lookup(name) != nil:
		c.global = append(c.global, word)
	}
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
	case len(c.chosen.Subcommands) > 0 && len(c.args) == 0:
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

// chooses is implemented by the values of flags that take certain words only.
type chooses interface{ choices() []string }

func (kindsFlag) choices() []string  { return kindNames() }
func (statusFlag) choices() []string { return statusNames() }
func (byFlag) choices() []string     { return []string{byTarget, byHour, byWorker} }
func (formatFlag) choices() []string { return []string{"jsonl", "csv"} }

// choicesOf are the words that a flag takes, where it takes certain ones only.
func choicesOf(f *flag.Flag) []string {
	if c, ok := f.Value.(chooses); ok {
		return c.choices()
	}
	switch f.Name {
	case "output":
		return []string{"table", "json"}
	case "log-level":
		return []string{"trace", "debug", "info", "warn", "error"}
	case "sort":
		return []string{api.SortAge, api.SortCPU, api.SortMemory}
	case "result":
		return []string{"ok", "fail"}
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
	case "config", "journal", "anchor", "out":
		return []candidate{{word: offerFiles}}
	case "target":
		return c.targets(ctx, "")
	case "worker":
		return c.workers(ctx)
	}
	choices := choicesOf(f)
	if _, list := f.Value.(*kindsFlag); list { // the word may have some of them already
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
	at := len(c.args)
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
	for number := 1; number < firstRealTime; number++ {
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
	for _, name := range c.served(ctx) {
		all = append(all, candidate{word: name + end})
	}
	return all
}

// served are the targets that the daemon tells of, in their order; none where it does not answer.
func (p *program) served(ctx context.Context) []string {
	if !p.config.master {
		var status workerStatus
		p.askQuietly(ctx, api.Status.Name, nil, &status)
		return slices.Sorted(maps.Keys(status.Targets))
	}
	var status masterStatus
	p.askQuietly(ctx, api.MasterStatus.Name, api.Polling{}, &status)
	served := map[string]bool{}
	for _, worker := range status.Workers {
		for _, name := range worker.Targets {
			served[name] = true
		}
	}
	return slices.Sorted(maps.Keys(served))
}

func (c *completing) workers(ctx context.Context) (all []candidate) {
	if !c.configure() || !c.config.master {
		return nil
	}
	var status masterStatus
	c.askQuietly(ctx, api.MasterStatus.Name, api.Polling{}, &status)
	for _, worker := range status.Workers {
		all = append(all, candidate{word: worker.Name, about: strings.Join(worker.Targets, ", ")})
	}
	return all
}

// askQuietly asks, and leaves the answer as it is where there is none.
func (p *program) askQuietly(ctx context.Context, typ string, data, into any) {
	_ = p.linked(ctx, func(ctx context.Context, c *operator.Daemon) error { return c.AskInto(ctx, typ, data, into) })
}
