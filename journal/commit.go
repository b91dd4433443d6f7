package journal

import (
	"fmt"
	"time"
)

// Group commit without a goroutine: the first to append becomes the leader and commits
// everything that waits; what arrives meanwhile waits for the next leader, which
// is the first of those. So a lone append costs one fsync and no hand-over, and
// a thousand together cost hardly more.

// maxGroup bounds how many appends share a commit, and so its memory and time.
const maxGroup = 1024

// appending is one call of Append under way.
type appending struct {
	drafts []Draft
	events []Event
	err    error
	done   chan struct{} // closed when events or err is set
	lead   chan struct{} // receives when this call is to lead
}

// Append makes drafts part of the journal, all or none, next to each other and in their
// order, and returns them as events when they are durable: they survive
// the process and a power cut.
//
// Errors: an *IllegalError where a draft contradicts the journal; ErrFull where
// the disk has no room; ErrClosed. After any other error what was written is not known: the journal
// takes nothing more and must be opened anew (pitfall 24).
func (j *Journal) Append(drafts ...Draft) ([]Event, error) {
	a := &appending{drafts: drafts, done: make(chan struct{}), lead: make(chan struct{}, 1)}
	j.mu.Lock()
	if j.broken != nil {
		defer j.mu.Unlock()
		return nil, j.broken
	}
	j.waiting = append(j.waiting, a)
	if !j.leading {
		j.leading = true
		a.lead <- struct{}{}
	}
	j.mu.Unlock()
	j.await(a)
	return a.events, a.err
}

// await waits until the append is done, leading a commit when it is its turn.
func (j *Journal) await(a *appending) {
	select {
	case <-a.done:
	case <-a.lead:
		j.commit()
		<-a.done
	}
}

// commit commits what waits, the caller's own append among it, and hands the lead on.
func (j *Journal) commit() {
	j.mu.Lock()
	group := j.waiting[:min(len(j.waiting), maxGroup)]
	j.waiting = j.waiting[len(group):]
	broken, position := j.broken, j.position
	j.mu.Unlock()

	var staged *staging
	var err error
	if broken == nil {
		staged, err = j.write(group, position)
	} else {
		err = broken
	}

	j.mu.Lock()
	if err == nil {
		j.publish(staged, position)
	} else if j.broken == nil && !full(err) {
		j.broken = fmt.Errorf("journal failed and takes no more events: %w", err)
	}
	if j.leading = len(j.waiting) > 0; j.leading {
		j.waiting[0].lead <- struct{}{}
	}
	j.mu.Unlock()
	finish(group, err)
}

// finish tells every caller what became of its append.
func finish(group []*appending, err error) {
	if full(err) {
		err = fmt.Errorf("%w: %w", ErrFull, err)
	}
	for _, a := range group {
		if err != nil && a.err == nil {
			a.events, a.err = nil, err
		}
		close(a.done)
	}
}

// write turns the group's drafts into events and makes them durable. Only the leader
// runs it, so nobody else changes the state meanwhile.
func (j *Journal) write(group []*appending, position uint64) (*staging, error) {
	s := &staging{base: &j.state, jobs: make(map[int64]Job), hash: j.state.Hash, seq: j.state.Seq, time: j.state.Time}
	now := j.now().UTC().Truncate(time.Microsecond)
	for _, a := range group {
		a.events, a.err = s.stage(a.drafts, now)
	}
	if position == j.stored {
		position = 0
	}
	if len(s.records) == 0 && position == 0 {
		return s, nil
	}
	if err := j.segment.append(s.records, position); err != nil {
		return nil, fmt.Errorf("append to journal: %w", damaged(err))
	}
	if len(s.records) == 0 {
		return s, nil
	}
	return s, j.head.write(s.seq, s.hash)
}

// publish makes committed events visible: to the state, to followers.
func (j *Journal) publish(s *staging, position uint64) {
	for _, e := range s.events {
		if err := j.state.Apply(e); err != nil {
			j.broken = fmt.Errorf("journal failed and takes no more events: fold: %w", err)
			return
		}
	}
	j.stored = max(j.stored, position)
	if len(s.events) > 0 {
		j.recent.add(s.events)
		j.wake()
	}
}

// wake wakes those who wait in Next. The lock is held.
func (j *Journal) wake() {
	if j.grown != nil {
		close(j.grown)
		j.grown = nil
	}
}

// staging is a commit in the making: the events of a group on top of a state
// that must not change before they are durable.
type staging struct {
	base    *State
	jobs    map[int64]Job // jobs as the staged events leave them
	events  []Event
	records []record
	seq     uint64
	hash    Hash
	time    time.Time
}

// stage adds the drafts of one append, all or none.
func (s *staging) stage(drafts []Draft, now time.Time) ([]Event, error) {
	before := *s
	touched := make(map[int64]Job)
	events := make([]Event, 0, len(drafts))
	for _, d := range drafts {
		e, err := s.add(d, touched, now)
		if err != nil {
			s.events, s.records = before.events, before.records
			s.seq, s.hash, s.time = before.seq, before.hash, before.time
			return nil, err
		}
		events = append(events, e)
	}
	for id, job := range touched {
		s.jobs[id] = job
	}
	return events, nil
}

// add stages one draft; touched holds the jobs as this append's drafts leave them.
func (s *staging) add(d Draft, touched map[int64]Job, now time.Time) (Event, error) {
	e := Event{Seq: s.seq + 1, Time: later(now, s.time), Job: d.Job, Payload: d.Payload}
	if err := s.check(e, touched); err != nil {
		return Event{}, err
	}
	r, err := encode(e)
	if err != nil {
		return Event{}, err
	}
	e.Hash = r.chain(s.hash)
	r.hash = e.Hash
	s.seq, s.hash, s.time = e.Seq, e.Hash, e.Time
	s.events, s.records = append(s.events, e), append(s.records, r)
	return e, nil
}

// check refuses an event that contradicts the state or what is staged before it.
func (s *staging) check(e Event, touched map[int64]Job) error {
	if e.Job == 0 {
		return (&State{}).applyWorker(e)
	}
	job, ok := touched[e.Job]
	if !ok {
		if job, ok = s.jobs[e.Job]; !ok {
			job = s.base.Job(e.Job)
		}
	}
	next, err := job.next(e)
	if err != nil {
		return err
	}
	touched[e.Job] = next
	return nil
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
