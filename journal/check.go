package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// checked is a page of events whose hashes are right.
type checked struct {
	events []Event
	jobs   []int64 // of these events, save 0
	index  int     // of the page
	err    error   // what is wrong with the event after these
}

// verified gives a segment's events behind after (0: whatever is there) with their hashes and their sequence checked,
// from being what the first of them follows.
func (r *Reader) verified(ctx context.Context, s source, after uint64, from linked) iter.Seq2[checked, error] {
	pages := func(ctx context.Context) iter.Seq2[linked, error] {
		return link(s.records(ctx, selection{after: after, output: true}), from)
	}
	return ahead(ctx, pages, linked.check)
}

// linked is a page of records and what it follows.
type linked struct {
	records  []record
	after    uint64
	previous Hash
	index    int
}

// link gives each page what it follows.
func link(pages iter.Seq2[[]record, error], next linked) iter.Seq2[linked, error] {
	return func(yield func(linked, error) bool) {
		next := next
		for records, err := range pages {
			next.records = records
			if !yield(next, err) {
				return
			}
			if len(records) > 0 {
				last := &records[len(records)-1]
				next.after, next.previous = last.seq, last.hash
			}
			next.index++
		}
	}
}

// check checks sequence and hashes and decodes the events, up to the first that is wrong.
func (l linked) check() (c checked) {
	c.index = l.index
	c.events = make([]Event, 0, len(l.records))
	var p payloads
	for i := range l.records {
		r := &l.records[i]
		if c.err = r.follows(l.after, l.previous); c.err != nil {
			return c
		}
		var e Event
		if e, c.err = r.decode(&p); c.err != nil {
			return c
		}
		c.events = append(c.events, e)
		if r.job != 0 {
			c.jobs = append(c.jobs, r.job)
		}
		l.after, l.previous = r.seq, r.hash
	}
	return c
}

// follows tells whether a record is the next, unaltered.
func (r *record) follows(after uint64, previous Hash) error {
	switch {
	case r.seq != after+1:
		return &DamagedError{Seq: after + 1, Detail: fmt.Sprintf("it is missing; event %d follows", int64(r.seq))}
	case r.chain(previous) != r.hash:
		return &DamagedError{Seq: r.seq, Detail: "its hash does not match its content and the event before it"}
	}
	return nil
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
