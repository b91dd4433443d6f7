package reason

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"jobd/journal"
)

// clock is a moment to the minute, with the date where it is not today. It is in unix milliseconds.
func (v *view) clock(millis int64) string {
	at := time.UnixMilli(millis).In(v.Location)
	if now := v.Now.In(v.Location); at.Format(time.DateOnly) != now.Format(time.DateOnly) {
		return at.Format("2006-01-02 15:04")
	}
	return at.Format("15:04")
}

// since says since when something is so; "" where that is not known.
func (v *view) since(millis int64) string {
	if millis == 0 {
		return ""
	}
	return " since " + v.clock(millis)
}

// at says when something was; "" where that is not known.
func (v *view) at(millis int64) string {
	if millis == 0 {
		return ""
	}
	return " at " + v.clock(millis)
}

// behind puts something behind a word, where there is something.
func behind(word, what string) string {
	if what == "" {
		return ""
	}
	return word + what
}

// number is a number of jobs in words.
func number(n int, more bool) string {
	switch {
	case more:
		return humanize.Comma(int64(n)) + "+ jobs"
	case n == 1:
		return "1 job"
	}
	return humanize.Comma(int64(n)) + " jobs"
}

// lengthy is how long something took, to what matters of it.
func lengthy(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	text := d.Round(time.Second).String()
	if whole, ok := strings.CutSuffix(text, "m0s"); ok {
		return whole + "m"
	}
	return text
}

// names joins names of workers.
func names(all []string) string {
	const most = 5
	if len(all) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}

// lastLine is the last line of a text that has something in it.
func lastLine(text string) string { return string(journal.Output{Kept: []byte(text)}.LastLine()) }

// cut cuts a text of somebody else's to what a sentence bears, which is one line.
func cut(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// whoOf is who wanted something, without the port of an address, which tells a reader nothing, and
// without the master that has handed it on.
func whoOf(by string) string {
	first, _, _ := strings.Cut(by, " via ")
	if name, _, err := net.SplitHostPort(first); err == nil {
		return name
	}
	return first
}
