package host

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// How processes are made, and how they are reaped.

// spec says what to start.
type spec struct {
	argv      []string
	dir       string // "": the runner's own
	env       []string
	account   *proc.Account // nil: the runner's own
	maxOutput int           // bytes kept of stdout and of stderr, each
	limit     wire.Limit
}

// spawner makes processes whose stdin is empty and whose output goes into pipes.
type spawner struct {
	null   *os.File // /dev/null, for jobs to read
	bootID string
}

func newSpawner() (*spawner, error) {
	bootID, err := proc.BootID()
	if err != nil {
		return nil, err
	}
	if err := proc.KeepDescriptors(); err != nil {
		return nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	return &spawner{null: null, bootID: bootID}, nil
}

// refusedError says why a start did not happen.
type refusedError struct {
	text  string
	class wire.Class
}

func (e *refusedError) Error() string { return e.text }

// refusal says what could not be started, and names the folder where that is what is missing. No
// program was executed, whatever went wrong.
func refusal(what spec, err error) error {
	refused := &refusedError{fmt.Sprintf("start %s: %v", what.argv[0], err), wire.ClassOf(err)}
	if refused.class == wire.Short {
		return refused
	}
	if seen := what.account.Look(func() error {
		if what.dir != "" {
			if _, err := os.Stat(what.dir); err != nil {
				return fmt.Errorf("working folder: %w", err)
			}
		}
		return proc.Check(what.dir, what.argv[0])
	}); seen != nil {
		refused.text = fmt.Sprintf("start %s: %v", what.argv[0], seen)
	}
	return refused
}

// spawn starts a job. An error is a *refusedError.
func (s *spawner) spawn(j *job) error {
	p, err := s.fork(j.what)
	if err != nil {
		return err
	}
	j.started, j.forked, j.born, j.pidfd, j.over = p.started, p.forked, p.born, p.pidfd, j.what.limit.From(p.forked)
	for i, of := range []*capture{&j.stdout, &j.stderr} {
		of.pipe, of.closed, of.limit = p.output[i], false, j.what.maxOutput
	}
	return nil
}

// forked is a process that was started: the leader of a group of its own, whose stdin is empty.
type forked struct {
	started      journal.Started
	forked, born int64 // the uptimes before and after the fork
	pidfd        int
	output       [2]int // what is read of its stdout and stderr; -1: nothing
}

// fork starts a process, and gives it the descriptors in more after the usual three. Descriptors are plain
// numbers: the reactor's epoll watches them, so it would be useless to register each with Go's epoll, too.
// An error is a *refusedError.
func (s *spawner) fork(what spec, more ...int) (p forked, err error) {
	p = forked{pidfd: -1, output: [2]int{-1, -1}}
	defer func() {
		if err != nil {
			closeAll(p.output[:]...)
			err = refusal(what, err)
		}
	}()
	files := []uintptr{s.null.Fd()}
	for i := range p.output {
		pipe, err := newPipe()
		if err != nil {
			return p, err
		}
		defer unix.Close(pipe.its)
		p.output[i] = pipe.ours
		files = append(files, uintptr(pipe.its))
		if what.account != nil { // which may open it again, as /dev/stderr
			if err := unix.Fchmod(pipe.its, 0o622); err != nil {
				return p, err
			}
		}
	}
	for _, fd := range more {
		files = append(files, uintptr(fd))
	}
	pid := 0
	p.forked = proc.Uptime()
	err = proc.WithTimers(proc.UsualTimers, func() (err error) {
		pid, err = children.fork(what.argv, &syscall.ProcAttr{
			Dir: what.dir, Env: what.env, Files: files,
			Sys: &syscall.SysProcAttr{
				// Within a session anybody may send SIGCONT, and join a group: another account has its own.
				Setsid: what.account != nil, Setpgid: what.account == nil,
				PidFD: &p.pidfd, Credential: what.account.Credential(),
			},
		})
		return err
	})
	if err != nil {
		return p, err
	}
	p.born = proc.Uptime()
	p.started = journal.Started{Pid: pid, BootID: s.bootID, StartTime: startedAt(pid, p.forked, p.born)}
	return p, nil
}

// startedAt is the start time of a process that was made between two uptimes. Where both are in the
// same tick, so was the start; else the kernel is asked.
func startedAt(pid int, before, after int64) uint64 {
	if before/proc.Tick == after/proc.Tick {
		return uint64(after / proc.Tick)
	}
	return proc.StartTime(pid)
}

// pair is the two ends of a pipe or a unix stream socket: ours never waits, the process's does.
type pair struct{ ours, its int }

var noPair = pair{-1, -1}

func newPipe() (pair, error) {
	var ends [2]int
	err := unix.Pipe2(ends[:], unix.O_CLOEXEC)
	return pairOf(ends, err)
}

func newSockets() (pair, error) {
	return pairOf(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
}

func pairOf(ends [2]int, err error) (pair, error) {
	if err != nil {
		return noPair, err
	}
	if err := unix.SetNonblock(ends[0], true); err != nil {
		closeAll(ends[:]...)
		return noPair, err
	}
	return pair{ends[0], ends[1]}, nil
}

// closeAll closes descriptors that are there.
func closeAll(fds ...int) {
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// spareThreads is how many threads the runner may need beyond one for each of Go's processors: those
// that wait in the kernel for a program to be executed, a disk, a socket, or an event. How many may do
// so at once is bounded: maxStarts, mostSlow, and one for each of the few loops.
const spareThreads = 22

// mostSlow is how many threads may wait at once for the file systems on which launchers and their files
// are.
const mostSlow = 8

// slow bounds how many things are done at once that a file system may hold up.
type slow chan struct{}

// do does something once there is room.
func (s slow) do(what func()) {
	s <- struct{}{}
	defer func() { <-s }()
	what()
}

// makeThreads makes the threads that the runner may need. Go makes them one by one when they are
// needed, keeps them, and ends the program where it can't make one: then a limit of processes that is
// reached by jobs would take the runner along, and all that it knows. At the start there is nothing
// that could be lost, and the worker tries again.
func makeThreads() {
	var there, ended sync.WaitGroup
	all := make(chan struct{})
	n := runtime.GOMAXPROCS(0) + spareThreads
	there.Add(n)
	for range n {
		ended.Go(func() {
			runtime.LockOSThread() // it has one of its own, which nobody else waits on
			defer runtime.UnlockOSThread()
			there.Done()
			<-all
		})
	}
	there.Wait()
	close(all)
	ended.Wait()
}

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

// hasZombie tells whether a child of ours has ended that is not reaped. One that has made us its tracer is
// told of when it stops, too.
func hasZombie() bool {
	var info unix.Siginfo
	err := error(unix.EINTR)
	for err == unix.EINTR {
		err = unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	}
	const dumped = 3 // CLD_DUMPED, behind CLD_EXITED and CLD_KILLED
	return err == nil && info.Signo != 0 && info.Code <= dumped
}
