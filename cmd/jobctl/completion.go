package main

import (
	"context"
	"embed"
	"fmt"
	"slices"

	"github.com/peterbourgon/ff/v3/ffcli"
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
