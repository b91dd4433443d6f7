package main

import (
	"context"

	"jobd/journal"
)

// moved tells which jobs have got events since a comparison began. Of all others the journal is known as it was read then, and
// the mirror has tried to show it, so that many can be judged, and brought up to date, together. The few that move meanwhile
// are looked at one by one.
type moved struct {
	reader *journal.Reader // nil: nothing moves; it is the journal of a worker that is gone
	from   uint64          // the newest event when the comparison began
	seen   uint64          // up to which jobs is complete
	jobs   map[int64]bool
}

// movedSince begins a comparison with the worker's own journal. The mirror gets time to show what is in it.
func (h journalHandlers) movedSince(ctx context.Context, r *journal.Reader) (*moved, error) {
	newest, err := r.Newest(ctx)
	if err != nil {
		return nil, err
	}
	within(h.mirror.Tried(newest), settleTimeout)
	return &moved{reader: r, from: newest, seen: newest, jobs: make(map[int64]bool)}, nil
}

// look reads on.
func (m *moved) look(ctx context.Context) error {
	if m.reader == nil {
		return nil
	}
	for e, err := range m.reader.Events(ctx, journal.Filter{After: m.seen}) {
		if err != nil {
			return err
		}
		m.jobs[e.Job], m.seen = true, e.Seq
	}
	return nil
}

// lookTwice judges jobs that seemed to disagree, as lookAgain does, those that don't move in one go.
func (h journalHandlers) lookTwice(ctx context.Context, r *journal.Reader, m *moved, seemed []journal.Job) (judged []disagreement, err error) {
	type standing struct {
		tried uint64
		owed  bool
	}
	standings := make([]standing, len(seemed))
	for i, job := range seemed {
		standings[i].tried, standings[i].owed = h.mirror.Standing(job.ID)
	}
	found, err := h.look(ctx, idsOf(seemed))
	if err == nil {
		err = m.look(ctx)
	}
	if err != nil {
		return nil, err
	}
	for i, job := range seemed {
		if job.Status == journal.StatusIgnored { // it may have been taken back
			if job, _, err = replayed(ctx, r, job.ID); err != nil {
				return nil, err
			}
		}
		switch at := standings[i]; {
		case m.reader == nil:
			if d, differs := judge(job, found[job.ID], false); differs {
				judged = append(judged, d)
			}
		case m.jobs[job.ID] || at.tried < m.from:
			err = h.lookAgain(ctx, r, job, func(d disagreement) error {
				judged = append(judged, d)
				return nil
			})
		default:
			if d, differs := judge(job, found[job.ID], at.owed); differs {
				judged = append(judged, d)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return judged, nil
}
