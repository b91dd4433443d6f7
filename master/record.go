package master

import (
	"context"
	"errors"

	jobnet "jobd/net"
)

// Recorder keeps what the master is asked to change, and by whom, and which workers come and go. Its
// methods are safe for concurrent use.
type Recorder interface {
	// Requested keeps that somebody asks for a change, before a worker is asked for it. Where it can't,
	// no worker is asked: its error is a net.Refusal, which the client is told. workers are named that will be.
	Requested(request jobnet.Request, workers []string) error
	// Refused keeps that a change or a registration was refused, or that there was nobody to ask for it.
	Refused(request jobnet.Request, reason string)
	// Registered keeps that a worker has registered, or registered other targets.
	Registered(worker string, targets []string, by string)
	// Left keeps that a worker is registered no more.
	Left(worker, reason, by string)
}

// unrecorded is the Recorder of a master that keeps nothing.
type unrecorded struct{}

func (unrecorded) Requested(jobnet.Request, []string) error { return nil }
func (unrecorded) Refused(jobnet.Request, string)           {}
func (unrecorded) Registered(string, []string, string)      {}
func (unrecorded) Left(string, string, string)              {}

// record keeps that a client asks for a change, before workers are asked, if there are any. Its error
// refuses the request.
func (m *Master) record(request jobnet.Request, workers []*worker) error {
	if len(workers) > 0 {
		names := make([]string, len(workers))
		for i, w := range workers {
			names[i] = w.name()
		}
		return m.config.Recorder.Requested(request, names)
	}
	m.config.Recorder.Refused(request, "no worker was there to be asked")
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

// recordRefusal keeps that a request was refused, where err is a refusal.
func (m *Master) recordRefusal(request jobnet.Request, err error) {
	if refusal := jobnet.Refusal(""); errors.As(err, &refusal) {
		m.config.Recorder.Refused(request, string(refusal))
	}
}
