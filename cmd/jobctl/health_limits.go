package main

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"strconv"
	"strings"

	"jobd/cmd/internal/conf"
	"jobd/net/api"
)

// figure is one of the numbers that follow the line, in the form of Nagios' plugins.
type figure struct {
	name  string
	value float64
	unit  string // s, %, or nothing
	limit *limit // nil: it has none
	most  float64
	lost  bool // nobody knows it: U, as Nagios has it
}

// String is the number with its limits: name=value;warning;critical;least;most.
func (n figure) String() string {
	warn, critical := "", ""
	if n.limit != nil {
		warn, critical = n.limit.text(n.limit.warn), n.limit.text(n.limit.critical)
	}
	if n.lost {
		return n.name + "=U"
	}
	text := fmt.Sprintf("%s=%s%s;%s;%s;0", n.name, roundedNumber(n.value), n.unit, warn, critical)
	if n.most > 0 {
		text += ";" + roundedNumber(n.most)
	}
	return strings.TrimRight(text, ";")
}

func roundedNumber(n float64) string { return strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64) }

// limit is from where on a number is a warning, and critical; NaN: it never is.
type limit struct {
	warn, critical float64
	read           func(text string) (float64, error)
	allowed        string
}

// String is the limit as a flag's value.
func (l *limit) String() string {
	if l == nil || l.read == nil {
		return ""
	}
	return l.text(l.warn) + "," + l.text(l.critical)
}

func (l *limit) text(of float64) string {
	if math.IsNaN(of) {
		return ""
	}
	return roundedNumber(of)
}

// Set reads WARNING,CRITICAL, each of which may be left out.
func (l *limit) Set(text string) error {
	warn, critical, _ := strings.Cut(text, ",")
	var both [2]float64
	for i, one := range []string{strings.TrimSpace(warn), strings.TrimSpace(critical)} {
		both[i] = math.NaN()
		if one == "" {
			continue
		}
		n, err := l.read(one)
		if err != nil || n < 0 {
			return errors.New("allowed is WARNING,CRITICAL, each " + l.allowed + " or nothing")
		}
		both[i] = n
	}
	l.warn, l.critical = both[0], both[1]
	return nil
}

// judge tells how bad a number is that should be small.
func (l *limit) judge(n float64) state {
	switch {
	case n >= l.critical: // never, where it is NaN
		return stateCritical
	case n >= l.warn:
		return stateWarning
	}
	return stateOK
}

// limits are all that health goes by.
type limits struct{ waiting, oldest, lag, failed, aside, workers *limit }

func usualLimits() limits {
	count := func(text string) (float64, error) { n, err := strconv.ParseUint(text, 10, 53); return float64(n), err }
	rows := func(text string) (float64, error) { return upTo(api.MostCounted)(count(text)) }
	length := func(text string) (float64, error) { d, err := conf.ParseDuration(text); return d.Seconds(), err }
	share := func(text string) (float64, error) {
		if strings.Trim(text, "0123456789.%") != "" { // no NaN, which no share is beyond
			return 0, strconv.ErrSyntax
		}
		return upTo(100)(strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64))
	}
	none := math.NaN()
	return limits{
		waiting: &limit{none, none, rows, "a whole number up to 10000"},
		oldest:  &limit{900, 3600, length, "a length of time such as 90s or 15m"},
		lag:     &limit{10_000, 1_000_000, count, "a whole number"},
		failed:  &limit{none, none, share, "a share such as 10%, up to 100%"},
		aside:   &limit{900, none, length, "a length of time such as 90s or 15m"},
		workers: &limit{1, 1, count, "a whole number"},
	}
}

// upTo refuses what is beyond the most that is ever met: such a limit would never be reached.
func upTo(most float64) func(n float64, err error) (float64, error) {
	return func(n float64, err error) (float64, error) {
		if err == nil && n > most {
			err = strconv.ErrRange
		}
		return n, err
	}
}

func (l limits) register(flags *flag.FlagSet) {
	for _, one := range []struct {
		name, help string
		of         *limit
	}{
		{"waiting", "rows that wait for a target, from which on it is a warning, and critical; not judged if not given", l.waiting},
		{"oldest", "how long the oldest row of a target has waited; 15m,1h if not given", l.oldest},
		{"failures", "the share of a target's jobs that have failed within the last minute; not judged if not given", l.failed},
		{"lag", "events that the table does not show yet; 10000,1000000 if not given", l.lag},
		{"aside", "for how long a row can't be claimed or updated; 15m, if not given", l.aside},
		{"workers", "with --master, fewer workers than this; 1,1 if not given", l.workers},
	} {
		flags.Var(one.of, one.name, one.help)
	}
}
