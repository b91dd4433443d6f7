package net

import (
	"context"
	"encoding/json"
)

// Request is what a peer asks.
type Request struct {
	No   int64
	Type string
	Data json.RawMessage // nil where absent or null

	proceed func() // see Proceed; nil where nothing waits
	coded   bool   // the peer wants an error's code
}

// Handler answers requests of one type. What it returns becomes JSON and the response's data; an error
// that is a Refusal is told to the peer, any other is logged and told as "internal error". The context
// ends when the link does.
//
// Every handler has a goroutine of its own, but the requests of one link take their turns: a handler
// begins when the one before it has returned, so that a client that sends pause and status in one
// packet sees the pause. A handler that waits for something long (a job, another host) must call
// request.Proceed once the requests after it may begin.
type Handler func(ctx context.Context, link *Link, request Request) (data any, err error)

// Proceed lets the requests after this one on its link begin before it has been answered. It may be
// called more than once.
func (r Request) Proceed() {
	if r.proceed != nil {
		r.proceed()
	}
}

// Fields are the members of the request's data. They are read out of it at each call: who needs them
// twice keeps them.
func (r Request) Fields() Fields { return FieldsOf(r.Data) }
