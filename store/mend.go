package store

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"jobd/journal"
)

// mending is what is to be done with some rows that are behind.
type mending struct {
	giveBack []Change // rows that bear a claim which was given up
	claim    []*story // rows that nobody has
	bring    []*story // rows that bear the claim, or will after it was made again
}

// mend brings some rows that are behind up to date.
func (c *comparison) mend(ctx context.Context, stories map[int64]*story, ids []int64, found map[int64]*Seen) error {
	var do mending
	for _, id := range ids {
		c.plan(&do, stories[id], found[id])
	}
	if _, err := c.apply(ctx, do.giveBack); err != nil {
		return err
	}
	if err := c.claim(ctx, do.claim); err != nil {
		return err
	}
	return c.bring(ctx, do.bring)
}

// plan says what is to be done with a row.
func (c *comparison) plan(do *mending, s *story, row *Seen) {
	if Agrees(s.Job, row) || s.ended > 0 && row == nil { // what is done may be deleted
		if c.begun[s.ID] { // the table's answer was lost
			c.mended[s.ID] = true
		}
		return
	}
	ours := row != nil && row.UnderWay() && row.Owner == s.Token
	if s.Lost && !ours { // the journal knows that somebody else changed it
		return
	}
	stale := row != nil && (row.UnderWay() && !ours && slices.Contains(s.earlier, row.Owner) || s.ran(row))
	if why := Refusal(s.Job, row, stale); why != "" {
		c.left[s.ID] = why
		c.others = c.others || why == wentOnElsewhere
		return
	}
	c.begun[s.ID] = true
	released := s.Status == journal.StatusReleased || s.Status == journal.StatusRetried
	if row.UnderWay() && (stale || released) {
		do.giveBack = append(do.giveBack, GiveBack(s.Job, row))
	}
	if released {
		return
	}
	if !ours {
		do.claim = append(do.claim, s)
	}
	do.bring = append(do.bring, s)
}

// bring brings rows that bear their claims to what the journal says.
func (c *comparison) bring(ctx context.Context, list []*story) error {
	slices.SortFunc(list, func(a, b *story) int { return cmp.Compare(a.ended, b.ended) })
	var batch []Change
	bytes := 0
	for i, s := range list {
		if c.left[s.ID] == "" {
			change, err := c.change(ctx, s)
			if err != nil {
				return err
			}
			if change.Status != "" {
				batch = append(batch, change)
				bytes += change.size()
			}
		}
		if bytes > batchBytes || i == len(list)-1 {
			if _, err := c.apply(ctx, batch); err != nil {
				return err
			}
			batch, bytes = nil, 0
		}
	}
	return nil
}

// change is what the mirror makes of a job's row; nothing for one that is accepted, which its claim
// has shown.
func (c *comparison) change(ctx context.Context, s *story) (Change, error) {
	change := ChangeTo(s.Job)
	var err error
	if s.Status == journal.StatusDone {
		var done *journal.Done
		if done, err = c.done(ctx, s.ended); err == nil {
			done.Note = both(done.Note, s.notes)
			change.EndAs(s.Job, *done)
		}
	}
	return change, err
}

// done is how a job ended, with its output, from the history, which is read by the page.
func (c *comparison) done(ctx context.Context, seq uint64) (done *journal.Done, err error) {
	if len(c.page) == 0 || seq < c.page[0].Seq || seq > c.page[len(c.page)-1].Seq {
		if c.page, err = c.mirror.Source.Next(ctx, seq-1, batchSize); err != nil {
			return nil, err
		}
	}
	p, _ := c.page[seq-c.page[0].Seq].Payload.(journal.Done)
	return &p, nil
}

// apply applies changes to rows of the other server. What can't be applied now is set aside like
// any change.
func (c *comparison) apply(ctx context.Context, changes []Change) ([]Outcome, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	outcomes, err := divided(ctx, changes, c.mirror.Table.Apply, true)
	if err != nil {
		return nil, tableError{err}
	}
	var gaveBack []string
	for i, o := range outcomes {
		change := changes[i]
		switch o.Fate {
		case Applied:
			c.mended[change.Job] = true
			if change.target != "" && (change.isRelease() || change.comesBack()) {
				gaveBack = append(gaveBack, change.target)
			}
		case Lost:
			c.left[change.Job] = "somebody changed it meanwhile"
		default:
			c.left[change.Job] = o.Note
			c.mirror.owe(change, o)
		}
	}
	if len(gaveBack) > 0 && c.mirror.OnGivenBack != nil {
		slices.Sort(gaveBack)
		c.mirror.OnGivenBack(slices.Compact(gaveBack))
	}
	return outcomes, nil
}

// claimTries is how often rows that somebody else holds are tried to be claimed again, with pauses
// of up to claimPause.
const (
	claimTries = 20
	claimPause = 500 * time.Millisecond
)

// held is why a row was not claimed again.
const held = "it waits again, and somebody else holds it"

// claim claims rows again that nobody has, with the tokens that the journal has for them. Nothing
// is journalled: the claims are durable already.
func (c *comparison) claim(ctx context.Context, list []*story) error {
	for try := 1; len(list) > 0; try++ {
		locked, err := c.claimOnce(ctx, list)
		refused := refusedRows(err)
		switch {
		case IsAway(err):
			return tableError{err}
		case err == nil:
			list = c.only(list, func(id int64) bool { return slices.Contains(locked, id) })
		case len(refused) > 0:
			for id, why := range refused {
				c.left[id] = why
			}
			list = c.only(list, func(id int64) bool { return refused[id] == "" })
			continue
		case len(list) > 1 && try > 1:
			half := len(list) / 2
			return errors.Join(c.claim(ctx, list[:half]), c.claim(ctx, list[half:]))
		}
		if try == claimTries {
			for _, s := range list {
				c.left[s.ID] = held
				if err != nil {
					c.left[s.ID] = err.Error()
				}
			}
			return nil
		}
		if len(list) > 0 {
			select {
			case <-time.After(rand.N(min(claimPause, 10*time.Millisecond<<min(try, 10)))):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// refusedRows are the rows that an error of a claim names, and why the table refuses them.
func refusedRows(err error) map[int64]string {
	var known interface{ Refused() map[int64]string }
	if errors.As(err, &known) {
		return known.Refused()
	}
	return nil
}

// only gives those of a list whose job is wanted.
func (c *comparison) only(list []*story, want func(id int64) bool) (those []*story) {
	for _, s := range list {
		if want(s.ID) {
			those = append(those, s)
		}
	}
	return those
}

// claimOnce tries to claim rows in one transaction. A row that is not as it was seen is left as
// found.
func (c *comparison) claimOnce(ctx context.Context, list []*story) (locked []int64, err error) {
	stories := make(map[int64]*story, len(list))
	var ids []int64
	var targets []string
	for _, s := range list {
		stories[s.ID] = s
		ids, targets = append(ids, s.ID), append(targets, s.Target)
	}
	slices.Sort(targets)
	won := map[int64]bool{}
	decide := func(rows []journal.Row) (events []journal.Event, err error) {
		clear(won)
		for _, row := range rows {
			if s := stories[row.Job]; s != nil && c.free(s, row) {
				won[row.Job] = true
				events = append(events, journal.Event{Job: row.Job, Payload: ClaimOf(s.Job)})
			}
		}
		return events, nil
	}
	if locked, err = c.mirror.Table.ClaimManual(Comparing(ctx), ids, slices.Compact(targets), decide); err != nil {
		return nil, err
	}
	for _, id := range ids {
		switch {
		case won[id]:
			c.mended[id] = true
		case !slices.Contains(locked, id):
			c.left[id] = "somebody changed it meanwhile"
		}
	}
	return locked, nil
}

// free tells whether a locked row is still the one that the story is about, and nobody's.
func (c *comparison) free(s *story, row journal.Row) bool {
	var now journal.Job
	c.mirror.Source.View(func(state *journal.State) { now = state.Job(s.ID) })
	if !now.Status.Ended() && now.Token != s.Token {
		return false
	}
	if IsSetBack(s.Job, row) { // since it was looked at
		return false
	}
	if s.Status == journal.StatusIgnored {
		return IsFree(row)
	}
	if row.Status == journal.RowDelayed && !AsFound(s.Job, row.Plan, row.Finished) && !s.ran(&Seen{Row: row, Finished: row.Finished}) {
		return false
	}
	return IsFree(row) && s.Manual == (row.Status == journal.RowManual) && row.Target == s.Target
}

// tableError is the table's part in the failure of a comparison: it is tried again.
type tableError struct{ error }

// Unwrap gives the table's error.
func (e tableError) Unwrap() error { return e.error }

// serverCheck tells that the server is to be asked for which one it is. Its methods are safe for
// concurrent use.
type serverCheck struct {
	mu        sync.Mutex
	due       bool
	interrupt func() // ends the waiting for events; nil while there is none
}

// CheckServer has the mirror ask which server the table is on, before it does anything else. It is
// called when a connection reached another one than was confirmed. It does not block.
func (s *serverCheck) CheckServer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = true
	if s.interrupt != nil {
		s.interrupt()
	}
}

// isDue tells whether the server is to be asked.
func (s *serverCheck) isDue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.due
}

// interruptible says how to end the waiting for events; nil: it has ended. It tells whether to wait
// at all.
func (s *serverCheck) interruptible(cancel func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel != nil && s.due {
		return false
	}
	s.interrupt = cancel
	return true
}

// begun notes that the server is asked now: a CheckServer from here on needs another look.
func (s *serverCheck) begun() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = false
}
