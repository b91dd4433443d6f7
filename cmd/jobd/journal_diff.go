package main

import (
	"context"
	"slices"
	"time"

	"jobd/cmd/internal/history"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/store"
)

// lookBatch is how many rows are looked at in one statement, and brought up to date in one transaction.
const lookBatch = 200

// claimTime is how long a claim may take from its event to its commit: until then its row still reads as before.
const claimTime = time.Minute

// errTable is what clients hear of a table that fails; the log says why.
const errTable = jobnet.Refusal("the table can't be read now; the worker's log says why")

// mostRows bounds journal-rows.
const mostRows = 1000

func (h journalHandlers) rows(ctx context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
	list, err := request.Fields().List("ids")
	if err != nil {
		return nil, err
	}
	if len(list) > mostRows {
		return nil, jobnet.Refusef("too many ids: at most %d are allowed", mostRows)
	}
	ids := make([]int64, len(list))
	for i, item := range list {
		if ids[i], err = jobID(item); err != nil {
			return nil, err
		}
	}
	request.Proceed()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	found, err := h.look(ctx, ids)
	if err != nil {
		return nil, err
	}
	answer := history.RowsAnswer{Rows: []history.Row{}}
	for _, id := range ids {
		if row := found[id]; row != nil {
			answer.Rows = append(answer.Rows, *rowOf(row))
		}
	}
	return answer, nil
}

// look reads rows without locking them.
func (h journalHandlers) look(ctx context.Context, ids []int64) (map[int64]*store.Seen, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	found, err := h.table.Look(ctx, ids)
	if err != nil {
		h.log.Warn("looking at rows for a client failed", "error", err)
		return nil, errTable
	}
	return found, nil
}

func (h journalHandlers) diff(ctx context.Context, link *jobnet.Link, _ jobnet.Request) (any, error) {
	return h.open(ctx, link, func(ctx context.Context, r *journal.Reader, yield func(any) error) error {
		moved, err := h.movedSince(ctx, r)
		if err != nil {
			return err
		}
		return h.disagreeing(ctx, r, moved, time.Time{}, func(batch []disagreement) error {
			for _, d := range batch {
				difference := history.Difference{Job: jobnet.Whole(d.job.ID), Want: wanted(d.job), Found: rowOf(d.row), Cause: d.cause}
				if d.cause == history.CauseOther {
					difference.Reason = store.AnotherJob
				}
				if err := yield(difference); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// disagreement is a job whose row does not say what the journal says.
type disagreement struct {
	job   journal.Job
	row   *store.Seen // nil: there is none
	cause string

	claiming bool // its claim may not have been committed yet
}

// disagreeing compares the journal's jobs to which something happened since a time with the table, a batch at a time.
func (h journalHandlers) disagreeing(ctx context.Context, r *journal.Reader, moved *moved, since time.Time, use func([]disagreement) error) error {
	var batch []journal.Job
	compare := func() error {
		found, err := h.look(ctx, idsOf(batch))
		if err != nil {
			return err
		}
		seemed := slices.DeleteFunc(batch, func(job journal.Job) bool { return store.Agrees(job, found[job.ID]) })
		batch = nil
		if len(seemed) == 0 {
			return nil
		}
		judged, err := h.lookTwice(ctx, r, moved, seemed)
		if err != nil || len(judged) == 0 {
			return err
		}
		return use(judged)
	}
	for job, err := range r.Jobs(ctx, time.Time{}) {
		if err != nil {
			return err
		}
		if newestOf(job).Before(since) {
			continue
		}
		if batch = append(batch, job); len(batch) == lookBatch {
			if err := compare(); err != nil {
				return err
			}
		}
	}
	return compare()
}

func idsOf(jobs []journal.Job) []int64 {
	ids := make([]int64, len(jobs))
	for i, job := range jobs {
		ids[i] = job.ID
	}
	return ids
}

// newestOf is when something last happened to a job.
func newestOf(job journal.Job) time.Time {
	newest := job.Accepted
	for _, at := range []time.Time{job.Running, job.Ended} {
		if at.After(newest) {
			newest = at
		}
	}
	return newest
}

// lookAgain judges a job that seemed to disagree: it may only have moved on between the two looks. The mirror's
// position is taken first, then the row, then the journal, which is ahead of both: so a row that should show an event
// up to the position, and does not, was changed by somebody else, unless it is set aside. A job that has come to agree is
// given to nobody.
func (h journalHandlers) lookAgain(ctx context.Context, r *journal.Reader, seemed journal.Job, use func(disagreement) error) error {
	tried, owed := h.mirror.Standing(seemed.ID)
	found, err := h.look(ctx, []int64{seemed.ID})
	if err != nil {
		return err
	}
	job, seq, err := replayed(ctx, r, seemed.ID)
	if err != nil {
		return err
	}
	if job.Status == journal.StatusNone { // retention has removed how it began
		job = seemed
	}
	if d, differs := judge(job, found[seemed.ID], seq > tried || owed); differs {
		return use(d)
	}
	return nil
}

// judge tells how a job's row differs from what the journal says, if it does. The row may be owed what it does not show.
func judge(job journal.Job, row *store.Seen, owed bool) (d disagreement, differs bool) {
	d = disagreement{job: job, row: row, cause: history.CauseChanged}
	if store.Agrees(d.job, d.row) {
		return d, false
	}
	claim := d.job.Status == journal.StatusAccepted || d.job.Status == journal.StatusStarting && d.job.Claimed
	ignoring := d.job.Status == journal.StatusIgnored && time.Since(d.job.Ended) < claimTime
	d.claiming = ignoring || claim && time.Since(d.job.Accepted) < claimTime
	switch {
	case store.IsAnotherJob(d.job, d.row):
		d.cause = history.CauseOther
	case owed || d.claiming:
		d.cause = history.CauseOwed
	}
	return d, true
}

// replayed is one job by replay of its own events, and the newest one that shows in its row.
func replayed(ctx context.Context, r *journal.Reader, id int64) (job journal.Job, shown uint64, err error) {
	state := journal.State{KeepEnded: true}
	for e, err := range r.Events(ctx, journal.Filter{Job: id}) {
		if err != nil {
			return job, 0, err
		}
		state.Seq = e.Seq - 1 // the events of the others are not needed
		if err := state.Apply(e); err != nil {
			continue // its beginning was removed
		}
		switch e.Payload.(type) {
		case journal.Running, journal.Released, journal.Done:
			shown = e.Seq
		}
	}
	return state.Job(id), shown, nil
}

// wanted is what a row has to say; nil where it is not the worker's.
func wanted(job journal.Job) *history.Row {
	row := &history.Row{Job: jobnet.Whole(job.ID), Target: job.Target, Owner: job.Token, Started: seconds(job.Running)}
	switch job.Status {
	case journal.StatusAccepted:
		row.Status = journal.RowAccepted
	case journal.StatusStarting, journal.StatusRunning:
		row.Status = journal.RowRunning
	case journal.StatusDone:
		row.Status, row.Owner = journal.RowDone, ""
		row.Finished, row.Result = seconds(job.Ended), job.Result
	case journal.StatusIgnored:
		row.Status = journal.RowIgnored
	default:
		return nil
	}
	return row
}

func seconds(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.Unix()
}

// rowOf is a row in its form on the wire; nil of none.
func rowOf(row *store.Seen) *history.Row {
	if row == nil {
		return nil
	}
	return &history.Row{
		Job: jobnet.Whole(row.Job), Target: row.Target, Status: row.Status, Owner: row.Owner,
		Started: row.Started, Finished: row.Finished, Result: row.Result,
	}
}
