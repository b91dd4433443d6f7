package daemon

import (
	"context"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Actor is a part of a daemon at work: it returns soon after its context has ended. One that
// returns earlier, with an error or without, ends the daemon.
type Actor func(ctx context.Context) error

// Life is a daemon at work, from the moment it serves until it has stopped.
type Life struct {
	Ending *Ending
	Log    *slog.Logger
	Reload func() // on SIGHUP
	Hurry  func() // on a second SIGTERM or SIGINT: what ends, ends at once; nil: it ends soon anyhow

	// Stages are the actors. All begin at once, and end one stage after the other: each serves the
	// stages before it until they are through.
	Stages [][]Actor
}

// Run runs all actors until a SIGTERM or SIGINT, the Ending, or the return of one of them ends
// them, and returns when all of them have. Its error is the Ending's cause, or else that of the
// actor that returned first.
func (l Life) Run(caught <-chan os.Signal) error {
	var once sync.Once
	var first error
	returned := make(chan struct{})
	actors := make([]sync.WaitGroup, len(l.Stages))
	ends := make([]context.CancelFunc, len(l.Stages))
	for i, stage := range l.Stages {
		ctx, end := context.WithCancel(context.Background())
		defer end()
		ends[i] = end
		for _, actor := range stage {
			actors[i].Go(func() {
				err := actor(ctx)
				once.Do(func() { first = err; close(returned) })
			})
		}
	}
	heeding, endHeeding := context.WithCancel(context.Background())
	defer endHeeding()
	var heeder sync.WaitGroup
	heeder.Go(func() { l.heed(heeding, caught) })

	select {
	case <-returned:
	case <-l.Ending.asked:
	}
	for i := range l.Stages {
		ends[i]()
		actors[i].Wait()
		endHeeding() // what is left takes a moment only
		heeder.Wait()
	}
	if cause := l.Ending.why(); cause != nil {
		return cause
	}
	return first
}

// heed acts on signals until ctx ends.
func (l Life) heed(ctx context.Context, caught <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-caught:
			switch {
			case s == unix.SIGHUP:
				l.Reload()
			case l.Ending.stop():
				l.Log.Info("stopping", "signal", s.String())
			case l.Hurry != nil:
				l.Log.Warn("stopping at once", "signal", s.String())
				l.Hurry()
			}
		}
	}
}
