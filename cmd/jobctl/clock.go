package main

import (
	"fmt"
	"time"
)

// The forms of a moment.
const (
	microseconds = "2006-01-02 15:04:05.000000"
	clockOnly    = "15:04:05"
)

// stamp prints a moment, to the microsecond as the journal has it.
func (p *program) stamp(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.In(p.location).Format(microseconds)
}

// clock prints a moment as a person wants it: to the second, with its date only where that is not
// today's. Elsewhere than on a terminal, where programs read it, and with --precise it is the stamp.
func (p *program) clock(at time.Time) string {
	if !p.brief() || at.IsZero() {
		return p.stamp(at)
	}
	at, now := at.In(p.location), p.now().In(p.location)
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format(clockOnly)
	}
	return at.Format(time.DateTime)
}

// clocks prints moments of one line after the other, oldest first, so that they stand below each
// other: from the first with a date on, which comes before those of today, all are as wide.
type clocks struct{ width int }

func (c *clocks) of(p *program, at time.Time) string {
	text := p.clock(at)
	c.width = max(c.width, len(text))
	return fmt.Sprintf("%*s", c.width, text)
}

// brief tells whether times and tables are made for a person: on a terminal, unless precision is
// wanted.
func (p *program) brief() bool { return p.terminal && !p.config.precise }
