package eventlog

import (
	"bytes"
	"fmt"
	"time"

	"jobd/journal"
	"jobd/journal/segment"
)

// staging is a commit in the making: the events of a group on top of a state
// that must not change before they are durable.
type staging struct {
	*journal.Stage
	events  []journal.Event
	records []segment.Record
	seq     uint64
	hash    journal.Hash // of the newest event
	link    journal.Hash // what the next event's hash covers: hash, or the header where it opens the segment
	time    time.Time
	at      instant // of the commit
	noted   bool    // the notes are part of the commit

	took  time.Duration // until all of it was durable
	bytes int64         // that it takes
}

// stage makes the group's drafts into the events that follow base, the first of which covers link,
// and gives each append its events or its error.
func stage(base *journal.State, link journal.Hash, group []*appending, now instant) *staging {
	size := 0
	for _, a := range group {
		size += len(a.drafts)
	}
	s := &staging{
		Stage: base.Stage(size), seq: base.Seq, hash: base.Hash, link: link, time: base.Time, at: now,
		events: make([]journal.Event, 0, size), records: make([]segment.Record, 0, size),
	}
	for _, a := range group {
		a.events, a.err = s.addAll(a.drafts, a.encoded, now.wall)
	}
	return s
}

// addAll stages the drafts of one append, all or none.
func (s *staging) addAll(drafts []journal.Draft, encoded []encoded, now time.Time) ([]journal.Event, error) {
	s.Mark()
	before := *s
	for i, d := range drafts {
		if err := s.add(d, &encoded[i], now); err != nil {
			*s = before
			s.Undo()
			return nil, fmt.Errorf("append draft %d of %d: %w", i+1, len(drafts), err)
		}
	}
	first, end := len(before.events), len(s.events)
	return s.events[first:end:end], nil
}

// add stages one draft.
func (s *staging) add(d journal.Draft, as *encoded, now time.Time) error {
	if as.err != nil {
		return as.err
	}
	e := journal.Event{Seq: s.seq + 1, Time: now, Job: d.Job, Payload: as.payload}
	if e.Time.Before(s.time) {
		e.Time = s.time
	}
	if err := s.Add(e); err != nil {
		return err
	}
	r := as.record
	r.Seq, r.Micros = e.Seq, e.Time.UnixMicro()
	e.Hash = r.Chain(s.link)
	r.Hash = e.Hash
	s.seq, s.hash, s.link, s.time = e.Seq, e.Hash, e.Hash, e.Time
	s.events, s.records = append(s.events, e), append(s.records, r)
	return nil
}

// encoded is a draft as it will be stored, and as it will be read back. It is made before its
// append waits for anything, so that many appends encode at once.
type encoded struct {
	record  segment.Record // without sequence number, time and hash
	payload journal.Payload
	err     error
}

// encodeAll encodes drafts, up to the first that can't be.
func encodeAll(drafts []journal.Draft) []encoded {
	all := make([]encoded, len(drafts))
	for i, d := range drafts {
		if all[i] = encodeDraft(d); all[i].err != nil {
			break
		}
	}
	return all
}

func encodeDraft(d journal.Draft) (e encoded) {
	if d.Payload == nil {
		return encoded{err: fmt.Errorf("job %d: the draft has no payload", d.Job)}
	}
	if e.record, e.err = segment.Encode(journal.Event{Job: d.Job, Payload: d.Payload}); e.err == nil {
		e.payload, e.err = stored(e.record, d.Payload)
	}
	return e
}

// stored is the payload as it will be read back. Only text that is not UTF-8 makes a
// difference: its bad bytes become U+FFFD, which the encoder then writes escaped.
func stored(r segment.Record, p journal.Payload) (journal.Payload, error) {
	if !bytes.Contains(r.Payload, []byte(`\ufffd`)) {
		return p, nil
	}
	return r.DecodePayload()
}
