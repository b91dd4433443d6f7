package host

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
)

// orphans is what a runner knows of processes whose parents are gone, and which are its children
// by now. That is so only while there are pools that fork.
type orphans struct {
	adopts bool
	strays bool         // there are some
	ended  map[int]bool // were seen as zombies the last time, and are not ours
}

// adopters is how many of this process's runners adopt: one, but in tests.
var adopters struct {
	sync.Mutex
	n int
}

// adopt has what processes leave behind become children of this one.
func (ps *pools) adopt() {
	if !ps.orphans.adopts {
		ps.orphans.adopts = true
		adoptBy(1)
	}
}

func adoptBy(more int) {
	adopters.Lock()
	defer adopters.Unlock()
	adopters.n += more
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, uintptr(min(1, adopters.n)), 0, 0, 0) // it fails only for bad arguments
}

// disown ends that, where nothing forks any more.
func (ps *pools) disown() {
	if ps.orphans.adopts {
		ps.orphans.adopts = false
		adoptBy(-1)
	}
}

// forks tells whether there is, or is to be, a process that forks, or a job that was forked.
func (ps *pools) forks() bool {
	for _, p := range ps.byTarget {
		if p.def.Mode == "fork" || p.count(func(k *kept) bool { return k.mode == "fork" }) > 0 {
			return true
		}
	}
	return ps.reactor.forked()
}

// forked tells whether a forked job runs.
func (r *reactor) forked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.children {
		if c.turn != nil && c.turn.forked {
			return true
		}
	}
	return false
}

// sweep reaps what nobody waits for: what jobs have left behind, on purpose or not, and what has
// become our child and ended. It takes those that have been zombies for a while, each by its number:
// never one that we have started and are about to reap.
func (ps *pools) sweep() {
	if !ps.orphans.adopts && !ps.orphans.strays {
		return
	}
	before := ps.orphans.ended
	ps.orphans.ended = make(map[int]bool)
	ps.orphans.strays = false
	for _, pid := range ourChildren() {
		if family.knows(pid) {
			continue
		}
		ps.orphans.strays = true
		if who, there := proc.RelativesOf(pid); !there || !who.Ended || who.Parent != unix.Getpid() {
			continue
		}
		if before[pid] {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		} else {
			ps.orphans.ended[pid] = true
		}
	}
	if !ps.forks() {
		ps.disown()
	}
}

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
	folder := fmt.Sprintf("/proc/%d/fd/", pid)
	fds, err := os.ReadDir(folder)
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) // it is another user's by now: it may
	}
	return slices.ContainsFunc(fds, func(fd os.DirEntry) bool { return inode(folder+fd.Name()) == pipe })
}

// ourChildren lists the children of all our threads.
func ourChildren() (children []int) {
	us := unix.Getpid()
	tasks, err := os.ReadDir("/proc/self/task")
	if _, lists := os.Stat(fmt.Sprintf("/proc/%d/task/%d/children", us, us)); err != nil || lists != nil {
		return proc.Children(us) // a kernel without these files
	}
	for _, task := range tasks {
		if tid, err := strconv.Atoi(task.Name()); err == nil {
			children = append(children, childrenOf(us, tid)...)
		}
	}
	return children
}
