package main

import (
	"slices"
	"strings"

	"jobd/journal"
)

// tone is a line's colour, by what the line means.
type tone int

// The tones. A plain line has no colour.
const (
	plain tone = iota
	good
	bad
	odd   // worth a look: conflicts, releases, signals
	faint // about the worker itself
)

// coloured reports whether stdout takes colours: a terminal that says what it is, and nobody who
// wants none.
func (s surroundings) coloured() bool {
	if !s.terminal {
		return false
	}
	term := s.variable("TERM")
	refused := slices.ContainsFunc(s.environ, func(v string) bool {
		return strings.HasPrefix(v, "NO_COLOR=") && v != "NO_COLOR="
	})
	return term != "" && term != "dumb" && !refused
}

// variable is an environment variable; "" where there is none.
func (s surroundings) variable(name string) (value string) {
	for _, variable := range s.environ {
		if text, found := strings.CutPrefix(variable, name+"="); found {
			value = text
		}
	}
	return value
}

// paint gives text its tone, where stdout takes colours.
func (p *program) paint(text string, t tone) string {
	if t == plain || !p.coloured() {
		return text
	}
	sequence := ""
	switch t {
	case good:
		sequence = "\x1b[32m"
	case bad:
		sequence = "\x1b[31m"
	case odd:
		sequence = "\x1b[33m"
	case faint:
		sequence = "\x1b[2m"
	}
	return p.ours(sequence) + text + p.ours("\x1b[m")
}

// toneOf is the tone of an event.
func toneOf(payload journal.Payload) tone {
	switch e := payload.(type) {
	case journal.Done:
		switch {
		case e.Result == "ok":
			return good
		case e.Again != nil && e.Again.Why == journal.AgainRetry: // not its last word
			return odd
		}
		return bad
	case journal.Conflict, journal.SetAside, journal.Released, journal.Ignored, journal.Retried, journal.Signal, journal.Cancelled,
		journal.Planned, journal.Replanned:
		return odd
	case journal.Accepted, journal.Running, journal.Started:
		return plain
	}
	return faint
}

// toneOfStatus is the tone of a job's state.
func toneOfStatus(status journal.Status, result string) tone {
	switch {
	case status == journal.StatusDone && result == "ok":
		return good
	case status == journal.StatusDone:
		return bad
	case status == journal.StatusConflict, status == journal.StatusReleased, status == journal.StatusIgnored, status == journal.StatusRetried,
		status == journal.StatusPlanned:
		return odd
	}
	return plain
}
