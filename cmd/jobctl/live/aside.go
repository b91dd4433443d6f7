package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/sys/unix"
)

// aside prints something on the terminal that the view has left, until a key is pressed: a job's page, or
// its output as it comes. It is a tea.ExecCommand.
type aside struct {
	ctx   context.Context
	print func(context.Context) error
	in    io.Reader
	out   io.Writer
}

// back is the message that the view has the terminal again.
type back struct{ err error }

// leave gives the terminal to what prints about the chosen job.
func (m *model) leave(print func(context.Context, Job) error) tea.Cmd {
	job, ok := m.needJob()
	if !ok {
		return nil
	}
	a := &aside{ctx: m.ctx, print: func(ctx context.Context) error { return print(ctx, job) }}
	return tea.Exec(a, func(err error) tea.Msg { return back{err} })
}

// SetStdin implements tea.ExecCommand.
func (a *aside) SetStdin(in io.Reader) { a.in = in }

// SetStdout implements tea.ExecCommand.
func (a *aside) SetStdout(out io.Writer) { a.out = out }

// SetStderr implements tea.ExecCommand.
func (a *aside) SetStderr(io.Writer) {}

// Run implements tea.ExecCommand.
func (a *aside) Run() error {
	if file, is := a.in.(*os.File); is {
		restore, err := keyByKey(int(file.Fd()))
		if err != nil {
			return err
		}
		defer restore()
	}
	ctx, cancel := context.WithCancel(a.ctx)
	printed := make(chan error, 1)
	go func() {
		err := a.print(ctx)
		if ctx.Err() == nil {
			fmt.Fprint(a.out, "\npress a key to go back")
		}
		printed <- err
	}()
	key := make(chan struct{})
	go func() { // without a key it ends with the process
		_, _ = a.in.Read(make([]byte, 64))
		close(key)
	}()
	select {
	case <-key:
	case <-a.ctx.Done():
	}
	cancel()
	if err := <-printed; !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// keyByKey has a terminal give each key at once, those too that would send a signal.
func keyByKey(fd int) (restore func(), err error) {
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, err
	}
	now := *before
	now.Lflag &^= unix.ICANON | unix.ECHO | unix.ISIG
	return func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, before) }, unix.IoctlSetTermios(fd, unix.TCSETS, &now)
}
