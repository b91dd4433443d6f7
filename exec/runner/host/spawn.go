package host

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

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
