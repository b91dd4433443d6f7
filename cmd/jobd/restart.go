package main

import (
	"context"
	"io"
	"os"

	jobdaemon "jobd/cmd/internal/daemon"
	"jobd/net/api"
)

// restarter has the worker followed by its next start (service.Restart says when): the same process,
// with the binary that is on the disk by then. What runs goes on with the runner. The binary reads
// the whole configuration first, with the arguments and the environment that it will have, and says
// whether a start would end, before anything is given up.
//
// The crash argument: a worker that is killed while it tries the binary leaves that to end by
// itself; the binary has taken nothing. Where the binary can't be executed after all, the process
// ends with exit code 1, and whatever watches over it starts it.
type restarter struct {
	next   jobdaemon.Successor
	ending *jobdaemon.Ending
	served func() string // where the worker listens
	log    logger
}

// Stopping implements service.Process.
func (r *restarter) Stopping() bool { return r.ending.Stopping() }

// Restart implements service.Process.
func (r *restarter) Restart(by string) {
	r.log.Info("restarting", "by", by, "binary", r.next.Binary)
	r.ending.Restart()
}

// Follow implements service.Process: it has the binary say whether it would start, and says what it
// will be.
func (r *restarter) Follow(ctx context.Context) (next api.Successor, err error) {
	if err := r.next.Try(ctx, r.served()); err != nil {
		return next, err
	}
	config, err := parseConfig(r.next.Args, r.next.Environ, io.Discard)
	if err != nil { // it has changed in this moment, or the binary takes what this one does not
		return next, err
	}
	return api.Successor{PID: os.Getpid(), Address: config.Listen.Address()}, nil
}
