package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
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
		return p.read(ctx, nil, func(ctx context.Context, j *operator.Journals) error { return p.printFailed(ctx, j, q, group) })
	})
	w.flags(p, c)
	c.value("n", "only the newest N; 0: all. Without -n and --since: 20", conf.Int(&w.most, 0, operator.MostFailures))
	c.FlagSet.BoolVar(&group, "group", false, "count them by exit code and that line")
	c.FlagSet.BoolVar(&w.retrying, "retrying", false, "also failures that are tried again by themselves")
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
	q := operator.FailedQuery{Since: w.since, Target: w.target, Most: max(w.most, 0), Retrying: w.retrying, Newest: true}
	if q.Since.IsZero() {
		q.Since = now.Add(-failedSince)
	}
	if w.code >= 0 {
		q.Code = &w.code
	}
	return q
}

// printFailed prints failures, the newest first, or how many failed alike.
func (p *program) printFailed(ctx context.Context, j *operator.Journals, q operator.FailedQuery, group bool) error {
	list, err := j.FindFailed(ctx, q)
	if err != nil {
		return err
	}
	since := " since " + p.clock(q.Since)
	none, more := "no job has failed"+since, "the newest %d%s; -n N shows more, --group counts them"
	var t *table
	if group {
		t, more = p.table(none, "STDERR", "COUNT", "EXIT", "FIRST", "LAST", "JOB", "STDERR"), "of the newest %d%s"
		for _, g := range list.Groups() {
			newest, oldest := g.Members[0], g.Members[g.Count-1]
			t.put(g, bad, g.Count, newest.Exit(), p.clock(oldest.At), p.clock(newest.At), int64(g.Job), g.Line)
		}
	} else {
		t = p.table(none, "STDERR", when(j.Named(), "WORKER"), "JOB", "ENDED", "TARGET", "EXIT", "ROW", "STDERR")
		for _, f := range list.All {
			t.put(f, bad, f.Worker, int64(f.Job), p.clock(f.At), f.Target, f.Exit(), p.rowText(f), f.Line)
		}
	}
	_ = t.end(errors.Join(list.Unchecked, errors.Join(j.Failed...))) // who did not answer may have some
	if list.Unchecked != nil {
		return list.Unchecked
	}
	nothing := len(list.All)+len(j.Failed) == 0
	if !p.json() {
		if list.More {
			p.sayNone(more, len(list.All), since)
		}
		nothing = !p.noteMistaken(ctx, q) && nothing
	}
	if nothing {
		return p.unserved(ctx, q.Target)
	}
	return nil
}

// noteMistaken tells of rows that were ignored because of what they say, as a schedule that can't be read: no job
// of theirs has failed. Workers without an index of jobs don't tell. It tells whether there are any.
func (p *program) noteMistaken(ctx context.Context, q operator.FailedQuery) bool {
	query := api.JobsQuery{Status: string(journal.StatusIgnored), Since: q.Since.UnixMilli()}
	if q.Target != "" {
		query.Targets = []string{q.Target}
	}
	found, err := operator.Jobs(ctx, p.daemon(), query)
	if err != nil {
		return false
	}
	mistaken := slices.DeleteFunc(found.Jobs, func(job operator.FoundJob) bool { return strings.HasPrefix(job.Reason, journal.CancelledBy("")) })
	if len(mistaken) > 0 {
		p.note(fmt.Errorf("rows that were ignored for a mistake of their own: %d, the newest: job %d: %s; jobctl journal state --status ignored lists all",
			len(mistaken), mistaken[0].Job, clean(mistaken[0].Reason)))
	}
	return len(mistaken) > 0
}

// rowText is what is to be known of the row, and when it is due again.
func (p *program) rowText(f *operator.Failure) string {
	if f.Again == 0 {
		return f.Row
	}
	return f.Row + " " + p.seconds(f.Again/1000)
}

func (p *program) retry() *cmd {
	r := retrying{program: p, wish: failedWish{code: -1}}
	c := command("retry ID… | T:ID… | --failed [--since TIME] [--target T] [--code N]", "set jobs that are done or ignored back to waiting or manual, to be run once more", func(ctx context.Context, args []string) (err error) {
		switch {
		case r.failed && len(args) > 0:
			return wrongUsage("retry: IDs and --failed are not allowed together")
		case r.failed:
		case r.wish.code >= 0 || r.wish.target != "" || !r.wish.since.IsZero():
			return wrongUsage("retry: --since, --target and --code are for --failed")
		default:
			if r.jobs, err = jobRefs("retry", args, 0); err != nil {
				return err
			}
		}
		return p.read(ctx, nil, r.run)
	})
	r.wish.flags(p, c)
	c.FlagSet.BoolVar(&r.failed, "failed", false, "those that failed and were not retried since, as failed lists them")
	c.value("code", "with --failed: only those with this exit code", conf.Int(&r.wish.code, 0, 255))
	c.FlagSet.BoolVar(&r.Manual, "manual", false, "set them back to manual, also those that were waiting")
	r.consent.flags(c, "")
	return c
}

// retrying is one run of retry.
type retrying struct {
	*program
	operator.Retrying
	jobs   []operator.Job // none: those that failed
	wish   failedWish
	failed bool
	consent
}

// run finds the jobs, asks, and has their rows set back.
func (r *retrying) run(ctx context.Context, j *operator.Journals) (err error) {
	r.Journals, r.Done, r.Refused = j, map[jobnet.Whole]string{}, map[jobnet.Whole]string{}
	var list []operator.Again
	query := r.wish.query(r.now())
	if r.failed {
		var found operator.Failures
		if found, err = j.FindFailed(ctx, query); err == nil {
			list, err = r.Failed(found)
		}
	} else {
		list, err = r.Named(ctx, r.jobs)
	}
	if err != nil {
		return err
	}
	switch {
	case len(list) == 0 && len(r.Errs) > 0:
		if r.json() && !r.dry {
			r.tell(nil)
		}
		return joined(r.Errs)
	case len(list) == 0:
		return r.nothing(ctx, r.wish.target, "there is no job to set back")
	}
	if may := r.consent; r.failed || may.dry { // those that were named are meant
		question := fmt.Sprintf("%s that failed since %s (%s) would be run once more.", screen.Count(len(list), "job"), r.clock(query.Since), ofTargets(list))
		if given, err := r.given(ctx, may, question, func() error { return r.tellAll(list) }); !given {
			return err
		}
	}
	r.SetBack(ctx, list)
	r.tell(list)
	return joined(r.Errs)
}

// ofTargets says of which targets jobs are, of most of them first.
func ofTargets(list []operator.Again) string {
	counts := map[string]int{}
	for _, one := range list {
		counts[one.Target]++
	}
	targets := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	const few = 5
	var parts []string
	for _, target := range targets[:min(len(targets), few)] {
		parts = append(parts, fmt.Sprintf("%s %d", clean(target), counts[target]))
	}
	if more := len(targets) - few; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more targets", more))
	}
	return strings.Join(parts, ", ")
}

// tellAll tells which jobs would be set back.
func (r *retrying) tellAll(list []operator.Again) error {
	err := r.printAgain(list, "HOW IT ENDED", func(one operator.Again) string { return one.How }, joined(r.Errs))
	if err == nil {
		r.sayNone("%s would be set back", screen.Count(len(list), "job"))
	}
	return err
}

// tell tells what was set back.
func (r *retrying) tell(list []operator.Again) {
	if r.json() {
		r.printJSON(map[string]any{"jobs": r.Done, "errors": r.Refused})
		return
	}
	list = slices.DeleteFunc(slices.Clone(list), func(one operator.Again) bool { return r.Done[one.Job] == "" })
	_ = r.printAgain(list, "SET BACK TO", func(one operator.Again) string { return r.Done[one.Job] }, nil)
}

// printAgain prints jobs, and something about each; err is what went wrong with others.
func (r *retrying) printAgain(list []operator.Again, head string, about func(operator.Again) string, err error) error {
	t := r.table("", "TARGET", "WORKER", "JOB", "TARGET", head)
	for _, one := range list {
		t.put(one, plain, one.Worker, int64(one.Job), one.Target, about(one))
	}
	return t.end(err)
}

// mostErrors is how many errors are told one by one.
const mostErrors = 100

// joined is errors as one, of many the first.
func joined(errs []error) error {
	if more := len(errs) - mostErrors; more > 0 {
		errs = append(slices.Clone(errs[:mostErrors]), fmt.Errorf("and %d more", more))
	}
	return exit.Join(errs...)
}
