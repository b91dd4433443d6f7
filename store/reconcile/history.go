package reconcile

import (
	"context"
	"time"

	"jobd/journal"
	"jobd/store"
)

// replay is one job by replay of its own events, and the newest one that shows in its row.
func replay(ctx context.Context, j Journal, id int64) (job journal.Job, shown uint64, err error) {
	state := journal.State{KeepEnded: true}
	for e, err := range j.Events(ctx, journal.Filter{Job: id}) {
		if err != nil {
			return job, 0, err
		}
		state.Seq = e.Seq - 1 // the events of the others are not needed
		if err := state.Apply(e); err != nil {
			continue // its beginning was removed
		}
		switch p := e.Payload.(type) {
		case journal.Running, journal.Released, journal.Done, journal.Replanned:
			shown = e.Seq
		case journal.Cancelled:
			if !p.Runs {
				shown = e.Seq
			}
		}
	}
	return state.Job(id), shown, nil
}

// Claimed gives the claim of a job that a token is of; nil where the journal has none. started tells
// whether that may have started the job. It has certainly not where it was never announced, or where the
// row did not take the announcement.
func Claimed(ctx context.Context, j Journal, id int64, token string) (claim *journal.Accepted, started bool, err error) {
	if token == "" {
		return nil, false, nil
	}
	current, announced := false, false
	for e, err := range j.Events(ctx, journal.Filter{Job: id}) {
		if err != nil {
			return claim, true, err
		}
		switch p := e.Payload.(type) {
		case journal.Accepted:
			if current = p.Token == token; current {
				claim, announced, started = &p, false, false
			}
		case journal.Running:
			announced = announced || current
		case journal.Conflict:
			announced = announced && !(current && p.Wanted == journal.RowRunning)
		case journal.Started, journal.Done, journal.Requeued:
			started = started || current
		}
	}
	return claim, started || announced, nil
}

// found tells whether a row shows some claim of the journal.
func found(ctx context.Context, j Journal, id int64, row *store.Seen) (bool, error) {
	for e, err := range j.Events(ctx, journal.Filter{Job: id, Kinds: []journal.Kind{journal.KindAccepted}}) {
		if err != nil {
			return false, err
		}
		p, ok := e.Payload.(journal.Accepted)
		if ok && store.Shows(journal.Job{Token: p.Token, From: p.From, Plan: p.Plan, Accepted: journal.Moment{Time: e.Time}}, row) {
			return true, nil
		}
	}
	return false, nil
}

// ends are how jobs ended, by their events, as they were read by the page.
type ends map[uint64]*journal.Done

// A page of ends is so many, or so many bytes of output.
const (
	pageEnds  = 256
	pageBytes = 4 << 20
)

// of is how a job ended last, with its output; nil where the journal does not have it any more. Jobs that
// are asked for in the order of their ends are mostly on one page.
func (of ends) of(ctx context.Context, j Journal, job journal.Job) (*journal.Done, error) {
	if end := of[job.End]; end != nil && job.End > 0 {
		return end, nil
	}
	clear(of)
	filter := journal.Filter{Job: job.ID, Kinds: []journal.Kind{journal.KindDone}, Last: 1, Output: true}
	if job.End > 0 {
		filter = journal.Filter{After: job.End - 1, Kinds: []journal.Kind{journal.KindDone}, Output: true}
	}
	bytes := 0
	for e, err := range j.Events(ctx, filter) {
		if err != nil {
			return nil, err
		}
		done, _ := e.Payload.(journal.Done)
		if job.End == 0 {
			return &done, nil
		}
		of[e.Seq] = &done
		if bytes += len(done.Stdout.Kept) + len(done.Stderr.Kept); bytes > pageBytes || len(of) == pageEnds {
			break
		}
	}
	return of[job.End], nil
}

// nameIn is the name of the worker that wrote a journal.
func nameIn(ctx context.Context, j Journal) (string, error) {
	for e, err := range j.Events(ctx, journal.Filter{Kinds: []journal.Kind{journal.KindOpened}, Last: 1}) {
		if err != nil {
			return "", err
		}
		if opened, ok := e.Payload.(journal.Opened); ok {
			return opened.Name, nil
		}
	}
	return "a lost worker", nil
}

// beginning is when a history begins, and whether retention has removed earlier events.
func beginning(ctx context.Context, j Journal) (begins time.Time, removed bool, err error) {
	kept, err := j.Kept(ctx)
	if err != nil {
		return begins, false, err
	}
	if kept != nil {
		return kept.Since, true, nil
	}
	for e, err := range j.Events(ctx, journal.Filter{}) {
		return e.Time, false, err
	}
	return time.Now(), false, nil
}

// tail is what was appended to the journal since a comparison began. Of the jobs that are not in it
// the journal is known as it was read then, and the mirror has tried to show it, so that many can
// be judged, and brought back, together. The few that are in it are looked at one by one.
type tail struct {
	journal Journal
	from    uint64         // the newest event when the comparison began
	read    uint64         // up to which jobs is complete
	jobs    map[int64]bool // that have got events since
}

// readOn reads what was appended meanwhile.
func (t *tail) readOn(ctx context.Context) error {
	if t == nil {
		return nil
	}
	for e, err := range t.journal.Events(ctx, journal.Filter{After: t.read}) {
		if err != nil {
			return err
		}
		t.jobs[e.Job], t.read = true, e.Seq
	}
	return nil
}

// has tells whether a job has got events since the comparison began, as far as the tail was read.
func (t *tail) has(job int64) bool { return t != nil && t.jobs[job] }
