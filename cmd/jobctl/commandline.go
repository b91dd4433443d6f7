package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/operator"
	jobnet "jobd/net"
)

// cmd is a command, declared once: what it takes, its help, completion and manual page come from here.
type cmd struct {
	Name        string
	ShortUsage  string // its words, and its arguments in capitals
	ShortHelp   string
	LongHelp    string // examples
	Group       string // under which the help has it
	Only        string // which daemons answer it: worker or master; "": both
	FlagSet     *flag.FlagSet
	Subcommands []*cmd
	Exec        func(ctx context.Context, args []string) error // nil: only those below it do something
}

// flagsInUsage are what a usage has of flags.
var flagsInUsage = regexp.MustCompile(` \[-[^\[\]]*(\[[^\]]*\][^\[\]]*)*\]`)

// command makes a command of its usage, which begins with its words. One whose usage has no arguments takes none.
func command(usage, help string, exec func(ctx context.Context, args []string) error) *cmd {
	words := strings.Fields(usage)
	if i := slices.IndexFunc(words, func(word string) bool { return word != strings.ToLower(word) || word[0] == '[' }); i >= 0 {
		words = words[:i]
	}
	name := strings.Join(words, " ")
	takesNone := flagsInUsage.ReplaceAllString(usage, "") == name
	return &cmd{
		Name: words[len(words)-1], ShortUsage: usage, ShortHelp: help, FlagSet: flag.NewFlagSet(name, flag.ContinueOnError),
		Exec: func(ctx context.Context, args []string) error {
			if takesNone && len(args) > 0 {
				return wrongUsage("%s: takes no arguments", name)
			}
			return exec(ctx, args)
		},
	}
}

// of says that only workers, or only masters, answer a command.
func (c *cmd) of(only string) *cmd {
	c.Only, c.ShortHelp = only, only+": "+c.ShortHelp
	return c
}

// arranged is a command line, taken apart by what is for whom.
type arranged struct {
	chosen  *cmd     // the command that is meant
	path    []string // its words
	global  []string // jobctl's flags
	flags   []givenFlag
	args    []string
	profile string // "": none
}

// arrange takes a command line apart: people write flags wherever they think of them.
func arrange(root *cmd, args []string) (a arranged, err error) {
	given, err := separate(root, args)
	if err != nil {
		return a, err
	}
	helped := given.askForHelp()
	chosen, path := given.command(root)
	words, places := given.words[len(path):], given.places[len(path):]
	a = arranged{chosen: chosen, path: path, args: words, profile: given.profile}
	if len(words) > 0 && chosen == root && elsewhere()[words[0]] != "" {
		return a, fmt.Errorf("unknown command %s; here that is: jobctl %s", words[0], elsewhere()[words[0]])
	}
	if len(words) > 0 && chosen == root && places[0] > 0 && args[places[0]-1] == "--password" {
		return a, errors.New("--password " + takesNoPassword)
	}
	if len(words) > 0 && (len(chosen.Subcommands) > 0 || helped) {
		return a, fmt.Errorf("%s; --help lists all", conf.Unexpected("unknown command", args, places[0], names(chosen)))
	}
	for _, flag := range given.flags {
		switch {
		case root.FlagSet.Lookup(flag.name) != nil || isHelp(flag.name):
			a.global = append(a.global, flag.args...)
		case chosen.FlagSet.Lookup(flag.name) != nil:
			a.flags = append(a.flags, flag)
		default:
			hint := "--help lists its flags"
			if flag.name == "journal" && chosen.Name == "show" {
				hint = "jobctl journal show has it"
			}
			return a, fmt.Errorf("flag %s is not for %s; %s", dashed(flag.name), strings.Join(append([]string{"jobctl"}, path...), " "), hint)
		}
	}
	return a, nil
}

// command is the command that the first words name, and these words.
func (g *given) command(root *cmd) (chosen *cmd, path []string) {
	chosen = root
	for i, word := range g.words {
		at := slices.IndexFunc(chosen.Subcommands, func(below *cmd) bool { return below.Name == word })
		if at < 0 {
			return chosen, g.words[:i]
		}
		chosen = chosen.Subcommands[at]
	}
	return chosen, g.words
}

// setFlags sets the flags of the command.
func (a *arranged) setFlags() error {
	for _, given := range a.flags {
		value := given.args[len(given.args)-1]
		isBool := !takesValue(a.chosen.FlagSet.Lookup(given.name))
		if len(given.args) == 1 {
			_, value, _ = strings.Cut(value, "=")
			if isBool && !strings.Contains(given.args[0], "=") {
				value = "true"
			}
		}
		err := a.chosen.FlagSet.Set(given.name, value)
		if err != nil && isBool {
			err = fmt.Errorf("%q is not allowed; allowed: true and false", value)
		}
		if err != nil {
			return wrongUsage("%s: %w", dashed(given.name), err)
		}
	}
	return nil
}

// givenFlag is a flag as it was given: in one or two args.
type givenFlag struct {
	name string
	args []string
}

// given is a command line taken apart. The places are those of the words in it.
type given struct {
	flags   []givenFlag
	words   []string
	places  []int
	profile string
}

// askForHelp makes the word help before a command's words the flag, and tells whether it stood there.
func (g *given) askForHelp() bool {
	asked := slices.ContainsFunc(g.flags, func(f givenFlag) bool { return isHelp(f.name) || f.name == helpCommand })
	if len(g.words) == 0 || g.words[0] != helpCommand || len(g.words) == 1 && asked {
		return false
	}
	g.flags = append(g.flags, givenFlag{name: "h", args: []string{"-h"}})
	g.words, g.places = g.words[1:], g.places[1:]
	return true
}

// separate tells flags, each with its value, from words and from the profile, the word that begins with
// @. After -- there are only words. A negative number is a word wherever it stands.
func separate(root *cmd, args []string) (g given, err error) {
	known := map[string]*flag.Flag{}
	collect(root, known)
	for _, arg := range args { // commands may have different flags of one name: the first command that is named decides
		if i := slices.IndexFunc(root.Subcommands, func(c *cmd) bool { return c.Name == arg }); i >= 0 {
			collect(root.Subcommands[i], known)
			break
		}
	}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			for i++; i < len(args); i++ {
				g.words, g.places = append(g.words, args[i]), append(g.places, i)
			}
			break
		}
		if len(arg) < 2 || arg[0] != '-' || negative.MatchString(arg) {
			if err := g.word(arg, i); err != nil {
				return g, err
			}
			continue
		}
		name, _, hasValue := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		if known[name] == nil && !isHelp(name) {
			return g, fmt.Errorf("%s; --help lists all", conf.Unexpected("unknown flag", args, i, slices.Collect(maps.Keys(known))))
		}
		given := givenFlag{name, []string{arg}}
		if !isHelp(name) && !hasValue && takesValue(known[name]) {
			if i++; i == len(args) {
				return g, fmt.Errorf("flag %s needs a value", dashed(name))
			}
			given.args = append(given.args, args[i])
		}
		g.flags = append(g.flags, given)
	}
	return g, nil
}

// word takes in what is no flag.
func (g *given) word(arg string, place int) error {
	name, isProfile := strings.CutPrefix(arg, "@")
	switch {
	case !isProfile || len(g.words) == 1 && g.words[0] == scheduleCommand && slices.Contains(cronWords(), arg):
		g.words, g.places = append(g.words, arg), append(g.places, place)
	case name == "":
		return errors.New("a profile has a name, as in @prod; write a word that is only @ after --")
	case g.profile != "" && g.profile != name:
		return fmt.Errorf("profiles @%s and @%s: only one is allowed; put other words that begin with @ after --", g.profile, name)
	default:
		g.profile = name
	}
	return nil
}

// collect gathers the flags of a command and of all below it.
func collect(c *cmd, known map[string]*flag.Flag) {
	c.FlagSet.VisitAll(func(f *flag.Flag) { known[f.Name] = f })
	for _, below := range c.Subcommands {
		collect(below, known)
	}
}

func takesValue(f *flag.Flag) bool {
	value, ok := f.Value.(interface{ IsBoolFlag() bool })
	return !ok || !value.IsBoolFlag()
}

// isHelp knows the short form of --help, which package flag answers unregistered.
func isHelp(name string) bool { return name == "h" }

func names(c *cmd) []string {
	var names []string
	for _, below := range c.Subcommands {
		names = append(names, below.Name)
	}
	return names
}

// valueNames are what stands for the values of flags in the help, where they don't take certain words.
var valueNames = map[string]string{
	"anchor": "FILE", "at": "TIME", "by": "TEXT", "code": "N", "expires": "D", "file": "FILE", "grace": "D", "interval": "D", "job": "ID", "max-age": "D", "max-lag": "D",
	"journal": "DIR", "kind": "K,…", "n": "N", "out": "FILE", "scope": "S", "since": "TIME", "status": "S", "target": "T", "targets": "T,…", "until": "TIME", "zone": "Z",
}

// withValue is a flag of a command as people write it, with what stands for its value.
func withValue(f *flag.Flag) string {
	if !takesValue(f) {
		return dashed(f.Name)
	}
	name := valueNames[f.Name]
	if words, is := f.Value.(oneOf); is && len(words.allowed) <= 3 {
		name = strings.Join(words.allowed, "|")
	}
	return dashed(f.Name) + " " + name
}

// value registers a flag of a command whose value is read as those of the configuration are.
func (c *cmd) value(name, usage string, read conf.Decode) {
	c.FlagSet.Func(name, usage, func(text string) error {
		if err := read(text); err != nil {
			return fmt.Errorf("%q is not allowed; allowed: %w", text, err)
		}
		return nil
	})
}

// oneOf is a flag.Value for one of some words; several, with commas between them, are added to a list.
type oneOf struct {
	value   *string
	list    *[]string // nil: one word
	allowed []string
}

// String implements flag.Value.
func (f oneOf) String() string { return "" }

// Set implements flag.Value.
func (f oneOf) Set(text string) error {
	words := []string{text}
	if f.list != nil {
		words = strings.Split(text, ",")
	}
	for _, word := range words {
		word = strings.TrimSpace(word)
		if !slices.Contains(f.allowed, word) {
			return fmt.Errorf("%q is not allowed; allowed: %s", word, strings.Join(f.allowed, ", "))
		}
		if f.list != nil {
			*f.list = append(*f.list, word)
		} else {
			*f.value = word
		}
	}
	return nil
}

// errID says what an id is.
var errID = errors.New("a whole number of 64 bits other than 0")

// parseID reads a job's id. A negative one is an id like others: tables have them.
func parseID(text string) (jobnet.Whole, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id == 0 {
		return 0, errID
	}
	return jobnet.Whole(id), nil
}

// negative knows a negative number where a flag might stand: no flag is a number.
var negative = regexp.MustCompile(`^-[0-9]+$`)

// roundable is the length from which on a number may be rounded: 2⁵³ has so many digits.
const roundable = len("9007199254740992")

// tokens are the strings and numbers of JSON.
var tokens = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?[0-9][-+.eE0-9]*`)

// exact is JSON in which whole numbers that JavaScript would round are strings of their digits:
// what net.Whole does for one number, for all of them.
func exact(text []byte) []byte {
	digits := 0
	if bytes.IndexFunc(text, func(r rune) bool {
		if digits++; r < '0' || r > '9' {
			digits = 0
		}
		return digits >= roundable
	}) < 0 {
		return text
	}
	return tokens.ReplaceAllFunc(text, func(token []byte) []byte {
		whole, err := strconv.ParseInt(string(token), 10, 64)
		if len(token) < roundable || err != nil {
			return token
		}
		number, _ := jobnet.Whole(whole).MarshalJSON()
		return number
	})
}

// printJSON prints a value in one line.
func (p *program) printJSON(value any) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		p.fail(err)
		return
	}
	_, _ = p.out.Write(exact(text.Bytes()))
}

// windowFlags are the flags that narrow a command to a time.
func (p *program) windowFlags(c *cmd, since, until *time.Time) {
	c.FlagSet.Func("since", "only from this time on: 2026-11-20 14:00, 14:00, 2h (ago), or unix time in seconds", p.moment(since))
	c.FlagSet.Func("until", "only before this time", p.moment(until))
	checkFirst(c, func([]string) error { return inOrder(*since, *until) })
}

// inOrder refuses a window in which nothing can lie.
func inOrder(since, until time.Time) error {
	if since.IsZero() || until.IsZero() || since.Before(until) {
		return nil
	}
	return wrongUsage("--since %s is not before --until %s", since.Format(time.RFC3339Nano), until.Format(time.RFC3339Nano))
}

// moment reads the value of a flag for a moment.
func (p *program) moment(at *time.Time) func(text string) error {
	return func(text string) (err error) {
		*at, err = operator.ParseTime(text, p.now(), p.location)
		return err
	}
}

// consent is whether somebody wants what a command is about to do to many.
type consent struct{ dry, yes bool }

// flags registers its flags; before says when they count.
func (c *consent) flags(to *cmd, before string) {
	to.FlagSet.BoolVar(&c.dry, "dry-run", false, before+"only show what would be done")
	to.FlagSet.BoolVar(&c.yes, "yes", false, before+"do not ask")
}

// given shows what would be done, or asks whether it is meant. Where it is not given, nothing is to be done.
func (p *program) given(ctx context.Context, c consent, question string, show func() error) (given bool, err error) {
	switch {
	case c.dry:
		return false, show()
	case c.yes:
		return true, nil
	}
	err = p.confirm(ctx, question)
	return err == nil, err
}

// errNotWanted ends a command whose question was not answered with yes.
var errNotWanted = errors.New("nothing was changed")

// canAsk tells whether a person can be asked.
func (p *program) canAsk() bool {
	file, ok := p.in.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(file.Fd())) && p.errTerminal
}

// confirm asks a person whether to go on. Where nobody can be asked, it is refused.
func (p *program) confirm(ctx context.Context, question string) error {
	if !p.canAsk() {
		return wrongUsage("%s There is no terminal to ask at: give --yes to go on, or --dry-run to see them", question)
	}
	fmt.Fprintf(p.err, "%s Go on? [y/N] ", question)
	answer := make(chan string, 1)
	go func() { // it ends with the process, where nobody answers
		line, _ := bufio.NewReader(p.in).ReadString('\n')
		answer <- line
	}()
	select {
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
		return errNotWanted
	case <-ctx.Done():
		fmt.Fprintln(p.err)
		return exit.Why(ctx, ctx.Err())
	}
}
