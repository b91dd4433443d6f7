package main

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/conf"
)

// arrange puts args into the order that ffcli wants: flags of jobctl, the
// command's words, flags of the command, its arguments. People write flags wherever they
// think of them. It also returns the command that is meant.
func arrange(root *ffcli.Command, args []string) (*ffcli.Command, []string, error) {
	given, words, places, err := separate(root, args)
	if err != nil {
		return nil, nil, err
	}
	isHelpFor := false
	asked := slices.ContainsFunc(given, func(f givenFlag) bool { return isHelp(f.name) || f.name == "help" })
	if len(words) > 0 && words[0] == helpCommand && (len(words) > 1 || !asked) {
		given, words, places = append(given, givenFlag{name: "h", args: []string{"-h"}}), words[1:], places[1:]
		isHelpFor = true
	}
	chosen := root
	var path, before, after []string
	for len(words) > 0 {
		i := slices.IndexFunc(chosen.Subcommands, func(below *ffcli.Command) bool { return below.Name == words[0] })
		if i < 0 {
			break
		}
		chosen, path, words, places = chosen.Subcommands[i], append(path, words[0]), words[1:], places[1:]
	}
	if len(words) > 0 && (len(chosen.Subcommands) > 0 || isHelpFor) {
		return nil, nil, fmt.Errorf("%s; --help lists all", conf.Unexpected("unknown command", args, places[0], names(chosen)))
	}
	for _, flag := range given {
		switch {
		case root.FlagSet.Lookup(flag.name) != nil || isHelp(flag.name):
			before = append(before, flag.args...)
		case chosen.FlagSet.Lookup(flag.name) != nil:
			after = append(after, flag.args...)
		default:
			return nil, nil, fmt.Errorf("flag %s is not for %s; --help tells which are", dashed(flag.name), strings.Join(append([]string{"jobctl"}, path...), " "))
		}
	}
	arranged := slices.Concat(before, path, after)
	if len(words) > 0 {
		arranged = append(append(arranged, "--"), words...)
	}
	return chosen, arranged, nil
}

// givenFlag is a flag as it was given: in one or two args.
type givenFlag struct {
	name string
	args []string
}

// separate tells flags, each with its value, from words. After -- there are only words, and a
// negative number is one anywhere. A flag that no command knows is an error. The places are those
// of the words in args.
func separate(root *ffcli.Command, args []string) (flags []givenFlag, words []string, places []int, err error) {
	known := map[string]*flag.Flag{}
	collect(root, known)
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			for i++; i < len(args); i++ {
				words, places = append(words, args[i]), append(places, i)
			}
			break
		}
		if len(arg) < 2 || arg[0] != '-' || negative.MatchString(arg) {
			words, places = append(words, arg), append(places, i)
			continue
		}
		if short := shortFlags(arg, known); short != nil {
			last := &short[len(short)-1]
			if takesValue(known[last.name]) && len(last.args) == 1 {
				if i++; i == len(args) {
					return nil, nil, nil, fmt.Errorf("flag %s needs a value", dashed(last.name))
				}
				last.args = append(last.args, args[i])
			}
			flags = append(flags, short...)
			continue
		}
		name, _, hasValue := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		given := givenFlag{name: name, args: []string{arg}}
		switch {
		case isHelp(name):
		case known[name] == nil:
			return nil, nil, nil, fmt.Errorf("%s; --help lists all", conf.Unexpected("unknown flag", args, i, slices.Collect(maps.Keys(known))))
		case hasValue || !takesValue(known[name]):
		case i+1 == len(args):
			return nil, nil, nil, fmt.Errorf("flag %s needs a value", dashed(name))
		default:
			i++
			given.args = append(given.args, args[i])
		}
		flags = append(flags, given)
	}
	return flags, words, places, nil
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
