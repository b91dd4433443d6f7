package exit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
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

// Interruptible gives a context that ends with SIGINT or SIGTERM. A second signal ends the process
// on the spot.
func Interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			number, _ := s.(syscall.Signal)
			cancel(With(Signal+int(number), interruption{number}))
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// Interrupted reports whether ctx ended because somebody wanted the run to end.
func Interrupted(ctx context.Context) bool {
	cause := context.Cause(ctx)
	var by interruption
	return errors.As(cause, &by) || errors.Is(cause, context.Canceled)
}

// Why puts the reason for a context's end before the end; somebody's wish that the run ends in
// place of it. Of no error it says nothing.
func Why(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	var by interruption
	switch {
	case err == nil || cause == nil || errors.Is(err, cause):
		return err
	case errors.As(cause, &by):
		return Because(cause, err)
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// because is an error that another one caused, which says all that there is to say.
type because struct{ cause, err error }

// Because is err with the text of its cause.
func Because(cause, err error) error { return &because{cause, err} }

// Error implements error.
func (b *because) Error() string { return b.cause.Error() }

// Unwrap gives both.
func (b *because) Unwrap() []error { return []error{b.cause, b.err} }
