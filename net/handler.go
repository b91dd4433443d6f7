package net

import (
	"encoding/json"
	"sync"
)

// Request is what a peer asks.
type Request struct {
	no   int64
	Type string
	Data json.RawMessage // nil where absent or null

	coded bool  // the peer wants an error's code
	stay  *stay // nil: the request came over no link
}

// stay is what a request takes of its link and its server while it is under way.
type stay struct {
	once     sync.Once
	paid     func() // gives back what it takes of the memory until it is read
	turns    *turns
	answered []func() // called when its answer is on its way
}

// proceed lets the next request begin. Who lets others go on has read what it was asked.
func (s *stay) proceed() {
	s.once.Do(func() {
		s.paid()
		s.turns.pass()
	})
}

// end is called when the request has been answered.
func (s *stay) end() {
	s.proceed()
	for _, do := range s.answered {
		do()
	}
}

// Proceed lets the requests after this one on its link begin before it has been answered. It may be
// called more than once.
func (r Request) Proceed() {
	if r.stay != nil {
		r.stay.proceed()
	}
}

// OnAnswered has something done when the answer that the handler gives is encoded and on its way,
// or can't be sent any more: until then it is in memory. Only the handler's own goroutine may call
// it.
func (r Request) OnAnswered(do func()) {
	if r.stay != nil {
		r.stay.answered = append(r.stay.answered, do)
	}
}

// Fields are the members of the request's data. They are read out of it at each call: who needs
// them twice keeps them.
func (r Request) Fields() Fields { return FieldsOf(r.Data) }
