package main

import (
	"context"
	"math"
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

// wasManual tells whether a row was to be run by hand only: its newest claim says so, or that it was
// ignored because its target is not served, which no other row is.
func (p *journalPart) wasManual(ctx context.Context, job int64) bool {
	if claim, err := p.journal.Claim(ctx, job, math.MaxInt64); err == nil {
		return claim.Manual
	}
	r, err := replay.Open(p.journalDir)
	if err != nil {
		return false
	}
	defer r.Close()
	for e, err := range r.Events(ctx, journal.Filter{Job: job, Kinds: []journal.Kind{journal.KindIgnored}, Last: 1}) {
		if ignored, ok := e.Payload.(journal.Ignored); ok && err == nil {
			return strings.HasPrefix(ignored.Reason, "target '")
		}
	}
	return false
}
