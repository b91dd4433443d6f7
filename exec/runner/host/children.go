package host

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
)

// children is the table of the processes that this one knows: those that it has started and not
// reaped, and those that its pool processes have forked. It is one for the whole process, as being
// their parent is.
var children = table{known: make(map[int]int)}

// table has processes by number. A number may be there twice for a moment: a forked child that its
// parent has reaped, which is yet to be heard of, and a process of ours that has its number since.
type table struct {
	forks sync.RWMutex // is held while a process of ours is made and not known yet

	mu    sync.Mutex
	known map[int]int
}

// fork starts a process, which is known from then on.
func (t *table) fork(argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	t.forks.RLock()
	defer t.forks.RUnlock()
	if pid, err = syscall.ForkExec(argv[0], argv, attr); err == nil {
		t.join(pid)
	}
	return pid, err
}

func (t *table) join(pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known[pid]++
}

func (t *table) leave(pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[pid]--; t.known[pid] <= 0 {
		delete(t.known, pid)
	}
}

func (t *table) knows(pid int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[pid] > 0
}

// adopters is how many of this process's runners adopt: one, but in tests.
var adopters struct {
	sync.Mutex
	n int
}

// adopt has what processes leave behind become children of this one, or ends that.
func (ps *pools) adopt(adopts bool) {
	if ps.adopts == adopts {
		return
	}
	ps.adopts = adopts
	adopters.Lock()
	defer adopters.Unlock()
	if adopters.n--; adopts {
		adopters.n += 2
	}
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, uintptr(min(1, adopters.n)), 0, 0, 0) // it fails only for bad arguments
}

// forks tells whether there is, or will be, a process that forks. The children of one that is gone
// are ours by then.
func (ps *pools) forks() bool {
	for _, p := range ps.all {
		if p.def.Mode == "fork" && !p.removed {
			return true
		}
	}
	for _, k := range ps.processes {
		if k.mode == "fork" {
			return true
		}
	}
	return false
}

// sweep reaps what nobody waits for: what jobs have left behind, on purpose or not, and what has
// become our child and ended. It takes those that have been zombies for a while, each by its number:
// never one that we have started and are about to reap.
func (ps *pools) sweep() {
	ps.adopt(ps.forks())
	if !children.forks.TryLock() { // else one that is just made would not be known
		return
	}
	defer children.forks.Unlock()
	before := ps.zombies
	ps.zombies = nil
	if !hasZombie() {
		return
	}
	ps.zombies = make(map[int]bool)
	for pid, who := range proc.Children(unix.Getpid()) {
		switch {
		case children.knows(pid) || !who.Ended:
		case before[pid]:
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		default:
			ps.zombies[pid] = true
		}
	}
}

// killOrphans kills what a process has forked for a job and that has not said that it was started.
// The process is gone, so these are our children by now, and none that we have made: they have one
// of its sockets, and were started after it was asked for the job. One that has ended has no sockets to
// tell whose it was: it may be another process's job that runs to its end, and is left to be heard of.
func (k *poolProcess) killOrphans(j *job) (killed []int) {
	children.forks.Lock() // nobody is a child of ours that is not known yet
	defer children.forks.Unlock()
	socket, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", k.answers.its))
	for pid, who := range proc.Children(unix.Getpid()) {
		if children.knows(pid) || who.Ended || who.StartTime < uint64(j.forked/proc.Tick) || !k.holds(pid, socket) {
			continue
		}
		_ = unix.Kill(pid, unix.SIGKILL) // nobody else reaps it
		if who.Group == pid {
			_ = unix.Kill(-pid, unix.SIGKILL)
		}
		children.join(pid)
		killed = append(killed, pid)
	}
	return killed
}

// reap learns how a child ended, and what it used. One that a debugger holds can't be reaped.
func reap(pid int) (status syscall.WaitStatus, used syscall.Rusage, reaped bool, err error) {
	children.leave(pid) // before anybody else can have its number
	got := 0
	for err = unix.EINTR; err == unix.EINTR; {
		got, err = syscall.Wait4(pid, &status, unix.WNOHANG, &used)
	}
	if got == 0 && err == nil {
		children.join(pid)
		return status, used, false, nil
	}
	return status, used, true, err
}

// awaitEnd waits on a thread for the end of a child, and does not reap it.
func awaitEnd(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// holds tells whether a process of the same account has a socket. One that has become root's may, too; and
// where the account is root's, one that has given up its rights.
func (k *poolProcess) holds(pid int, socket string) (has bool) {
	account := uint32(unix.Geteuid())
	if k.account != nil {
		account = k.account.UID
	}
	if owner, err := proc.Owner(pid); err != nil || account != 0 && owner != account && owner != 0 {
		return false
	}
	folder := fmt.Sprintf("/proc/%d/fd/", pid)
	err := k.account.Look(func() error {
		fds, err := os.ReadDir(folder)
		has = slices.ContainsFunc(fds, func(fd os.DirEntry) bool {
			its, _ := os.Readlink(folder + fd.Name())
			return its == socket
		})
		return err
	})
	return has || err != nil && !errors.Is(err, os.ErrNotExist)
}

// childList gives the children that the main thread of a pool process has. To open the kernel's list of them
// took a fifth of all the runner's time for a short job, so it stays open for as long as the process is
// kept.
func (k *poolProcess) childList() []int {
	if k.list < 0 {
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/task/%[1]d/children", k.started.Pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil
		}
		k.list = fd
	}
	var text []byte
	scratch := k.pool.pools.reactor.scratch
	for {
		n, err := unix.Pread(k.list, scratch, int64(len(text)))
		if err == unix.EINTR {
			continue
		}
		if n <= 0 {
			return numbers(text)
		}
		text = append(text, scratch[:n]...)
	}
}

// numbers are those of a text, between blanks.
func numbers(text []byte) (found []int) {
	for field := range bytes.FieldsSeq(text) {
		if number, err := strconv.Atoi(string(field)); err == nil {
			found = append(found, number)
		}
	}
	return found
}
