package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// checked is a page of records after their hashes and numbers were looked at: stretches of sound events, each with what was
// found before it.
type checked struct {
	stretches []stretch
	jobs      []int64 // of these events, save 0
	index     int     // of the page
}

// stretch is events that follow each other, unaltered, and what is wrong before the first of them.
type stretch struct {
	faults []Fault
	events []Event
}

// verified gives a segment's events between after (0: whatever is there) and end (0: all) with their hashes and their
// sequence checked, from being what the first of them follows. It goes on behind damage.
func (r *Reader) verified(ctx context.Context, s source, after, end uint64, from linked) iter.Seq2[checked, error] {
	pages := func(ctx context.Context) iter.Seq2[linked, error] {
		return link(s.records(ctx, selection{after: after, end: end, output: true, goOn: true}), from)
	}
	return ahead(ctx, pages, linked.check)
}

// linked is a page of records and what it follows.
type linked struct {
	records  []record
	after    uint64
	previous Hash
	unknown  bool          // what the first record's hash covers is not known
	bound    uint64        // the first event of the segment that follows; 0: that is not known
	known    uint64        // the newest event that anything knows of
	damage   *DamagedError // instead of records: they can't be read
	index    int
}

// link gives each page what it follows. What can't be read is a page of its own.
func link(pages iter.Seq2[[]record, error], next linked) iter.Seq2[linked, error] {
	return func(yield func(linked, error) bool) {
		next := next
		for records, err := range pages {
			var damage *DamagedError
			if !errors.As(damaged(err), &damage) && err != nil {
				yield(next, err)
				return
			}
			if next.records = records; len(records) > 0 {
				if !yield(next, nil) {
					return
				}
				last := &records[len(records)-1]
				next.after, next.previous, next.unknown = max(next.after, counted(last.seq)), last.hash, false
			}
			if damage != nil {
				next.records, next.damage = nil, damage
				if !yield(next, nil) {
					return
				}
				next.after, next.unknown, next.damage = max(next.after, damage.Last), true, nil
			}
			next.index++
		}
	}
}

// counted is a sequence number, 0 where it is one that can't be.
func counted(seq uint64) uint64 { return uint64(max(int64(seq), 0)) }

// check checks sequence and hashes and decodes the events. Behind damage it goes on from the hash that is stored.
func (l linked) check() (c checked) {
	c.index = l.index
	if l.damage != nil {
		first, last := max(l.damage.Seq, l.after+1), l.damage.Last
		if last == 0 { // nothing behind it can be read
			last = max(l.bound, 1) - 1
			if l.bound == 0 {
				last = l.known
			}
		}
		return checked{index: l.index, stretches: []stretch{{faults: []Fault{{
			First: first, Last: max(first, last), Detail: l.damage.Detail, Err: l.damage.Err,
		}}}}}
	}
	var p payloads
	var other *Hash // what the record before should have had as its hash, where it has another
	here := stretch{events: make([]Event, 0, len(l.records))}
	note := func(f Fault) {
		if len(here.events) > 0 {
			c.stretches = append(c.stretches, here)
			here = stretch{}
		}
		here.faults = append(here.faults, f)
	}
	for i := range l.records {
		r := &l.records[i]
		if l.surplus(r) {
			note(Fault{First: l.after + 1, Detail: fmt.Sprintf("event %d follows event %d, where it does not belong", int64(r.seq), l.after), surplus: true})
			continue
		}
		if r.seq != l.after+1 {
			note(Fault{First: l.after + 1, Last: r.seq - 1, Missing: true, Detail: fmt.Sprintf("it is missing; event %d follows", int64(r.seq))})
			l.unknown, other = true, nil
		}
		fault := r.judge(l, other)
		var e Event
		if fault == nil {
			var err error
			if e, err = r.decode(&p); err != nil {
				fault = &Fault{First: r.seq, Last: r.seq, Detail: fmt.Sprintf("payload of kind %q", r.kind), Err: errors.Unwrap(err), linked: true, stored: r.hash}
			}
		}
		if other = nil; fault != nil {
			if !fault.linked && !l.unknown {
				other = &fault.computed
			}
			note(*fault)
		} else {
			here.events = append(here.events, e)
		}
		if r.job != 0 {
			c.jobs = append(c.jobs, r.job)
		}
		l.after, l.previous, l.unknown = r.seq, r.hash, false
	}
	c.stretches = append(c.stretches, here)
	return c
}

// surplus tells whether a record is of a number that is passed, or of another segment.
func (l *linked) surplus(r *record) bool {
	return int64(r.seq) <= int64(l.after) || l.bound > 0 && r.seq >= l.bound
}

// judge tells what is wrong with a record by its hash; nil: nothing.
func (r *record) judge(l linked, other *Hash) *Fault {
	if l.unknown {
		return &Fault{
			First: r.seq, Last: r.seq, stored: r.hash, computed: r.hash,
			Detail: "it cannot be checked, since what it follows is missing or damaged",
		}
	}
	computed := r.chain(l.previous)
	if computed == r.hash || other != nil && r.chain(*other) == r.hash {
		return nil
	}
	return &Fault{
		First: r.seq, Last: r.seq, stored: r.hash, computed: computed,
		Detail: "its hash does not match its content and the event before it",
	}
}

// wrong says at which event damage was met. Other errors (no access, no memory, a context's
// end) are not about the journal, and stay as they are.
func wrong(seq uint64, err error) error {
	var d *DamagedError
	if err = damaged(err); errors.As(err, &d) && d.Seq == 0 {
		return &DamagedError{Seq: seq, Err: d.Err, Detail: d.Detail}
	}
	return err
}
