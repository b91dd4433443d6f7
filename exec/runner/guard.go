package runner

import (
	"fmt"
	"os"
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
		before := wait
		if wait = guardRest; thaw(l.pid) > 0 {
			wait = guardNext
		}
		if wait == guardNext && before == guardRest { // a line for all that are found one behind the other
			l.of.config.Logger.Warn("a job was stopped before its program was executed, as by another one of its account; it goes on")
		}
	}
}

// thaw lets the children of a runner go on that were stopped before they had a program: until then they have
// the runner's memory, and its command line.
func thaw(runner int) (found int) {
	for pid, child := range proc.Children(runner) {
		if child.Stopped && commandLine(pid) == commandLine(runner) && unix.Kill(pid, unix.SIGCONT) == nil {
			found++
		}
	}
	return found
}

func commandLine(pid int) string {
	words, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(words)
}
