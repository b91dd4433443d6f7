package main

import (
	"context"

	"jobd/journal"
	"jobd/journal/replay"
)

// How far a start looks back for rows that were ignored, and may not have been: a claim's
// transaction is over within a minute or so, or its row is asked by the worker itself, for as long
// as it runs.
const (
	ignoredEvents = 20_000
	mostIgnored   = 1000
)

// ignoredLast lists the rows of which the journal says, near its end, that they are ignored. The
// worker may have been killed before that was committed.
func (p *journalPart) ignoredLast() (ids []int64) {
	newest := p.newest()
	if newest == 0 {
		return nil
	}
	r, err := replay.Open(p.journalDir)
	if err == nil {
		defer r.Close()
		ids, err = ignoredBehind(context.Background(), r, newest-min(newest, ignoredEvents))
	}
	if err != nil {
		p.log.Warn("the journal's history can't be read; whether rows that were ignored last are so is not asked", "error", err)
	}
	return ids
}

// ignoredBehind lists the rows that are ignored by an event behind another, and by none after that
// of a claim, or of a retry: of a row that was set back, retriedBehind asks.
func ignoredBehind(ctx context.Context, r *replay.Reader, after uint64) (ids []int64, err error) {
	first, err := r.First(ctx)
	if err != nil {
		return nil, err
	}
	state := journal.State{KeepEnded: true}
	f := journal.Filter{
		After: max(after, first-1),
		Kinds: []journal.Kind{journal.KindAccepted, journal.KindIgnored, journal.KindRetried, journal.KindConflict},
	}
	for e, err := range r.Events(ctx, f) {
		if err != nil {
			return nil, err
		}
		state.Seq = e.Seq - 1 // the events between are not needed
		if k := e.Kind(); k == journal.KindAccepted || k == journal.KindRetried {
			delete(state.Jobs, e.Job)
			continue
		}
		_ = state.Apply(e) // a conflict of something else changes nothing
	}
	for id, job := range state.Jobs {
		if job.Status == journal.StatusIgnored && len(ids) < mostIgnored {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
