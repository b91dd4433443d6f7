package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/conf"
)

// arrange puts args into the order that ffcli wants: flags of jobctl, the
// command's words, flags of the command, its arguments. People write flags wherever they
// think of them. It also tells which command is meant.
func arrange(root *ffcli.Command, args []string) (*ffcli.Command, []string, error) {
	given, words := separate(root, args)
	chosen := root
	var path, before, after []string
	for len(words) > 0 {
		below := find(chosen, words[0])
		if below == nil {
			break
		}
		chosen, path, words = below, append(path, below.Name), words[1:]
	}
	if len(chosen.Subcommands) > 0 && len(words) > 0 {
		return nil, nil, fmt.Errorf("unknown command %s; the nearest known one is %s", words[0], conf.Nearest(words[0], names(chosen)))
	}
	for _, flag := range given {
		switch {
		case isKnown(root.FlagSet, flag.name):
			before = append(before, flag.args...)
		case isKnown(chosen.FlagSet, flag.name):
			after = append(after, flag.args...)
		default:
			return nil, nil, fmt.Errorf("unknown flag --%s; the nearest known one is --%s", flag.name, conf.Nearest(flag.name, flagNames(root, chosen)))
		}
	}
	arranged := slices.Concat(before, path, after)
	if len(words) > 0 {
		arranged = append(append(arranged, "--"), words...)
	}
	return chosen, arranged, nil
}

// given is a flag as it was given: in one or two args.
type given struct {
	name string
	args []string
}

// separate tells flags, each with its value, from words. After -- there are only words.
func separate(root *ffcli.Command, args []string) (flags []given, words []string) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return flags, append(words, args[i+1:]...)
		}
		if len(arg) < 2 || arg[0] != '-' {
			words = append(words, arg)
			continue
		}
		name, _, hasValue := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		flag := given{name: name, args: []string{arg}}
		if !hasValue && takesValue(root, name) && i+1 < len(args) {
			i++
			flag.args = append(flag.args, args[i])
		}
		flags = append(flags, flag)
	}
	return flags, words
}

// takesValue tells whether any command knows the flag as one with a value. A flag
// has the same form wherever it is known.
func takesValue(c *ffcli.Command, name string) bool {
	if f := c.FlagSet.Lookup(name); f != nil {
		value, ok := f.Value.(interface{ IsBoolFlag() bool })
		return !ok || !value.IsBoolFlag()
	}
	return slices.ContainsFunc(c.Subcommands, func(below *ffcli.Command) bool { return takesValue(below, name) })
}

func isKnown(flags *flag.FlagSet, name string) bool {
	return flags.Lookup(name) != nil || name == "h"
}

func find(c *ffcli.Command, name string) *ffcli.Command {
	for _, below := range c.Subcommands {
		if below.Name == name {
			return below
		}
	}
	return nil
}

func names(c *ffcli.Command) []string {
	var names []string
	for _, below := range c.Subcommands {
		names = append(names, below.Name)
	}
	return names
}

func flagNames(commands ...*ffcli.Command) []string {
	var names []string
	for _, c := range commands {
		c.FlagSet.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	}
	return names
}
