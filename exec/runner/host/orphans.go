package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
)

// adopt has what processes leave behind become children of this one. That is so only while there
// are pools that fork.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// killOrphans kills what a process has forked for a job and that has not said that it was started.
// The process is gone, so these are our children by now, and none that we have made: they have one
// of its pipes, and were started after it was asked for the job.
func (ps *pools) killOrphans(k *kept, c *child) (killed []int) {
	family.forks.Lock() // nobody is a child of ours that is not known yet
	defer family.forks.Unlock()
	pipe := inode(fmt.Sprintf("/proc/self/fd/%d", k.answers))
	for _, pid := range ourChildren() {
		who, there := proc.RelativesOf(pid)
		if !there || who.Parent != unix.Getpid() || family.knows(pid) || who.StartTime < uint64(c.forked/proc.Tick) {
			continue
		}
		if !who.Ended && pipe != "" && !holds(pid, pipe) {
			continue
		}
		_ = unix.Kill(pid, unix.SIGKILL) // nobody else reaps it
		if who.Group == pid {
			_ = unix.Kill(-pid, unix.SIGKILL)
		}
		family.join(pid)
		killed = append(killed, pid)
	}
	return killed
}

// reapOrphan waits for the end of a process that was killed.
func reapOrphan(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	family.leave(pid)
	_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
}

// inode is what a descriptor leads to, such as pipe:[1234]; "" where that can't be known.
func inode(path string) string {
	to, _ := os.Readlink(path)
	return to
}

// holds tells whether a process has a pipe.
func holds(pid int, pipe string) bool {
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return false
	}
	for _, fd := range fds {
		if inode(fd) == pipe {
			return true
		}
	}
	return false
}

// ourChildren lists the children of all our threads.
func ourChildren() (children []int) {
	tasks, _ := filepath.Glob("/proc/self/task/*")
	for _, task := range tasks {
		if tid, err := strconv.Atoi(filepath.Base(task)); err == nil {
			children = append(children, childrenOf(unix.Getpid(), tid)...)
		}
	}
	return children
}
