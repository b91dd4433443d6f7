package eventlog

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
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

// enqueue adds the append to those that wait for a commit. If no append leads a commit, this one does.
// Callers must hold j.mu.
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
	err, position := j.broken, j.position
	j.mu.Unlock()

	var staged *staging
	if err == nil {
		staged, err = j.write(group, position)
	}
	if err == nil && j.config.Committed != nil && len(staged.events) > 0 {
		j.config.Committed(staged.events, staged.bytes, staged.took)
	}

	j.mu.Lock()
	if err == nil {
		err = j.publish(staged, position)
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

// gather lets the callers that the commit before has woken append again, as long as more of them do:
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
func (j *Log) write(group []*appending, position uint64) (*staging, error) {
	now := j.clock.read()
	if j.due(now.real) && slices.ContainsFunc(group, (*appending).mayRoll) {
		if err := j.rollOver(now, position); err != nil {
			return nil, fmt.Errorf("begin a new segment: %w", archive.Damaged(err))
		}
	}
	if j.state.Seq < j.newest.First { // its first event comes now
		j.mu.Lock()
		j.begun[j.newest.Number] = now.real.UnixMicro()
		j.mu.Unlock()
	}
	s := stage(&j.state, j.newest.Link(j.state.Seq, j.state.Hash), group, now)
	var noted *uint64
	if s.noted = j.toNote(group, position, now.real); s.noted {
		noted = &position
	}
	if len(s.records) == 0 && noted == nil {
		return s, nil
	}
	began, size := time.Now(), j.disk.Size()
	if err := j.disk.Append(s.records, noted); archive.Full(err) {
		return nil, fmt.Errorf("append to journal: %w: %w", journal.ErrFull, err)
	} else if err != nil {
		return nil, fmt.Errorf("append to journal: %w", archive.Damaged(err))
	}
	if len(s.records) == 0 {
		return s, nil
	}
	last := &s.events[len(s.events)-1]
	err := j.head.Write(last.Seq, last.Hash)
	s.took, s.bytes = time.Since(began), j.disk.Size()-size
	return s, err
}

// noteInterval is how much time must pass before a commit writes the position again, if nobody asked for
// it.
const noteInterval = 100 * time.Millisecond

// toNote reports whether the position is written with a commit: when somebody asked for it, by an
// append of nothing, and else from time to time only. What it costs, a page and some statements, is
// not to be paid by each commit.
func (j *Log) toNote(group []*appending, position uint64, now time.Time) bool {
	if position == j.stored {
		return false
	}
	asked := slices.ContainsFunc(group, func(a *appending) bool { return len(a.drafts) == 0 })
	since := now.Sub(j.noted)
	if !asked && since >= 0 && since < noteInterval {
		return false
	}
	j.noted = now
	return true
}

// publish makes committed events visible: to the state, to followers. Callers must hold j.mu.
func (j *Log) publish(s *staging, position uint64) error {
	if err := j.state.Take(s.Stage, s.events); err != nil {
		return fmt.Errorf("fold: %w", err)
	}
	if s.noted {
		j.stored = position
	}
	if len(s.events) > 0 {
		j.recent.add(s.events)
		j.wake()
	}
	return nil
}

// appending is one call of Append under way.
type appending struct {
	drafts  []journal.Draft
	events  []journal.Event  // without what their place in the journal gives them, until they are staged
	records []archive.Record // the same as they will be stored
	err     error
	turn    chan bool // receives true when this call leads, false when events or err is set
}

// newAppending encodes drafts before their append waits for anything, so that many appends encode at
// once.
func newAppending(drafts []journal.Draft) *appending {
	a := &appending{
		drafts: drafts, events: make([]journal.Event, len(drafts)), records: make([]archive.Record, len(drafts)),
		turn: make(chan bool, 2),
	}
	for i, d := range drafts {
		a.events[i] = journal.Event{Job: d.Job, Payload: d.Payload}
		if err := encode(&a.events[i], &a.records[i]); err != nil {
			a.fail(i, err)
			break
		}
	}
	return a
}

// encode makes an event's record, and its payload the one that will be read back. Only text that is
// not UTF-8 makes a difference: its bad bytes become U+FFFD, which the encoder then writes escaped.
func encode(e *journal.Event, r *archive.Record) (err error) {
	if e.Payload == nil {
		return fmt.Errorf("job %d: the draft has no payload", e.Job)
	}
	if *r, err = archive.Encode(*e); err == nil && bytes.Contains(r.Payload, []byte(`\ufffd`)) {
		e.Payload, err = r.DecodePayload()
	}
	return err
}

// fail says that a draft can't be appended, nor those with it.
func (a *appending) fail(i int, err error) {
	a.events, a.err = nil, fmt.Errorf("append draft %d of %d: %w", i+1, len(a.drafts), err)
}

// mayRoll reports whether an append may begin a new segment. An append of only a Retention event may not:
// else an idle worker would begin a segment for each that it removes.
func (a *appending) mayRoll() bool {
	if len(a.drafts) != 1 {
		return len(a.drafts) > 0
	}
	_, removal := a.drafts[0].Payload.(journal.Retention)
	return !removal
}

// staging is a commit in the making: the events of a group on top of a state
// that must not change before they are durable.
type staging struct {
	*journal.Stage
	events  []journal.Event
	records []archive.Record
	link    journal.Hash // what the next event's hash covers: the newest one's, or the header of a new segment
	noted   bool         // the position is part of the commit

	took  time.Duration // until all of it was durable
	bytes int64         // that it takes
}

// stage makes the group's drafts into the events that follow base, the first of which covers link,
// and gives each append that contradicts it its error.
func stage(base *journal.State, link journal.Hash, group []*appending, now instant) *staging {
	size := 0
	for _, a := range group {
		size += len(a.drafts)
	}
	s := &staging{
		Stage: base.Stage(size), link: link,
		events: make([]journal.Event, 0, size), records: make([]archive.Record, 0, size),
	}
	wall := now.wall
	if wall.Before(base.Time) {
		wall = base.Time
	}
	for _, a := range group {
		if a.err == nil {
			s.add(a, base.Seq+uint64(len(s.events))+1, wall)
		}
	}
	return s
}

// add stages the events of one append, all or none, from a sequence number on.
func (s *staging) add(a *appending, first uint64, now time.Time) {
	for i := range a.events {
		a.events[i].Seq, a.events[i].Time = first+uint64(i), now
	}
	if i, err := s.Add(a.events...); err != nil {
		a.fail(i, err)
		return
	}
	for i := range a.events {
		e, r := &a.events[i], &a.records[i]
		r.Seq, r.Micros = e.Seq, e.Time.UnixMicro()
		e.Hash = r.Chain(s.link)
		r.Hash, s.link = e.Hash, e.Hash
	}
	s.events, s.records = append(s.events, a.events...), append(s.records, a.records...)
}

// rollRetry is how long a roll-over that found no room is put off.
const rollRetry = time.Minute

// rollOver begins a new segment. Only the leader calls it, between two
// commits. Where there is no room the journal goes on in the old segment.
func (j *Log) rollOver(now instant, position uint64) error {
	h, err := archive.NewHeader(j.newest.Number+1, &j.state)
	if err != nil {
		return err
	}
	next, err := j.disk.next(h, position)
	if archive.Full(err) {
		j.retryRoll = now.real.Add(rollRetry)
		j.config.Logger.Warn("no room for a new segment of the journal; going on in the old one", "segment", j.newest.Number)
		return nil
	}
	if err != nil {
		return err
	}
	j.retryRoll = time.Time{}
	j.mu.Lock()
	j.newest = h
	j.former, j.disk, j.stored = append(j.former, j.disk), next, position
	j.mu.Unlock()
	j.wakeRun()
	return nil
}

// due reports whether a new segment begins: the newest has events, and is large or old enough. Its
// age goes by what really passed: a clock that was set back does not keep it.
func (j *Log) due(now time.Time) bool {
	if j.state.Seq < j.newest.First || now.Before(j.retryRoll) {
		return false
	}
	if j.disk.Size() >= j.config.SegmentSize {
		return true
	}
	j.mu.Lock() // maintenance takes removed segments out meanwhile
	defer j.mu.Unlock()
	return now.UnixMicro()-j.begun[j.newest.Number] >= j.config.SegmentAge.Microseconds()
}

// closeFormer closes the segments before the newest that are still open, after it has emptied their
// write-ahead logs. Callers must hold j.tended.
func (j *Log) closeFormer() error {
	j.mu.Lock()
	former := j.former
	j.former = nil
	j.mu.Unlock()
	var errs []error
	for _, d := range former {
		errs = append(errs, d.Checkpoint(0), d.Close())
	}
	return errors.Join(errs...)
}
