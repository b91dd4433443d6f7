package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"jobd/cmd/internal/history"
	"jobd/journal"
	jobnet "jobd/net"
)

// mostFailures is how many ends are looked at together.
const mostFailures = 100_000

// failure is a job whose last end was a failure, as far as journals and table say.
type failure struct {
	job     int64
	worker  string
	from    *remote // that ran it
	ended   time.Time
	done    journal.Done
	target  string // "" where it is not known
	line    string
	ignored bool   // it was never run: its row says what can't be
	row     string // what is to be known of the row: one of the words below, or "" where it says the same

	again    int64 // when the row is due again, unix seconds; 0: it does not come back, or runs
	attempts int64 // starts of the run so far, where the row tells
}

// What is told of a failure's row.
const (
	rowDeleted   = "deleted"
	rowUnchecked = "not checked"
	rowRetry     = "retry"  // it is tried again by itself
	rowRecurs    = "recurs" // this run has failed, and the next one comes
	rowIgnored   = "ignored"
)

// failureList is what was found.
type failureList struct {
	all       []*failure // the newest first
	more      bool       // there are more, or may be
	unchecked error      // the table could not be read
}

// collect finds failures: ends in the journals, of which the rows say that nothing came after them.
// As many ends are read as it takes.
func (p *program) collect(ctx context.Context, j *journals, w failedWish) (found failureList, err error) {
	look := mostFailures
	if w.most > 0 {
		look = min(max(4*w.most, 100), mostFailures)
	}
	for {
		ends, n, err := p.failedEnds(ctx, j, w, look)
		if err != nil {
			return found, err
		}
		found.all, found.unchecked = j.stillFailed(ctx, ends)
		if w.ignored && w.target != "" {
			found.all = slices.DeleteFunc(found.all, func(f *failure) bool { return f.ignored && f.target != "" && f.target != w.target })
		}
		if !w.retrying {
			found.all = slices.DeleteFunc(found.all, func(f *failure) bool { return f.row == rowRetry })
		}
		enough := w.most > 0 && len(found.all) >= w.most
		if n < look || enough || look == mostFailures {
			found.more = n >= look || w.most > 0 && len(found.all) > w.most
			if w.most == 0 && n >= look {
				return found, errTooMany
			}
			if w.most > 0 {
				found.all = found.all[:min(len(found.all), w.most)]
			}
			j.nameTargets(ctx, found.all)
			return found, nil
		}
		look = min(4*look, mostFailures)
	}
}

// failedEnds reads the newest failed ends, of each job the last; the newest first. Ends of
// jobs that somebody had cancelled are none. It tells how many were read.
func (p *program) failedEnds(ctx context.Context, j *journals, w failedWish, most int) (ends []*failure, n int, err error) {
	q := history.Query{
		Kinds: []journal.Kind{journal.KindDone}, Result: "fail", LastLine: true,
		Target: w.target, Since: w.since.at, Last: most,
	}
	newest := map[int64]*failure{}
	g := p.progress("failed ends read")
	defer g.end()
	for e, err := range j.events(ctx, q) {
		if err != nil {
			return nil, 0, err
		}
		n++
		g.at(uint64(n))
		done, _ := e.item.Payload.(journal.Done)
		f := &failure{
			job: e.item.Job, worker: e.source.worker(), from: e.source.link(), ended: done.EndedAt(e.item.Time), done: done,
			line: clean(string(done.Stderr.Kept)),
		}
		if f.line == "" {
			f.line = clean(cmp.Or(done.Note, done.Reason))
		}
		f.done.Stderr.Kept = nil
		if before := newest[f.job]; before == nil || !f.ended.Before(before.ended) {
			newest[f.job] = f
		}
	}
	if w.ignored {
		m, err := p.neverRun(ctx, j, w, most, newest)
		if err != nil {
			return nil, 0, err
		}
		n = max(n, m)
	}
	for _, f := range newest {
		if !f.done.WasCancelled() && (w.code < 0 || f.done.Code != nil && *f.done.Code == w.code) {
			ends = append(ends, f)
		}
	}
	slices.SortFunc(ends, func(a, b *failure) int { return cmp.Or(b.ended.Compare(a.ended), cmp.Compare(b.job, a.job)) })
	return ends, n, nil
}

// stillFailed leaves out the jobs whose rows say that something came after the end. Where the table
// can't be read, all are left, and the error says so.
func (j *journals) stillFailed(ctx context.Context, ends []*failure) (still []*failure, unchecked error) {
	ids := make([]int64, len(ends))
	for i, f := range ends {
		ids[i] = f.job
	}
	rows, err := j.rows(ctx, ids)
	if err != nil {
		unchecked = errUnchecked(err)
	}
	for _, f := range ends {
		row, there := rows[f.job]
		switch {
		case err != nil && !there && f.done.Again != nil && f.done.Again.Why == journal.AgainRetry:
			f.row, f.again = rowRetry, f.done.Again.RunAt
		case err != nil && !there:
			f.row = rowUnchecked
		case !there:
			f.row = rowDeleted
		case !f.isIn(row):
			continue
		case f.ignored:
			f.target, f.row = row.Target, rowIgnored
		default:
			f.target = row.Target
			f.comesBack(row)
		}
		still = append(still, f)
	}
	return still, unchecked
}

// isIn tells whether a row shows this end, or is owed it still: it bears the claim.
func (f *failure) isIn(row history.Row) bool {
	if f.ignored {
		return row.Status == journal.RowIgnored
	}
	switch row.Status {
	case journal.RowDone:
		return row.Result == f.done.Result && row.Finished == f.ended.Unix()
	case journal.RowAccepted, journal.RowRunning:
		if f.done.Token != "" && row.Owner == f.done.Token {
			return true
		}
	case journal.RowWaiting, journal.RowDelayed:
	default:
		return false
	}
	return f.done.Again != nil && row.Result == f.done.Result && row.Finished == f.ended.Unix() // what the next end overwrites
}

// comesBack notes that the row of a failure is tried again, or recurs.
func (f *failure) comesBack(row history.Row) {
	if row.Plan != nil {
		f.attempts = row.Plan.Attempts
	}
	if f.done.Again == nil || row.Status == journal.RowDone {
		return
	}
	if f.row = rowRecurs; f.done.Again.Why == journal.AgainRetry {
		f.row = rowRetry
	}
	if row.Status == journal.RowDelayed && row.Plan != nil {
		f.again = row.Plan.RunAt
	}
}

// mostNamed is how many jobs without a row get their target from a journal, one by one.
const mostNamed = 100

// nameTargets finds the targets of jobs whose rows don't tell them.
func (j *journals) nameTargets(ctx context.Context, list []*failure) {
	named := 0
	for _, f := range list {
		if f.target != "" || named == mostNamed {
			continue
		}
		named++
		for e, err := range f.from.events(ctx, history.Query{Job: f.job, Kinds: []journal.Kind{journal.KindAccepted}, Last: 1}) {
			if claim, ok := e.Payload.(journal.Accepted); ok && err == nil {
				f.target = claim.Target
			}
		}
	}
}

// whole is ids as they go over the wire.
func whole(ids []int64) []jobnet.Whole {
	list := make([]jobnet.Whole, len(ids))
	for i, id := range ids {
		list[i] = jobnet.Whole(id)
	}
	return list
}
