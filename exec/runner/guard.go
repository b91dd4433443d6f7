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

// How often the worker looks, and where it has just found one; and how often it lets the same one go on: then
// the job is killed, which costs only the account that stops it again and again.
const (
	guardRest = time.Second
	guardNext = 20 * time.Millisecond
	mostThaws = 10
)

// guard does so until the link is lost.
func (l *link) guard() {
	thaws := make(map[int]int) // of the children that were found at the looks just before
	for wait := guardRest; ; {
		select {
		case <-l.lost:
			return
		case <-time.After(wait):
		}
		before := wait
		if thaws, wait = thaw(l.pid, thaws), guardRest; len(thaws) > 0 {
			wait = guardNext
		}
		if wait == guardNext && before == guardRest { // a line for all that are found one behind the other
			l.of.config.Logger.Warn("a job was stopped before its program was executed, probably by another job of its account; it was continued")
		}
	}
}

// thaw lets the children of a runner go on that were stopped before they had a program: until then they have
// the runner's memory, and its command line. It gives how often it has done so for each.
func thaw(runner int, before map[int]int) (thaws map[int]int) {
	thaws = make(map[int]int)
	for pid, child := range proc.Children(runner) {
		if !child.Stopped || commandLine(pid) != commandLine(runner) {
			continue
		}
		if thaws[pid] = before[pid] + 1; thaws[pid] > mostThaws {
			_ = unix.Kill(pid, unix.SIGKILL)
		} else {
			_ = unix.Kill(pid, unix.SIGCONT)
		}
	}
	return thaws
}

func commandLine(pid int) string {
	words, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(words)
}
