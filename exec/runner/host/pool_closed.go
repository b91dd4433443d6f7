package host

import (
	"fmt"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
)

// hasClosed notes that neither the process nor a child of its has a descriptor open any more by
// which jobd learns of jobs: it takes no more of them. It may be about to end.
func (k *kept) hasClosed(descriptor string) {
	if k.closed == "" {
		k.closed, k.mute = descriptor, proc.Uptime()
	}
}

// streams are what a job writes into.
var streams = [...]string{"stdout", "stderr"}

// isQuiet tells whether nothing is in either of two pipes, and somebody has each of them open still. It
// asks once for what else takes several calls, which it mostly saves. Pipes below 0 are there no more.
func isQuiet(pipes [2]int) bool {
	fds := [2]unix.PollFd{{Fd: int32(pipes[0]), Events: unix.POLLIN}, {Fd: int32(pipes[1]), Events: unix.POLLIN}}
	n, err := unix.Poll(fds[:], 0)
	return n == 0 && err == nil
}

// lookForEnds looks whether the process has closed its output. Before its first job it may: what it
// writes is to go elsewhere then. After that another job's would be lost.
func (k *kept) lookForEnds() {
	fds := [2]unix.PollFd{{Fd: int32(k.output[0])}, {Fd: int32(k.output[1])}} // poll ignores those below 0
	if n, err := unix.Poll(fds[:], 0); n <= 0 || err != nil {
		return
	}
	for i := range fds {
		if fds[i].Revents&unix.POLLHUP == 0 || pending(k.output[i]) > 0 {
			continue
		}
		if k.hangUp(i); k.jobs > 0 {
			k.hasClosed(streams[i])
		}
	}
}

// listen looks after such a process where it goes on. It is replaced; a job that it has is its
// still, and ends with it if it can't say so.
func (k *kept) listen(now int64) {
	ps := k.pool.pools
	switch {
	case k.closed == "" || now-k.mute < int64(ps.times.tick) || k.spent || k.why != "" || isOver(k.pidfd):
	case k.state == idle:
		ps.warn(k.pool, k, k.last, fmt.Sprintf("%s has closed %s: it is replaced", k.name(), k.closed))
		k.due, k.spent, k.pool.dirty = "closed", true, true
	case k.state == busy && k.mode == "pool":
		job := k.turn.turn.id.Job
		ps.warn(k.pool, k, job, fmt.Sprintf("%s has closed %s: job %d ends when the process does", k.name(), k.closed, job))
		k.due, k.spent = "closed", true
	}
}
