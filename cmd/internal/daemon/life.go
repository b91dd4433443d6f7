package daemon

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/oklog/run"
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
	Ends   func() // when the end begins, whoever asked for it; nil: nobody hears of it
	Hurry  func() // on a second SIGTERM or SIGINT: what ends, ends at once; nil: it ends soon anyhow

	// Stages are the actors. All begin at once, and end one stage after the other: each serves the
	// stages before it until they are through.
	Stages [][]Actor
}

// Run runs all actors until a SIGTERM or SIGINT, the Ending, or the return of one of them ends
// them, and returns when all of them have. Its error is that of the actor that returned first.
//
// A group interrupts all its actors at once. So only the first stage is interrupted by it; the
// context of a later stage ends when the stage before it has.
func (l Life) Run(caught <-chan os.Signal) error {
	var group run.Group
	heeding, endHeeding := context.WithCancel(context.Background())
	defer endHeeding()
	ctx, end := context.WithCancel(context.Background())
	defer end()
	group.Add(func() error {
		select {
		case <-l.Ending.asked:
			return nil
		case <-ctx.Done():
			return nil
		}
	}, func(error) {
		if l.Ends != nil {
			l.Ends()
		}
		end()
	})
	for _, stage := range l.Stages {
		next, endNext := context.WithCancel(context.Background())
		defer endNext()
		addStage(&group, ctx, stage, func() {
			endHeeding() // what is left takes a moment only
			endNext()
		})
		ctx = next
	}
	group.Add(func() error { l.heed(heeding, caught); return nil }, func(error) {})
	return group.Run()
}

// addStage adds actors whose context is ctx, and calls ended when all of them have returned.
func addStage(group *run.Group, ctx context.Context, stage []Actor, ended func()) {
	left := new(atomic.Int64)
	left.Store(int64(len(stage)))
	for _, actor := range stage {
		group.Add(func() error {
			defer func() {
				if left.Add(-1) == 0 {
					ended()
				}
			}()
			return actor(ctx)
		}, func(error) {})
	}
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
