package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/logging"
)

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
