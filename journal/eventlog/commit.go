package eventlog

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"jobd/journal"
	"jobd/journal/segment"
)

// Group commit without a goroutine: the first to append becomes the leader and commits
// everything that waits; what arrives meanwhile waits for the next leader, which
// is the first of those. So a lone append costs one fsync and no hand-over, and
// a thousand together cost hardly more.

// maxGroup bounds how many appends share a commit, and so its time.
const maxGroup = 1024

// Append makes drafts part of the journal, all or none, next to each other and in their
// order, and returns them as events when they are durable: they survive
// the process and a power cut. The drafts belong to the journal from then on: what
// they point to, such as an output's bytes, must not be changed any more.
//
// Errors: an *IllegalError where a draft contradicts the journal; ErrFull where
// the disk has no room; ErrClosed. After any other error what was written is not known: the journal
// takes nothing more and must be opened anew.
func (j *Log) Append(drafts ...journal.Draft) ([]journal.Event, error) {
	a := newAppending(drafts)
	j.mu.Lock()
	if j.broken != nil {
		defer j.mu.Unlock()
		return nil, j.broken
	}
	j.enqueue(a)
	j.mu.Unlock()
	j.await(a)
	return a.events, a.err
}

// enqueue lets the append wait for a commit, and lead it where nobody else does. Callers must hold
// j.mu.
func (j *Log) enqueue(a *appending) {
	j.waiting = append(j.waiting, a)
	if !j.leading {
		j.leading = true
		a.turn <- true
	}
}

// await waits until the append is done, leading a commit when it is its turn.
func (j *Log) await(a *appending) {
	if leads := <-a.turn; leads {
		j.commit()
		<-a.turn
	}
}

// commit commits what waits, the caller's own append among it, and hands the lead on.
func (j *Log) commit() {
	if j.together {
		j.gather()
	}
	j.mu.Lock()
	group := j.nextGroup()
	j.together = len(group) > 1
	err, n := j.broken, j.notes
	j.mu.Unlock()

	var staged *staging
	if err == nil {
		staged, err = j.write(group, n)
	}
	if err == nil {
		j.observe(staged)
	}

	j.mu.Lock()
	if err == nil {
		err = j.publish(staged, n)
	}
	if err != nil && !errors.Is(err, journal.ErrFull) {
		j.fail(err)
	}
	if j.leading = len(j.waiting) > 0; j.leading {
		j.waiting[0].turn <- true
	}
	j.mu.Unlock()
	finish(group, err)
}

// gather lets those whom the commit before has woken append again, as long as more of them do:
// fewer, larger commits.
func (j *Log) gather() {
	for before, waiting := -1, 0; waiting > before; {
		runtime.Gosched()
		j.mu.Lock()
		before, waiting = waiting, len(j.waiting)
		j.mu.Unlock()
	}
}

// nextGroup is the next group of what waits. Callers must hold j.mu.
func (j *Log) nextGroup() []*appending {
	group := j.waiting
	if len(group) <= maxGroup {
		j.waiting = nil
		return group
	}
	group, j.waiting = group[:maxGroup:maxGroup], group[maxGroup:]
	return group
}

// finish answers every caller what became of its append. A failed commit is everyone's
// error: an append may have been illegal only because of one that failed with it.
func finish(group []*appending, err error) {
	for _, a := range group {
		if err != nil {
			a.events, a.err = nil, err
		}
		a.turn <- false
	}
}

// write turns the group's drafts into events and makes them durable. Only the leader
// runs it, so nobody else changes the state meanwhile.
func (j *Log) write(group []*appending, n segment.Notes) (*staging, error) {
	now := j.clock.read()
	if j.due(now.real) && slices.ContainsFunc(group, (*appending).mayRoll) {
		if err := j.rollOver(now, n); err != nil {
			return nil, fmt.Errorf("begin a new segment: %w", segment.Damaged(err))
		}
	}
	s := stage(&j.state, j.newest.Link(j.state.Seq, j.state.Hash), group, now)
	noted := &n
	if s.noted = j.toNote(group, n, now.real); !s.noted {
		noted = nil
	}
	if len(s.records) == 0 && noted == nil {
		return s, nil
	}
	began, size := time.Now(), j.disk.Size()
	if err := j.disk.Append(s.records, noted); segment.Full(err) {
		return nil, fmt.Errorf("append to journal: %w: %w", journal.ErrFull, err)
	} else if err != nil {
		return nil, fmt.Errorf("append to journal: %w", segment.Damaged(err))
	}
	if len(s.records) == 0 {
		return s, nil
	}
	err := j.head.Write(s.seq, s.hash)
	s.took, s.bytes = time.Since(began), j.disk.Size()-size
	return s, err
}

// observe tells of a commit.
func (j *Log) observe(s *staging) {
	if j.config.Committed != nil && len(s.events) > 0 {
		j.config.Committed(s.events, s.bytes, s.took)
	}
}

// noteInterval is how long a position that only moved on is not written with the events.
const noteInterval = 100 * time.Millisecond

// toNote reports whether notes are written with a commit: when somebody asked for it, by an append
// of nothing, when retention has moved on, and else from time to time only. What they cost, a page
// and some statements, is not to be paid by each commit.
func (j *Log) toNote(group []*appending, n segment.Notes, now time.Time) bool {
	if n == j.stored {
		return false
	}
	asked := slices.ContainsFunc(group, func(a *appending) bool { return len(a.drafts) == 0 })
	since := now.Sub(j.noted)
	if !asked && n.Kept == j.stored.Kept && since >= 0 && since < noteInterval {
		return false
	}
	j.noted = now
	return true
}

// publish makes committed events visible: to the state, to followers. Callers must hold j.mu.
func (j *Log) publish(s *staging, n segment.Notes) error {
	if err := j.state.Take(s.Stage, s.events); err != nil {
		return fmt.Errorf("fold: %w", err)
	}
	if s.noted {
		j.stored = n
	}
	if len(s.events) > 0 {
		if s.events[0].Seq == j.newest.First {
			j.ages.begun = s.at.real
		}
		j.ages.last = s.at.real
		j.recent.add(s.events)
		j.wake()
	}
	return nil
}
