package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"jobd/cmd/internal/exit"
)

// interruption is the signal that ended the run.
type interruption struct{ signal syscall.Signal }

// Error implements error.
func (i interruption) Error() string {
	if i.signal == syscall.SIGINT {
		return "interrupted"
	}
	return "terminated"
}

// interruptible gives a context that ends with SIGINT or SIGTERM. A second signal ends the process
// on the spot.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			number, _ := s.(syscall.Signal)
			cancel(exit.With(exit.Signal+int(number), interruption{number}))
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// interrupted reports whether ctx ended because somebody wanted the run to end.
func interrupted(ctx context.Context) bool {
	cause := context.Cause(ctx)
	var by interruption
	return errors.As(cause, &by) || errors.Is(cause, context.Canceled)
}

// because is an error that another one caused, which says all that there is to say.
type because struct{ cause, err error }

// Error implements error.
func (b *because) Error() string { return b.cause.Error() }

// Unwrap gives both.
func (b *because) Unwrap() []error { return []error{b.cause, b.err} }
