package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"sync"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/screen"
)

// shell is a whole run of jobctl, as a shell sees it: run between checked files, terminals behind a
// screen, the error on stderr, the exit code.
//
//	run ──► screen, where it is a terminal ──► checked ──► stdout
//	run, its error ──► the same for stderr
func shell(ctx context.Context, args []string, around surroundings) int {
	out, errs := &checked{to: around.out}, &checked{to: around.err}
	around.out, around.err = out, errs
	around.mark = "\xff" + rand.Text() // begins with what is no UTF-8
	if around.terminal {
		around.bare = out.to
		s := screen.New(out, around.mark)
		defer s.Flush()
		around.out = s
	}
	if around.errTerminal {
		s := screen.New(errs, around.mark)
		defer s.Flush()
		around.err = s
	}
	err := out.failure(run(ctx, args, around))
	code := exit.Report(around.err, "jobctl", err)
	return exit.Code(errs.failure(exit.With(code, err)))
}

// checked remembers that a write failed. Printing code seldom looks at the error of a write, but a
// run whose output did not arrive must not end as a success.
type checked struct {
	to io.Writer

	mu  sync.Mutex
	err error
}

// Write implements io.Writer.
func (c *checked) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.to.Write(p)
	c.err = err
	return n, err
}

// failure is err with the failed write, where that is not what it is about.
func (c *checked) failure(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err == nil || errors.Is(err, c.err):
		return err
	case exit.Code(err) == exit.Success:
		return c.err
	}
	return errors.Join(err, c.err)
}

// clean is text in one line that steers nothing.
func clean(text string) string { return screen.Clean(text) }

// ours is a sequence that steers the terminal, marked as jobctl's own.
func (s surroundings) ours(sequence string) string { return s.mark + sequence + s.mark }
