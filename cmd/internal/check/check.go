// Package check gathers and shows what a daemon would find at its start: the report of --check.
package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"
	"unicode"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
)

// Level tells how good a finding is.
type Level int

// The levels.
const (
	OK      Level = iota
	Warning       // it works, but not as somebody may expect
	Wrong         // something outside of the configuration has to be mended
	Mistake       // the configuration itself is wrong
)

// String is how the report begins a line.
func (l Level) String() string {
	return [...]string{"ok", "warning", "wrong", "wrong"}[l]
}

// Finding is one line of the report. No part of it holds a password.
type Finding struct {
	Level  Level
	What   string // the thing that it is about
	Detail string // how it is, or what is wrong with it
	Remedy string // what mends it; "": nothing, or it is plain
	Ends   bool   // it would end a start
}

// Part looks at one thing. All parts look at once.
type Part struct {
	What string
	Look func(ctx context.Context) []Finding
}

// limit is how long a part may look. Whatever answers at all needs less.
const limit = 6 * time.Second

// Look runs all parts at the same time, and gives their findings in the order of the parts. A part
// that hangs (on a database, a network disk or a master) delays the report; at the limit Look goes
// on without it, and reports that.
func Look(parts []Part) []Finding {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	found := make([]chan []Finding, len(parts))
	for i, part := range parts {
		found[i] = make(chan []Finding, 1)
		go func() { found[i] <- part.Look(ctx) }()
	}
	late, end := context.WithTimeout(context.Background(), limit+time.Second) // parts that see ctx end say themselves what hangs
	defer end()
	var all []Finding
	for i, part := range parts {
		select {
		case findings := <-found[i]:
			all = append(all, findings...)
		case <-late.Done():
			all = append(all, Finding{Level: Wrong, What: part.What, Detail: fmt.Sprintf("no answer within %v", limit)})
		}
	}
	return all
}

// Configuration gives the findings of reading a configuration. The error has the warnings among its
// lines; each is one finding.
func Configuration(path string, warnings []string, err error) []Finding {
	var findings []Finding
	warned := map[string]bool{}
	for _, warning := range warnings {
		warned[warning] = true
		findings = append(findings, Finding{Level: Warning, What: "configuration", Detail: warning})
	}
	if err == nil {
		return append([]Finding{{What: "configuration", Detail: path}}, findings...)
	}
	for line := range strings.SplitSeq(strings.TrimRight(err.Error(), "\n"), "\n") {
		if line != "" && !warned[line] {
			findings = append(findings, Finding{Level: Mistake, What: "configuration", Detail: line, Ends: true})
		}
	}
	return findings
}

// Report writes the findings, a line each, and gives the error with which the program ends. It has
// no text, since the report says everything; its exit code is 0 where nothing is wrong (warnings are
// allowed), 1 where something outside of the configuration is, 2 where the configuration is. If
// start is set, only what would end a start is wrong.
func Report(w io.Writer, findings []Finding, start bool) error {
	code := exit.Success
	var text strings.Builder
	for _, f := range findings {
		if start && !f.Ends && f.Level != OK {
			f.Level = Warning
		}
		switch f.Level {
		case Mistake:
			code = exit.Usage
		case Wrong:
			code = max(code, exit.Failure)
		}
		line := f.What + ": " + f.Detail
		if f.Remedy != "" {
			line += "; " + f.Remedy
		}
		fmt.Fprintf(&text, "%-8s %s\n", f.Level, plain(line))
	}
	if _, err := io.WriteString(w, text.String()); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return exit.With(code, errors.New(""))
}

// plain is a text in one line, without characters that a terminal obeys: parts of it come from
// servers and peers.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// Mode is the value of the flag --check. The zero value: it was not given.
type Mode struct {
	Asked  bool   // the daemon is to look only
	Served string // where the worker listens that asks before it starts again; "": a person asks
	Held   string // all addresses on which it makes room, with commas; "": it is an older one
}

const startPrefix = "start:"

// HeldVariable is the variable of the environment in which it tells them.
const HeldVariable = "JOBD_HELD"

// makesRoom tells whether the worker that asks leaves an address to the start.
func (m *Mode) makesRoom(address string) bool {
	_, port, _ := net.SplitHostPort(address)
	return slices.ContainsFunc(append(strings.Split(m.Held, ","), m.Served), func(held string) bool {
		_, own, err := net.SplitHostPort(held)
		return held == address || err == nil && own == port
	})
}

// ForStart is the flag with which a worker asks the binary that will follow it.
func ForStart(served string) string { return "--check=" + startPrefix + served }

// Register makes the flag known. It is no key of the file, nor a variable.
func (m *Mode) Register(set *conf.Set) {
	set.FlagSet().BoolFunc("check", "check the configuration and all that a start needs; change nothing", m.set)
}

func (m *Mode) set(text string) error {
	served, start := strings.CutPrefix(text, startPrefix)
	if text != "true" && (!start || served == "") {
		return errors.New("it takes no value")
	}
	m.Asked, m.Served = true, ""
	if start {
		m.Served = served
	}
	return nil
}
