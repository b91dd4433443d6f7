package master

import (
	"context"
	"errors"
	"slices"

	jobnet "jobd/net"
)

// Recorder keeps what the master is asked to change, and by whom, and which workers come and go. Its
// methods are safe for concurrent use.
type Recorder interface {
	// Requested keeps that somebody asks for a change, before a worker is asked for it. Where it can't,
	// no worker is asked: its error is a net.Refusal, which the client is told.
	Requested(Change) error
	// Refused keeps that a change or a registration was refused, or that there was nobody to ask for it.
	Refused(change Change, reason string)
	// Registered keeps that a worker has registered, or registered other targets.
	Registered(worker string, targets []string, by string)
	// Left keeps that a worker is registered no more.
	Left(worker, reason, by string)
}

// Change is what somebody asks for.
type Change struct {
	Request string
	Data    jobnet.Fields
	Jobs    []int64 // that are to be run by hand, each once, in ascending order
	By      string
}

// unrecorded is the Recorder of a master that keeps nothing.
type unrecorded struct{}

func (unrecorded) Requested(Change) error              { return nil }
func (unrecorded) Refused(Change, string)              {}
func (unrecorded) Registered(string, []string, string) {}
func (unrecorded) Left(string, string, string)         {}

// Why a change is as good as refused where no worker is registered that could be asked for it.
const nobodyToAsk = "no worker was there to be asked"

// itStops is why a worker has left that had said so.
const itStops = "it stops"

// changeOf is what a client asks for.
func changeOf(request jobnet.Request, jobs []job) Change {
	c := Change{Request: request.Type, Data: request.Fields(), By: request.From.By()}
	for _, j := range jobs {
		c.Jobs = append(c.Jobs, int64(j.ID))
	}
	slices.Sort(c.Jobs)
	c.Jobs = slices.Compact(c.Jobs)
	return c
}

// record keeps that a client asks for a change, before workers are asked, if there are any. Its error
// refuses the request.
func (m *Master) record(request jobnet.Request, jobs []job, workers bool) error {
	if workers {
		return m.config.Recorder.Requested(changeOf(request, jobs))
	}
	m.config.Recorder.Refused(changeOf(request, jobs), nobodyToAsk)
	return nil
}

// recorded has refusals of a handler kept.
func (m *Master) recorded(handler jobnet.Handler) jobnet.Handler {
	return func(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
		answer, err := handler(ctx, link, request)
		m.recordRefusal(request, err)
		return answer, err
	}
}

// recordRefusal keeps that a change was refused, where err is a refusal.
func (m *Master) recordRefusal(request jobnet.Request, err error) {
	if refusal := jobnet.Refusal(""); errors.As(err, &refusal) {
		m.config.Recorder.Refused(changeOf(request, nil), string(refusal))
	}
}
