package main

import (
	"context"
	"strings"

	"jobd/journal"
	"jobd/journal/replay"
)

// retriedLast gives the rows of which the journal says, near its end, that they were set back. The
// worker may have been killed before that was committed.
func (p *journalPart) retriedLast() (rows map[int64]journal.Retried) {
	newest := p.newest()
	if newest == 0 {
		return nil
	}
	r, err := replay.Open(p.journalDir)
	if err == nil {
		defer r.Close()
		rows, err = retriedBehind(context.Background(), r, newest-min(newest, ignoredEvents))
	}
	if err != nil {
		p.log.Warn("the journal's history can't be read; whether rows that were set back last are so is not asked", "error", err)
	}
	return rows
}

// retriedBehind gives the rows that were set back by an event behind another, of which nothing else
// is known since.
func retriedBehind(ctx context.Context, r *replay.Reader, after uint64) (map[int64]journal.Retried, error) {
	first, err := r.First(ctx)
	if err != nil {
		return nil, err
	}
	rows := map[int64]journal.Retried{}
	f := journal.Filter{
		After: max(after, first-1),
		Kinds: []journal.Kind{journal.KindAccepted, journal.KindIgnored, journal.KindRetried, journal.KindConflict},
	}
	for e, err := range r.Events(ctx, f) {
		if err != nil {
			return nil, err
		}
		switch p := e.Payload.(type) {
		case journal.Retried:
			rows[e.Job] = p
		case journal.Conflict:
			if p.Wanted == journal.WantedRetried {
				delete(rows, e.Job)
			}
		default:
			delete(rows, e.Job)
		}
	}
	return rows, nil
}

// wasManual tells whether a row was to be run by hand only: the newest event that tells where it came
// from, or was set back to, says so. Events of older versions tell of ignored rows only that their
// targets were not served, which only those are that were manual.
func (p *journalPart) wasManual(ctx context.Context, job int64) bool {
	newest, found, err := p.journal.Newest(ctx, job, journal.KindAccepted, journal.KindIgnored, journal.KindRetried)
	if err != nil || !found {
		return false
	}
	switch of := newest.(type) {
	case journal.Accepted:
		return of.Manual
	case journal.Ignored:
		return of.Manual || strings.HasPrefix(of.Reason, "target '")
	case journal.Retried:
		return of.To == journal.RowManual
	}
	return false
}
