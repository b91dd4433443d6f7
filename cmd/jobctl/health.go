package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/operator"
)

// healthCommand is the command whose exit codes are those of Nagios.
const healthCommand = "health"

func (p *program) health() *cmd {
	var limits operator.Limits
	c := command("health", "for Nagios and its like: one line, and exit code 0, 1, 2 or 3 for well, warning, critical and unknown", func(ctx context.Context, args []string) error {
		h, err := operator.HealthOf(ctx, p.daemon(), limits, p.now())
		if err != nil {
			return err
		}
		return p.printHealth(h)
	})
	c.FlagSet.Func("max-age", "critical where the oldest row of a target has waited longer; a warning from 15m, critical from 1h on, if not given", span(&limits.MaxAge, time.Second, 0))
	c.FlagSet.Func("max-lag", "critical where the table has been behind the journal for longer; not judged if not given", span(&limits.MaxLag, time.Second, 0))
	return c
}

// printHealth prints one line, and gives the error that ends the program with its exit code.
func (p *program) printHealth(h *operator.Health) error {
	problems := make([]string, len(h.Problems))
	for i, problem := range h.Problems {
		problems[i] = problem.Text
	}
	if p.json() {
		numbers := make(map[string]*float64, len(h.Numbers))
		for _, n := range h.Numbers {
			numbers[n.Name] = &n.Value
			if n.Lost {
				numbers[n.Name] = nil
			}
		}
		err := p.printJSON(map[string]any{
			"state": strings.ToLower(h.State.String()), "code": int(h.State), "daemon": h.Who,
			"problems": problems, "notes": append([]string{}, h.Notes...), "numbers": numbers,
		})
		if err != nil {
			return err
		}
	} else {
		fmt.Fprintln(p.out, healthLine(h, problems))
	}
	if h.State == operator.OK {
		return nil
	}
	return exit.With(int(h.State), errTold)
}

// errTold is the error of a run that has told all that there is to tell.
var errTold = errors.New("")

// healthLine is the line: what is wrong, how it is, and the numbers behind a bar, which the text
// before must not have.
func healthLine(h *operator.Health, problems []string) string {
	text := strings.Join(append(problems, h.Notes...), ", ")
	line := "JOBD " + h.State.String() + " - " + h.Who + ": " + cmp.Or(text, "it is well")
	line = strings.ReplaceAll(strings.Join(strings.Fields(line), " "), "|", "/")
	if len(h.Numbers) == 0 {
		return line
	}
	words := make([]string, len(h.Numbers))
	for i, n := range h.Numbers {
		words[i] = figureText(n)
	}
	return line + " | " + strings.Join(words, " ")
}

// figureText is a number with its limits, in the form of Nagios' plugins: name=value;warning;critical;least;most,
// or U where nobody knows it.
func figureText(n operator.Figure) string {
	if n.Lost {
		return n.Name + "=U"
	}
	rounded := func(n float64) string { return strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64) }
	some := func(limit float64) string {
		if limit == 0 {
			return ""
		}
		return rounded(limit)
	}
	text := fmt.Sprintf("%s=%s%s;%s;%s;0;%s", n.Name, rounded(n.Value), n.Unit, some(n.Warn), some(n.Critical), some(n.Most))
	return strings.TrimRight(text, ";")
}

// unknownUsage gives the errors of a wrong command line or configuration the exit code that means
// unknown, where the command is health: 2, which they have else, would be critical.
func unknownUsage(root *cmd, args []string, err error) error {
	at := slices.IndexFunc(args, func(word string) bool { return slices.Contains(names(root), word) })
	if exit.Code(err) == exit.Usage && !errors.Is(err, errTold) && at >= 0 && args[at] == healthCommand {
		return exit.With(int(operator.Unknown), err)
	}
	return err
}
