package segment

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"jobd/journal"
)

// Checked is a page of records after their hashes and numbers were looked at: stretches of sound
// events, each with what was found before it.
type Checked struct {
	Stretches []stretch
	Jobs      []int64 // of these events, save 0
	Index     int     // of the page
}

// stretch is events that follow each other, unaltered, and what is wrong before the first of them.
type stretch struct {
	Faults []Fault
	Events []journal.Event
}

// Verified gives a segment's events between after (0: whatever is there) and end (0: all) with
// their hashes and their sequence checked, start being what the first of them follows. It goes on
// behind damage.
func Verified(ctx context.Context, s Source, after, end uint64, start From) iter.Seq2[Checked, error] {
	pages := func(ctx context.Context) iter.Seq2[linked, error] {
		return link(s.Records(ctx, Selection{After: after, End: end, Output: true, GoOn: true}), linked{From: start})
	}
	return ahead(ctx, pages, linked.check)
}

// From is what the first of some records follows.
type From struct {
	After    uint64
	Previous journal.Hash
	Unknown  bool   // what the first record's hash covers is not known
	Bound    uint64 // the first event of the segment that follows; 0: that is not known
	Known    uint64 // the newest event that anything knows of
}

// linked is a page of records and what it follows.
type linked struct {
	From
	records []Record
	damage  *journal.DamagedError // instead of records: they can't be read
	index   int
}

// link gives each page what it follows. What can't be read is a page of its own.
func link(pages iter.Seq2[[]Record, error], next linked) iter.Seq2[linked, error] {
	return func(yield func(linked, error) bool) {
		next := next
		for records, err := range pages {
			var damage *journal.DamagedError
			if !errors.As(Damaged(err), &damage) && err != nil {
				yield(next, err)
				return
			}
			if next.records = records; len(records) > 0 {
				if !yield(next, nil) {
					return
				}
				last := &records[len(records)-1]
				next.After, next.Previous, next.Unknown = max(next.After, counted(last.Seq)), last.Hash, false
			}
			if damage != nil {
				next.records, next.damage = nil, damage
				if !yield(next, nil) {
					return
				}
				next.After, next.Unknown, next.damage = max(next.After, damage.Last), true, nil
			}
			next.index++
		}
	}
}

// counted is a sequence number, 0 where it is one that can't be.
func counted(seq uint64) uint64 { return uint64(max(int64(seq), 0)) }

// check checks sequence and hashes and decodes the events. Behind damage it goes on from the hash
// that is stored.
func (l linked) check() (c Checked) {
	c.Index = l.index
	if l.damage != nil {
		first, last := max(l.damage.Seq, l.After+1), l.damage.Last
		if last == 0 { // nothing behind it can be read
			last = max(l.Bound, 1) - 1
			if l.Bound == 0 {
				last = l.Known
			}
		}
		return Checked{Index: l.index, Stretches: []stretch{{Faults: []Fault{{
			First: first, Last: max(first, last), Detail: l.damage.Detail, Err: l.damage.Err,
		}}}}}
	}
	var p Decoder
	var other *journal.Hash // what the record before should have had as its hash, where it has another
	here := stretch{Events: make([]journal.Event, 0, len(l.records))}
	note := func(f Fault) {
		if len(here.Events) > 0 {
			c.Stretches = append(c.Stretches, here)
			here = stretch{}
		}
		here.Faults = append(here.Faults, f)
	}
	for i := range l.records {
		r := &l.records[i]
		if l.surplus(r) {
			note(Fault{First: l.After + 1, Detail: fmt.Sprintf("event %d follows event %d, where it does not belong", int64(r.Seq), l.After), Surplus: true})
			continue
		}
		if r.Seq != l.After+1 {
			note(Fault{First: l.After + 1, Last: r.Seq - 1, Missing: true, Detail: fmt.Sprintf("it is missing; event %d follows", int64(r.Seq))})
			l.Unknown, other = true, nil
		}
		fault := r.judge(l.From, other)
		var e journal.Event
		if fault == nil {
			var err error
			if e, err = r.Decode(&p); err != nil {
				fault = &Fault{First: r.Seq, Last: r.Seq, Detail: fmt.Sprintf("payload of kind %q", r.Kind), Err: errors.Unwrap(err), Linked: true, Stored: r.Hash}
			}
		}
		if other = nil; fault != nil {
			if !fault.Linked && !l.Unknown {
				other = &fault.Computed
			}
			note(*fault)
		} else {
			here.Events = append(here.Events, e)
		}
		if r.Job != 0 {
			c.Jobs = append(c.Jobs, r.Job)
		}
		l.After, l.Previous, l.Unknown = r.Seq, r.Hash, false
	}
	c.Stretches = append(c.Stretches, here)
	return c
}

// surplus reports whether a record is of a number that is passed, or of another segment.
func (l *linked) surplus(r *Record) bool {
	return int64(r.Seq) <= int64(l.After) || l.Bound > 0 && r.Seq >= l.Bound
}

// judge tells what is wrong with a record by its hash; nil: nothing.
func (r *Record) judge(l From, other *journal.Hash) *Fault {
	if l.Unknown {
		return &Fault{
			First: r.Seq, Last: r.Seq, Stored: r.Hash, Computed: r.Hash,
			Detail: "it cannot be checked, since what it follows is missing or damaged",
		}
	}
	computed := r.Chain(l.Previous)
	if computed == r.Hash || other != nil && r.Chain(*other) == r.Hash {
		return nil
	}
	return &Fault{
		First: r.Seq, Last: r.Seq, Stored: r.Hash, Computed: computed,
		Detail: "its hash does not match its content and the event before it",
	}
}

// Follows tells what is wrong with a record by its hash, where that of the record before it is
// known; nil: nothing.
func (r *Record) Follows(previous journal.Hash) error {
	if f := r.judge(From{Previous: previous}, nil); f != nil {
		return f.Damage()
	}
	return nil
}
