package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/term"
)

// errNotWanted ends a command whose question was not answered with yes.
var errNotWanted = errors.New("nothing was changed")

// confirm asks a person whether to go on. Where nobody can be asked, it is refused.
func (p *program) confirm(ctx context.Context, question string) error {
	file, ok := p.in.(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(file.Fd())) || !p.errTerminal {
		return wrongUsage("%s Nobody can be asked here: give --yes to go on, or --dry-run to see them", question)
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
		return why(ctx, ctx.Err())
	}
}
