package main

import (
	"context"
	"fmt"
	"time"

	"jobd/cmd/internal/operator"
)

// What failed lists where nobody says otherwise.
const (
	failedSince = 24 * time.Hour
	failedMost  = 20
)

func (p *program) failed() *cmd {
	w := failedWish{most: -1, code: -1}
	group := false
	c := command("failed [--since TIME] [--target T] [-n N] [--group] [--retrying]", "jobs that failed, the newest first, with the last line of what they wrote to stderr", func(ctx context.Context, args []string) error {
		if w.most < 0 && !group && w.since.IsZero() {
			w.most = failedMost
		}
		q := w.query(p.now())
		q.Ignored = true
		return p.read(ctx, nil, func(ctx context.Context, j *operator.Journals) error { return p.printFailed(ctx, j, q, group) })
	})
	w.flags(p, c)
	c.FlagSet.Func("n", "only the newest N; 0: all. Without -n and --since: 20", count(&w.most, 0, operator.MostFailures))
	c.FlagSet.BoolVar(&group, "group", false, "count them by exit code and that line")
	c.FlagSet.BoolVar(&w.retrying, "retrying", false, "also those whose jobs are tried again by themselves")
	return c
}

// failedWish is which failures are wanted, as flags say it.
type failedWish struct {
	since    time.Time
	target   string
	most     int // 0: all; -1: as many as are usual
	code     int // -1: any
	retrying bool
}

// flags registers the flags that all commands about failures have.
func (w *failedWish) flags(p *program, c *cmd) {
	c.FlagSet.Func("since", "only those that ended from this time on: 2026-11-20 14:00, 14:00, 2h (ago), or unix time in seconds; without it, the last 24 h", p.moment(&w.since))
	c.FlagSet.StringVar(&w.target, "target", "", "only jobs of this target")
}

// query is the wish with what is usual.
func (w *failedWish) query(now time.Time) operator.FailedQuery {
	q := operator.FailedQuery{Since: w.since, Target: w.target, Most: max(w.most, 0), Retrying: w.retrying}
	if q.Since.IsZero() {
		q.Since = now.Add(-failedSince)
	}
	if w.code >= 0 {
		q.Code = &w.code
	}
	return q
}

// findFailed finds failures, and tells how far it is.
func (p *program) findFailed(ctx context.Context, j *operator.Journals, q operator.FailedQuery) (operator.Failures, error) {
	g := p.progress("failed ends read")
	defer g.end()
	return j.FindFailed(ctx, q, g.at)
}

// printFailed prints failures, the newest first, or how many failed alike.
func (p *program) printFailed(ctx context.Context, j *operator.Journals, q operator.FailedQuery, group bool) error {
	list, err := p.findFailed(ctx, j, q)
	if err != nil {
		return err
	}
	since := " since " + p.clock(q.Since)
	found, more := p.report(j.Named(), "no job has failed"+since, "JOB", "ENDED", "TARGET", "EXIT", "ROW", "STDERR"), "the newest %d%s; -n N shows more, --group counts them"
	if group {
		found, more = p.report(false, "no job has failed"+since, "COUNT", "EXIT", "FIRST", "LAST", "JOB", "STDERR"), "of the newest %d%s"
	}
	found.table.elastic = "STDERR"
	if group {
		for _, g := range list.Groups() {
			newest, oldest := g.Members[0], g.Members[g.Count-1]
			if err := found.add("", g, bad, g.Count, newest.Exit(), p.clock(oldest.At), p.clock(newest.At), int64(g.Job), g.Line); err != nil {
				return found.end(err)
			}
		}
	} else {
		for _, f := range list.All {
			if err := found.add(f.Worker, f, bad, int64(f.Job), p.clock(f.At), f.Target, f.Exit(), p.rowText(f), f.Line); err != nil {
				return found.end(err)
			}
		}
	}
	if err := found.end(list.Unchecked); err != nil {
		return err
	}
	if len(list.All) == 0 {
		p.noteUnserved(ctx, q.Target)
	}
	if list.More && !p.json() {
		return p.sayNone(fmt.Sprintf(more, len(list.All), since))
	}
	return nil
}

// rowText is what is to be known of the row, and when it is due again.
func (p *program) rowText(f *operator.Failure) string {
	if f.Again == 0 {
		return f.Row
	}
	return f.Row + " " + p.seconds(f.Again/1000)
}
