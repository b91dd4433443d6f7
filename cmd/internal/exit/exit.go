// Package exit turns the error that a program ends with into its exit code
// and into what stands on stderr.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// The exit codes that all programs share. What has no code of its own is a Failure.
const (
	Success = 0
	Failure = 1 // the program, a daemon or a check said no
	Usage   = 2 // wrong usage or wrong configuration
	Connect = 3 // jobctl could not connect
	NoJob   = 4 // there is no such job
	Late    = 5 // the time that was given (--timeout) is over
	Unknown = 6 // it can't be known now: nobody who was asked can read the table

	signalled = 128 // and the signal's number, where one ended the program
)

// coded is an error that knows its exit code.
type coded struct {
	code int
	err  error
}

// Error implements error.
func (c *coded) Error() string { return c.err.Error() }

// Unwrap gives the cause.
func (c *coded) Unwrap() error { return c.err }

// With gives err an exit code. An error with the code Success ends the program in
// order and in silence: what was to be said, such as the help, has been said.
func With(code int, err error) error {
	if err == nil {
		return nil
	}
	return &coded{code: code, err: err}
}

// Code is the exit code of err: that of the outermost With, else Failure; Success for nil.
func Code(err error) int {
	if err == nil {
		return Success
	}
	var c *coded
	if errors.As(err, &c) {
		return c.code
	}
	return Failure
}

// Join is several errors as one. Its exit code is that of all of them where they agree; else that of a
// signal where one is among them, and Failure.
func Join(errs ...error) error {
	joined := errors.Join(errs...)
	code := -1
	for _, err := range errs {
		switch each := Code(err); {
		case err == nil:
		case each >= signalled:
			return With(each, joined)
		case code < 0 || code == each:
			code = each
		default:
			code = Failure
		}
	}
	return With(code, joined)
}

// Report writes err to w, each line behind the program's name, and returns the exit code. It writes
// a line that several parts ended with once, and nothing of an error without text.
func Report(w io.Writer, program string, err error) int {
	code := Code(err)
	if code == Success {
		return code
	}
	told := map[string]bool{}
	for line := range strings.SplitSeq(strings.TrimRight(err.Error(), "\n"), "\n") {
		if line != "" && !told[line] {
			fmt.Fprintf(w, "%s: %s\n", program, line)
		}
		told[line] = true
	}
	return code
}

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
			cancel(With(signalled+int(number), interruption{number}))
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
