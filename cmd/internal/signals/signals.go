// Package signals has a daemon's signals caught from its first moment on.
//
// Importing it does that already, before the program's other packages are made ready, which takes milliseconds: a SIGHUP that
// is not caught ends a process, and systemd takes that for a wish and does not start it again. What comes before, while the
// runtime itself begins, nobody can catch; there a SIGTERM ends a process that has begun nothing.
//
// SIGPIPE is caught and forgotten: a write to a pipe whose reader is gone then fails instead of ending the process.
// All of these are caught, not ignored: what the process executes gets them as they are by default.
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

// Catch is what main begins with: it changes nothing but for a test's binary that is to be the daemon.
func Catch() {
	signal.Notify(caught, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	signal.Notify(dropped, unix.SIGPIPE)
}

// Caught gives SIGTERM, SIGINT and SIGHUP, those that have come already first.
func Caught() <-chan os.Signal { return caught }

// Waiting tells whether one came that nobody has heeded yet.
func Waiting() bool { return len(caught) > 0 }

// Release lets signals end the process again, for what is no daemon, or not yet. One that was caught ends it now.
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

// Become executes a program in this process, and returns only if that fails. No SIGHUP ends the process in between: the program
// reads its configuration later anyhow. A SIGTERM that came too late for this program does, as one would that comes
// before the next one can catch it.
func Become(path string, args, environ []string) error {
	signal.Ignore(unix.SIGHUP)
	Release()
	err := unix.Exec(path, args, environ)
	Catch()
	return err
}
