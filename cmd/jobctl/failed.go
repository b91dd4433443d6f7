package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	jobnet "jobd/net"
)

// What failed lists where nobody says otherwise.
const (
	failedSince = 24 * time.Hour
	failedMost  = 20
)

func (p *program) failed() *ffcli.Command {
	w := failedWish{since: timeFlag{p: p}, most: -1, code: -1, ignored: true}
	group := false
	c := command("failed", "failed [--since TIME] [--target T] [-n N] [--group] [--retrying]", "jobs that failed, the newest first, with the last line of what they wrote to stderr", func(ctx context.Context, args []string) error {
		if len(args) > 0 {
			return wrongUsage("failed: takes no arguments, got %q", args)
		}
		if w.most < -1 || w.most > mostFailures {
			return wrongUsage("failed: -n %d is not allowed; allowed is 0 to %d, where 0 means all", w.most, mostFailures)
		}
		return p.read(ctx, nil, func(ctx context.Context, j *journals) error {
			if group {
				return p.printGroups(ctx, j, w.grouped(p.now()))
			}
			return p.printFailed(ctx, j, w.listed(p.now()))
		})
	})
	c.LongHelp = "  jobctl failed --since 2h --target mail\n  jobctl --master failed --group"
	w.flags(c)
	c.FlagSet.IntVar(&w.most, "n", -1, "only the newest N; 0: all. Without -n and --since: 20")
	c.FlagSet.BoolVar(&group, "group", false, "count them by exit code and that line")
	c.FlagSet.BoolVar(&w.retrying, "retrying", false, "also those whose jobs are tried again by themselves")
	return c
}

// failedWish is which failures are wanted.
type failedWish struct {
	since  timeFlag
	target string
	most   int // 0: all; -1: as many as are usual
	code   int // -1: any

	retrying bool // also jobs that are tried again by themselves
	ignored  bool // also rows that were never run, because they say what can't be
}

// flags registers the flags that all commands about failures have.
func (w *failedWish) flags(c *ffcli.Command) {
	c.FlagSet.Var(&w.since, "since", "only those that ended from this time on: 2026-11-20 14:00, 2h (ago), or unix time in seconds; without it, the last 24 h")
	c.FlagSet.StringVar(&w.target, "target", "", "only jobs of this target")
}

// listed is the wish with what is usual for a list.
func (w failedWish) listed(now time.Time) failedWish {
	if w.most < 0 {
		if w.most = 0; w.since.at.IsZero() {
			w.most = failedMost
		}
	}
	return w.grouped(now)
}

// grouped is the wish with what is usual where all are wanted.
func (w failedWish) grouped(now time.Time) failedWish {
	w.most = max(w.most, 0)
	if w.since.at.IsZero() {
		w.since.at = now.Add(-failedSince)
	}
	return w
}

// printFailed prints failures, the newest first.
func (p *program) printFailed(ctx context.Context, j *journals, w failedWish) error {
	list, err := p.collect(ctx, j, w)
	if err != nil {
		return err
	}
	found := p.report(j.named(), "no job has failed"+w.when(p), "JOB", "ENDED", "TARGET", "EXIT", "ROW", "STDERR")
	found.table.elastic = "STDERR"
	for _, f := range list.all {
		err := found.add(f.worker, f.form(), bad, f.job, p.clock(f.ended), f.target, f.exit(), p.rowText(f), f.line)
		if err != nil {
			return found.end(err)
		}
	}
	if err := found.end(list.unchecked); err != nil {
		return err
	}
	if len(list.all) == 0 {
		p.noteUnserved(ctx, w.target)
	}
	if list.more && !p.json() {
		return p.sayNone(fmt.Sprintf("the newest %d%s; -n N shows more, --group counts them", len(list.all), w.when(p)))
	}
	return nil
}

// when says from when on jobs are looked at.
func (w failedWish) when(p *program) string { return " since " + p.clock(w.since.at) }

// failureForm is a failure as JSON. Times are in unix milliseconds.
type failureForm struct {
	Worker string       `json:"worker,omitempty"`
	Job    jobnet.Whole `json:"job"`
	Target string       `json:"target,omitempty"`
	Ended  int64        `json:"ended"`
	Code   *int         `json:"code,omitempty"`
	Signal string       `json:"signal,omitempty"`
	Reason string       `json:"reason,omitempty"` // why, where the process itself does not tell
	Line   string       `json:"line,omitempty"`   // the last one of stderr
	Row    string       `json:"row,omitempty"`    // "deleted", "not checked", "retry", "recurs" or "ignored"; "": it says so, too

	Again    int64 `json:"again,omitempty"`    // when the row is due again, unix milliseconds
	Attempts int64 `json:"attempts,omitempty"` // starts of the run so far, where the row tells
	Timeout  int64 `json:"timeout,omitempty"`  // it was ended because it ran longer than so many seconds
}

func (f *failure) form() failureForm {
	return failureForm{
		f.worker, jobnet.Whole(f.job), f.target, f.ended.UnixMilli(), f.done.Code, f.done.Signal, f.done.Reason, f.line, f.row,
		f.again * 1000, f.attempts, f.done.Timeout,
	}
}

// rowText is what is to be known of the row, and when it is due again.
func (p *program) rowText(f *failure) string {
	if f.again == 0 {
		return f.row
	}
	return f.row + " " + p.seconds(f.again)
}

// exit is how the process ended, in a word.
func (f *failure) exit() string {
	switch {
	case f.ignored:
		return "not run"
	case f.done.Timeout > 0:
		return "timeout"
	case f.done.Signal != "":
		return f.done.Signal
	case f.done.Code != nil:
		return strconv.Itoa(*f.done.Code)
	}
	return "unknown"
}

// errUnchecked says what it means that the table could not be read.
func errUnchecked(err error) error {
	return fmt.Errorf("whether jobs were retried, cancelled or deleted since could not be checked: %w", err)
}

// errTooMany says that not all failures can be looked at together.
var errTooMany = errors.New("there are more failures than can be looked at together: narrow it with --since or --target")
