package main

import (
	"context"
	"io"
	"os"
	"sync/atomic"

	jobdaemon "jobd/cmd/internal/daemon"
	jobnet "jobd/net"
)

// restarter has the worker followed by its next start: the same process, with the binary that is on
// the disk by then. What runs goes on with the runner. The binary reads the whole configuration
// first, with the arguments and the environment that it will have, and says whether a start would
// end, before anything is given up. Only one restart is under way at a time, and none while the
// worker stops.
//
// The crash argument: until the answer nothing has changed. A worker that is killed while it tries
// the binary leaves that to end by itself; the binary has taken nothing. From the answer on this is
// a stop with handover, killed or not: what runs is with the runner, everything else in the
// journal. Where the binary can't be executed after all, the process ends with exit code 1, and
// whatever watches over it starts it.
type restarter struct {
	next   jobdaemon.Successor
	ending *jobdaemon.Ending
	log    logger

	handOver func()        // makes a worker that stops leave its jobs to the next start
	served   func() string // where the worker listens

	begun atomic.Bool
}

// successor is what follows this process, as far as it is known before: where it will listen.
type successor struct {
	PID     int    `json:"pid"`
	Address string `json:"address"`
}

const (
	refusedStopping   = jobnet.Refusal("not restarted: the worker is stopping")
	refusedRestarting = jobnet.Refusal("not restarted: a restart is under way already")
)

// restart handles a client's request. Clients that ask for what is next are told.
func (r *restarter) restart(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	next, err := r.begin(ctx, link.RemoteAddr().String())
	if err != nil {
		return nil, err
	}
	if !request.Fields().Has("next") {
		return "ok", nil
	}
	return next, nil
}

// begin ends the worker, to start again, and says what will follow. by is who asks.
func (r *restarter) begin(ctx context.Context, by string) (next successor, err error) {
	if r.ending.Stopping() {
		return next, refusedStopping
	}
	if !r.begun.CompareAndSwap(false, true) {
		return next, refusedRestarting
	}
	next, err = r.follow(ctx)
	if err != nil {
		r.begun.Store(false)
		r.log.Error("restart refused", "by", by, "error", err)
		return next, jobnet.Refusef("not restarted: %v", err)
	}
	if r.ending.Stopping() { // meanwhile
		return next, refusedStopping
	}
	r.log.Info("restarting", "by", by, "binary", r.next.Binary)
	r.handOver() // before the end begins
	r.ending.Restart()
	return next, nil
}

// follow has the binary say whether it would start, and says what it will be.
func (r *restarter) follow(ctx context.Context) (successor, error) {
	if err := r.next.Try(ctx, r.served()); err != nil {
		return successor{}, err
	}
	config, err := parseConfig(r.next.Args, r.next.Environ, io.Discard)
	if err != nil { // it has changed in this moment, or the binary takes what this one does not
		return successor{}, err
	}
	return successor{PID: os.Getpid(), Address: config.Listen.Address()}, nil
}
