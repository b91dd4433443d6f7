package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/exit"
	jobnet "jobd/net"
)

// healthCommand is the command whose exit codes are those of Nagios.
const healthCommand = "health"

// state is how Nagios and its like want to be told: it is the exit code.
type state int

const (
	stateOK state = iota
	stateWarning
	stateCritical
	stateUnknown
)

// String is the word for it.
func (s state) String() string { return [...]string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}[s] }

// condition is what health tells.
type condition struct {
	state    state
	who      string   // the daemon that was asked
	problems []string // the worst first
	notes    []string // what there is to tell beside them
	numbers  []figure
}

// find adds a problem.
func (v *condition) find(s state, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if s > v.state {
		v.state = s
		v.problems = append([]string{text}, v.problems...)
		return
	}
	v.problems = append(v.problems, text)
}

func (p *program) health() *ffcli.Command {
	limits := usualLimits()
	c := command(healthCommand, "health [flags]", "for Nagios and its like: one line, and exit code 0, 1, 2 or 3 for well, warning, critical and unknown", func(ctx context.Context, args []string) error {
		if len(args) > 0 {
			return wrongUsage("health: takes no arguments, got %q", args)
		}
		v := &condition{who: p.config.address()}
		err := p.linked(ctx, func(ctx context.Context, c *client) error {
			s, err := takeCensus(ctx, c)
			if err == nil {
				s.count(ctx, append(s.targets(), s.unserved()...))
				limits.judge(v, s, p.now())
			}
			return err
		})
		if err != nil {
			if interrupted(ctx) {
				return why(ctx, err)
			}
			v.find(stateOf(err), "%s", strings.TrimPrefix(clean(err.Error()), v.who+": "))
		}
		return p.printHealth(v)
	})
	limits.register(c.FlagSet)
	return c
}

// stateOf is how bad it is that there is no answer: a daemon that can't be reached or does not
// answer is critical; one that says no, for want of the password, say, leaves unknown how it is.
func stateOf(err error) state {
	var refused *jobnet.RemoteError
	switch {
	case exit.Code(err) == exit.Connect, errors.Is(err, errSilent):
		return stateCritical
	case exit.Code(err) == exit.Usage, isPassword(err), errors.As(err, &refused):
		return stateUnknown
	}
	var unheard *unanswered
	if errors.As(err, &unheard) {
		return stateCritical
	}
	return stateUnknown
}

// printHealth prints one line, and gives the error that ends the program with its exit code.
func (p *program) printHealth(v *condition) error {
	if p.json() {
		numbers := make(map[string]*float64, len(v.numbers))
		for _, n := range v.numbers {
			numbers[n.name] = &n.value
			if n.lost {
				numbers[n.name] = nil
			}
		}
		text, err := json.Marshal(map[string]any{
			"state": strings.ToLower(v.state.String()), "code": int(v.state), "daemon": v.who,
			"problems": append([]string{}, v.problems...), "notes": append([]string{}, v.notes...), "numbers": numbers,
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(p.out, "%s\n", text)
	} else {
		fmt.Fprintln(p.out, v)
	}
	if v.state == stateOK {
		return nil
	}
	return exit.With(int(v.state), errTold)
}

// errTold is the error of a run that has told all that there is to tell.
var errTold = errors.New("")

// String is the line: what is wrong, else how it is, and the numbers behind a bar, which the text
// before must not have.
func (v *condition) String() string {
	text := strings.Join(v.problems, ", ")
	if len(v.notes) > 0 {
		text = strings.Join(append(v.problems, strings.Join(v.notes, ", ")), ", ")
	}
	line := "JOBD " + v.state.String() + " - " + v.who + ": " + cmp.Or(text, "it is well")
	line = strings.ReplaceAll(strings.Join(strings.Fields(line), " "), "|", "/")
	if len(v.numbers) == 0 {
		return line
	}
	words := make([]string, len(v.numbers))
	for i, n := range v.numbers {
		words[i] = n.String()
	}
	return line + " | " + strings.Join(words, " ")
}

// unknownUsage gives the errors of a wrong command line or configuration the exit code that means
// unknown, where the command is health: 2, which they have else, would be critical.
func unknownUsage(root *ffcli.Command, args []string, err error) error {
	if exit.Code(err) != exit.Usage || errors.Is(err, errTold) {
		return err
	}
	known := make(map[string]*flag.Flag)
	collect(root, known)
	for i := 0; i < len(args); i++ {
		if name, isFlag := strings.CutPrefix(args[i], "-"); isFlag { // the word behind it may be called as a command is
			if f := known[strings.TrimPrefix(name, "-")]; f != nil && takesValue(f) {
				i++
			}
			continue
		}
		for _, c := range root.Subcommands {
			if args[i] == c.Name && c.Name == healthCommand {
				return exit.With(int(stateUnknown), err)
			} else if args[i] == c.Name {
				return err
			}
		}
	}
	return err
}
