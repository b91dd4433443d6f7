package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/conf"
)

// arranged is a command line in the order that ffcli wants.
type arranged struct {
	chosen  *ffcli.Command // the command that is meant
	args    []string
	profile string // "": none
}

// arrange puts args into the order that ffcli wants: flags of jobctl, the
// command's words, flags of the command, its arguments. People write flags wherever they
// think of them.
func arrange(root *ffcli.Command, args []string) (a arranged, err error) {
	given, err := separate(root, args)
	if err != nil {
		return a, err
	}
	helped := given.askForHelp()
	words, places := given.words, given.places
	chosen := root
	var path, before, after []string
	for len(words) > 0 {
		i := slices.IndexFunc(chosen.Subcommands, func(below *ffcli.Command) bool { return below.Name == words[0] })
		if i < 0 {
			break
		}
		chosen, path, words, places = chosen.Subcommands[i], append(path, words[0]), words[1:], places[1:]
	}
	if len(words) > 0 && (len(chosen.Subcommands) > 0 || helped) {
		return a, fmt.Errorf("%s; --help lists all", conf.Unexpected("unknown command", args, places[0], names(chosen)))
	}
	for _, flag := range given.flags {
		switch {
		case root.FlagSet.Lookup(flag.name) != nil || isHelp(flag.name):
			before = append(before, flag.args...)
		case chosen.FlagSet.Lookup(flag.name) != nil:
			after = append(after, flag.args...)
		default:
			return a, fmt.Errorf("flag %s is not for %s; --help tells which are", dashed(flag.name), strings.Join(append([]string{"jobctl"}, path...), " "))
		}
	}
	a = arranged{chosen, slices.Concat(before, path, after), given.profile}
	if len(words) > 0 {
		a.args = append(append(a.args, "--"), words...)
	}
	return a, nil
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

// separate tells flags, each with its value, from words, and the word that begins with @, the
// profile. After -- there are only words, and a negative number is one anywhere. A flag that no
// command knows is an error.
func separate(root *ffcli.Command, args []string) (g given, err error) {
	known := map[string]*flag.Flag{}
	collect(root, known)
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
		flags := shortFlags(arg, known)
		if flags == nil {
			name, _, hasValue := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
			if known[name] == nil && !isHelp(name) {
				return g, fmt.Errorf("%s; --help lists all", conf.Unexpected("unknown flag", args, i, slices.Collect(maps.Keys(known))))
			}
			flags = []givenFlag{{name, []string{arg}}}
			if hasValue || isHelp(name) {
				g.flags = append(g.flags, flags...)
				continue
			}
		}
		last := &flags[len(flags)-1]
		if takesValue(known[last.name]) && len(last.args) == 1 {
			if i++; i == len(args) {
				return g, fmt.Errorf("flag %s needs a value", dashed(last.name))
			}
			last.args = append(last.args, args[i])
		}
		g.flags = append(g.flags, flags...)
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
		return errors.New("a profile has a name, as in @prod; a word that is only @ stands behind --")
	case g.profile != "" && g.profile != name:
		return fmt.Errorf("profiles @%s and @%s: only one can be meant; a word that begins with @ stands behind --", g.profile, name)
	default:
		g.profile = name
	}
	return nil
}

// shortFlags takes apart what is written behind one hyphen: flags of one letter, the last maybe with
// its value, as in -n20 and -fn20, or without it, which is the next word then. It is nil for anything
// else.
func shortFlags(arg string, known map[string]*flag.Flag) (flags []givenFlag) {
	letters := arg[1:]
	name, _, _ := strings.Cut(letters, "=")
	if len(letters) < 2 || known[name] != nil {
		return nil
	}
	for i := range len(letters) {
		name := letters[i : i+1]
		if known[name] == nil {
			return nil
		}
		given := givenFlag{name: name, args: []string{"-" + name}}
		if takesValue(known[name]) {
			if i+1 < len(letters) {
				given.args = append(given.args, letters[i+1:])
			}
			return append(flags, given)
		}
		flags = append(flags, given)
	}
	return flags
}

// collect gathers the flags of a command and of all below it. A flag has the
// same form wherever it is known.
func collect(c *ffcli.Command, known map[string]*flag.Flag) {
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

func names(c *ffcli.Command) []string {
	var names []string
	for _, below := range c.Subcommands {
		names = append(names, below.Name)
	}
	return names
}
