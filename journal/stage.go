package journal

import (
	"bytes"
	"fmt"
	"time"
)

// staging is a commit in the making: the events of a group on top of a state
// that must not change before they are durable.
type staging struct {
	base    *State
	jobs    map[int64]*Job // jobs as the staged events leave them
	undo    []*Job         // what the append being staged has changed in jobs
	events  []Event
	records []record
	seq     uint64
	hash    Hash // of the newest event
	link    Hash // what the next event's hash covers: hash, or the header where it opens the segment
	time    time.Time
	at      instant // of the commit
	noted   bool    // the notes are part of the commit
}

// stage makes the group's drafts into the events that follow base, the first of which covers link, and gives each
// append its events or its error.
func stage(base *State, link Hash, group []*appending, now instant) *staging {
	size := 0
	for _, a := range group {
		size += len(a.drafts)
	}
	s := &staging{
		base: base, seq: base.Seq, hash: base.Hash, link: link, time: base.Time, at: now,
		jobs: make(map[int64]*Job, size), events: make([]Event, 0, size), records: make([]record, 0, size),
	}
	for _, a := range group {
		a.events, a.err = s.addAll(a.drafts, a.encoded, now.wall)
	}
	return s
}

// addAll stages the drafts of one append, all or none.
func (s *staging) addAll(drafts []Draft, encoded []encoded, now time.Time) ([]Event, error) {
	s.undo = s.undo[:0]
	before := *s
	for i, d := range drafts {
		if err := s.add(d, &encoded[i], now); err != nil {
			undo := s.undo
			*s = before
			for k := len(undo) - 1; k >= 0; k-- {
				s.jobs[undo[k].ID] = undo[k]
			}
			return nil, fmt.Errorf("append draft %d of %d: %w", i+1, len(drafts), err)
		}
	}
	first, end := len(before.events), len(s.events)
	return s.events[first:end:end], nil
}

// add stages one draft.
func (s *staging) add(d Draft, as *encoded, now time.Time) error {
	if as.err != nil {
		return as.err
	}
	e := Event{Seq: s.seq + 1, Time: later(now, s.time), Job: d.Job, Payload: as.payload}
	if err := s.check(e); err != nil {
		return err
	}
	r := as.record
	r.seq, r.micros = e.Seq, e.Time.UnixMicro()
	e.Hash = r.chain(s.link)
	r.hash = e.Hash
	s.seq, s.hash, s.link, s.time = e.Seq, e.Hash, e.Hash, e.Time
	s.events, s.records = append(s.events, e), append(s.records, r)
	return nil
}

// encoded is a draft as it will be stored, and as it will be read back. It is made before its append waits
// for anything, so that many appends encode at once.
type encoded struct {
	record  record // without sequence number, time and hash
	payload Payload
	err     error
}

// encodeAll encodes drafts, up to the first that can't be.
func encodeAll(drafts []Draft) []encoded {
	all := make([]encoded, len(drafts))
	for i, d := range drafts {
		if all[i] = encodeDraft(d); all[i].err != nil {
			break
		}
	}
	return all
}

func encodeDraft(d Draft) (e encoded) {
	if d.Payload == nil {
		return encoded{err: fmt.Errorf("job %d: the draft has no payload", d.Job)}
	}
	if e.record, e.err = encode(Event{Job: d.Job, Payload: d.Payload}); e.err == nil {
		e.payload, e.err = stored(e.record, d.Payload)
	}
	return e
}

// stored is the payload as it will be read back. Only text that is not UTF-8 makes a
// difference: its bad bytes become U+FFFD, which the encoder then writes escaped.
func stored(r record, p Payload) (Payload, error) {
	if !bytes.Contains(r.payload, []byte(`\ufffd`)) {
		return p, nil
	}
	return r.decodePayload()
}

// check refuses an event that contradicts the state or what is staged before it.
func (s *staging) check(e Event) error {
	if e.Job == 0 {
		return (&State{}).applyWorker(e)
	}
	job, ok := s.jobs[e.Job]
	if !ok {
		job, ok = s.base.Jobs[e.Job]
	}
	if !ok {
		job = &Job{ID: e.Job}
	}
	next, err := job.next(e)
	if err != nil {
		return err
	}
	s.undo = append(s.undo, job)
	s.jobs[e.Job] = &next
	return nil
}

// take moves the state on by what was staged on top of it.
func (s *State) take(staged *staging) error {
	for _, e := range staged.events {
		if e.Job == 0 {
			if err := s.applyWorker(e); err != nil {
				return err
			}
		}
	}
	for _, job := range staged.jobs {
		s.put(job)
	}
	s.Seq, s.Time, s.Hash = staged.seq, staged.time, staged.hash
	return nil
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
