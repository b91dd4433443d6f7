package store

import (
	"cmp"
	"context"
	"sync"

	"jobd/journal"
)

// mend brings some rows that are behind up to date.
func (c *comparison) mend(ctx context.Context, stories map[int64]*story, ids []int64, found map[int64]*Seen) error {
	var list []Past
	for _, id := range ids {
		s, row := stories[id], found[id]
		if Agrees(s.Job, row) || s.Job.End > 0 && row == nil { // what is done may be deleted
			if c.begun[id] { // the table's answer was lost
				c.mended[id] = true
			}
			continue
		}
		ours := row != nil && row.UnderWay() && row.Owner == s.Token
		if (s.conflict || s.Lost) && !ours { // the journal knows that somebody else changed it
			continue
		}
		stale := row != nil && !ours && s.isStale(row)
		if why := Refusal(s.Job, row, stale); why != "" {
			c.left[id] = why
			c.others = c.others || why == wentOnElsewhere
			continue
		}
		c.begun[id] = true
		list = append(list, Past{Job: s.Job, Row: row, Stale: stale})
	}
	var gaveBack []string
	bringing := Bringing{
		Table: c.mirror.Table, Tries: claimTries, Left: c.left, Won: c.mended,
		Free: func(_ context.Context, p Past, row journal.Row) (bool, error) {
			return c.free(stories[p.Job.ID], row), nil
		},
		End: func(ctx context.Context, p Past) (*journal.Done, error) {
			done, err := c.done(ctx, p.Job.End)
			if err == nil {
				done.Note = both(done.Note, stories[p.Job.ID].notes)
			}
			return done, err
		},
		outcome: func(change Change, o Outcome) {
			switch o.Fate {
			case Applied:
				c.mended[change.Job] = true
				if change.target != "" && (change.Status == journal.RowWaiting || change.Status == journal.RowDelayed) {
					gaveBack = append(gaveBack, change.target)
				}
			case Lost:
			default: // it is quarantined like any change
				c.mirror.owe(change, o)
			}
		},
	}
	err := bringing.Rows(Comparing(ctx), list)
	c.mirror.tellGivenBack(gaveBack)
	if err != nil && ctx.Err() == nil && c.journal == nil {
		return tableError{err}
	}
	return cmp.Or(c.journal, err)
}

// claimTries is how often rows that somebody else holds are tried to be claimed again.
const claimTries = 20

// done is how a job ended, with its output, from the history, which is read by the page.
func (c *comparison) done(ctx context.Context, seq uint64) (done *journal.Done, err error) {
	if len(c.page) == 0 || seq < c.page[0].Seq || seq > c.page[len(c.page)-1].Seq {
		if c.page, err = c.mirror.Source.Next(ctx, seq-1, batchSize); err != nil {
			c.journal = err
			return nil, err
		}
	}
	p, _ := c.page[seq-c.page[0].Seq].Payload.(journal.Done)
	return &p, nil
}

// free tells whether a locked row is still the one that the story is about, and nobody's.
func (c *comparison) free(s *story, row journal.Row) bool {
	var now journal.Job
	c.mirror.Source.View(func(state *journal.State) { now = state.Job(s.ID) })
	if !now.Status.Ended() && now.Token != s.Token {
		return false
	}
	if s.Status == journal.StatusIgnored {
		return true
	}
	if row.Status == journal.RowDelayed && !AsFound(s.Job, row.Plan, row.Finished) && !s.isStale(&Seen{Row: row, Finished: row.Finished}) {
		return false
	}
	return s.Manual == (row.Status == journal.RowManual) && row.Target == s.Target
}

// tableError is the table's part in the failure of a comparison: it is tried again.
type tableError struct{ error }

// Unwrap gives the table's error.
func (e tableError) Unwrap() error { return e.error }

// serverCheck tells when the mirror must ask which server this is: once its context has ended. Its
// methods are safe for concurrent use.
type serverCheck struct {
	mu    sync.Mutex
	known context.Context
	end   context.CancelFunc
}

// CheckServer has the mirror ask which server the table is on, before it does anything else. It is
// called when a connection reached another one than was confirmed. It does not block.
func (s *serverCheck) CheckServer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
}

// begun notes that the server is asked now: a CheckServer from here on needs another look.
func (s *serverCheck) begun() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known, s.end = context.WithCancel(context.Background())
}

// asked gives the context that ends when the mirror must ask the server again.
func (s *serverCheck) asked() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known
}

// isDue tells whether the mirror must ask the server.
func (s *serverCheck) isDue() bool { return s.asked().Err() != nil }
