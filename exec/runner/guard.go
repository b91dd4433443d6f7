package runner

import (
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
)

// A child of the runner has the account of its job for some microseconds before it executes the program. Any
// job of that account may stop it then. The runner waits for the program, soon with all of its threads, and
// starts nothing for anybody: so the worker looks after such children. Where there is no worker, the next one
// does, as soon as it finds that the runner does not answer.

// How often the worker looks, and where it has just found one.
const (
	guardRest = time.Second
	guardNext = 20 * time.Millisecond
)

// guard does so until the link is lost.
func (l *link) guard() {
	for wait := guardRest; ; {
		select {
		case <-l.lost:
			return
		case <-time.After(wait):
		}
		if wait = guardRest; thaw(l.pid, l.of.config.Logger) {
			wait = guardNext
		}
	}
}

// unnamed is what a child of the runner is called until it executes a program: as the runner's threads are.
const unnamed = "exe"

// thaw lets the children of a runner go on that were stopped before they had a program.
func thaw(runner int, log *slog.Logger) (found bool) {
	for pid, child := range proc.Children(runner) {
		if child.Stopped && proc.Program(pid) == unnamed && unix.Kill(pid, unix.SIGCONT) == nil {
			log.Warn("a job was stopped before its program was executed, as by another one of its account; it goes on", "pid", pid)
			found = true
		}
	}
	return found
}
