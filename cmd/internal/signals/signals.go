// Package signals has a daemon's signals caught from its first moment on.
//
// Importing it is enough: the signals are caught before the program's other packages are
// initialised, which takes milliseconds. A SIGHUP that is not caught ends a process, and systemd
// takes that for intended and does not start it again. A signal that comes still earlier, while the
// runtime itself begins, can't be caught; a SIGTERM then ends a process that has begun nothing.
//
// SIGPIPE is caught and forgotten: a write to a pipe whose reader is gone then fails instead of
// ending the process. All of these are caught, not ignored: what the process executes gets them as
// they are by default.
package signals

import (
	"os"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"
)

var (
	caught  = make(chan os.Signal, 16)
	dropped = make(chan os.Signal, 1)
)

func init() {
	if !strings.HasSuffix(os.Args[0], ".test") { // which is to end when it is told to
		Catch()
	}
}

// Catch catches the signals in the binary of a test that acts as the daemon. In a daemon they are
// caught already, and main calls it all the same.
func Catch() {
	signal.Notify(caught, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	signal.Notify(dropped, unix.SIGPIPE)
}

// Caught gives SIGTERM, SIGINT and SIGHUP, those that have come already first.
func Caught() <-chan os.Signal { return caught }

// Waiting tells whether a signal has come that was not received from Caught yet.
func Waiting() bool { return len(caught) > 0 }

// Release lets signals end the process again: it is for a program that is no daemon. One that was
// caught already ends the process now.
func Release() {
	signal.Stop(caught) // waits until what came is in the channel
	for {
		select {
		case s := <-caught:
			if s != unix.SIGHUP || !signal.Ignored(unix.SIGHUP) {
				_ = unix.Kill(os.Getpid(), s.(unix.Signal))
			}
		default:
			return
		}
	}
}

// Become executes a program in this process, and returns only if that fails. A SIGHUP in between is
// ignored: the program will read its configuration anyhow. A SIGTERM in between ends the process, as
// one does that comes before the next program can catch it.
func Become(path string, args, environ []string) error {
	signal.Ignore(unix.SIGHUP)
	Release()
	err := unix.Exec(path, args, environ)
	Catch()
	return err
}
