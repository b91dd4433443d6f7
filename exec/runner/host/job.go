package host

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// job is a start that the runner was asked for, until its outcome is forgotten: a child of ours, or one of
// a pool process. Its captures, its limit and its end are the reactor's alone; signals may come from any
// goroutine.
type job struct {
	id   wire.ID
	what spec
	turn *turn // nil: it has a process of its own

	started journal.Started
	born    int64 // the uptime after the fork, or when its pipes could not be watched
	forked  int64 // the uptime just before the fork
	gone    int64 // the uptime when the end was seen; 0 before
	over    wire.Overrun
	grown   bool // it is said to run, and its pipes are watched
	missed  bool // its limit came when it had ended

	stdout, stderr capture
	exited         bool         // the process is a zombie, or reaped
	again          int64        // the uptime at which its end is looked for, or tried, again; 0: never
	done           journal.Done // set before watcher.ended is called

	mu     sync.Mutex // of the next three: while it is held, nobody else gets the process's number
	pidfd  int        // -1: there is none (any more)
	reaped bool
	killed bool // SIGKILL came from us

	// The mu of jobs guards these.
	told  bool // the worker knows that it began
	ended bool
}

func newJob(id wire.ID, what spec) *job {
	return &job{id: id, what: what, pidfd: -1, stdout: capture{closed: true}, stderr: capture{closed: true}}
}

// watcher is told by the reactor what becomes of jobs and pools. It must not hold the reactor up.
type watcher interface {
	// begun says that a job still runs, some milliseconds after its start.
	begun(*job)
	// ended says that it is gone, and that done is set.
	ended(*job)
	// refused says that it never was started, and is not going to be.
	refused(j *job, text string, class wire.Class)
	// tell passes on to the worker what is said of pools, if there is one.
	tell(wire.Message) (told bool)
}

// signal sends a signal to the job's process group.
func (j *job) signal(signo int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.reaped {
		return os.ErrProcessDone
	}
	if unix.Signal(signo) == unix.SIGKILL {
		j.killed = true
	}
	return j.send(unix.Signal(signo))
}

// send sends a signal. Callers must hold j.mu.
func (j *job) send(signo unix.Signal) error {
	if j.turn != nil {
		return j.turn.send(j, signo)
	}
	return proc.Signal(j.started.Pid, signo)
}

// identity is which process it is; zero where that is not known yet.
func (j *job) identity() journal.Started {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.started
}

// end kills what a zombie left in its group, then reaps it. Until it is reaped nobody else can have its
// number, which is the group's, too.
func (j *job) end() (reaped bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_ = j.send(unix.SIGKILL) // it is for the group: the process itself has ended
	status, used, reaped, err := reap(j.started.Pid)
	if !reaped {
		return false
	}
	j.reaped = true
	j.closePidfd()
	if err != nil && j.turn != nil {
		j.done = journal.Done{Result: wire.ResultLost, Reason: "its exit code is not known: only its parent had it, and is gone"}
	} else if err != nil {
		j.done = journal.Done{Result: "fail", Reason: "wait for the process: " + err.Error()}
	} else {
		j.done = outcome(status)
		if j.turn == nil { // else it is the process's, with all its jobs
			j.done.CPU, j.done.Memory = cost(used)
		}
	}
	return true
}

// cost is what a process used: processor time in microseconds, and the most memory in bytes. The kernel
// counts for a process what its maker had when it was made: so less than this runner's own is not known.
func cost(used syscall.Rusage) (cpu, memory int64) {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err == nil && used.Maxrss > own.Maxrss {
		memory = used.Maxrss << 10
	}
	return (used.Utime.Nano() + used.Stime.Nano()) / 1000, memory
}

// closePidfd closes the descriptor of a process that is gone. Callers must hold j.mu.
func (j *job) closePidfd() {
	closeAll(j.pidfd)
	j.pidfd = -1
}

// describe completes the outcome of a child that is reaped, whose output was waited for no longer
// than delay.
func (j *job) describe(delay time.Duration) {
	j.done.Elapsed = proc.Elapsed(j.forked, j.gone)
	j.done.Stdout, j.done.Stderr = j.stdout.output(), j.stderr.output()
	if j.done.Signal == "SIGKILL" && !j.killed {
		j.done.Note = "killed by a SIGKILL that was not jobd's"
	}
	if j.turn != nil && j.turn.note != "" {
		j.done.Note = j.turn.note
	}
	j.over.Mark(&j.done)
	if (j.stdout.open() || j.stderr.open()) && j.done.Result != wire.ResultLost {
		j.done.Reason = fmt.Sprintf("a process it left behind kept its output open for more than %s", delay)
	}
	j.stdout.close()
	j.stderr.close()
}

// outcome translates what the kernel says. Where a signal ended the process there is no exit code:
// −1 would read as something else in the table.
func outcome(status syscall.WaitStatus) journal.Done {
	if status.Signaled() {
		return journal.Done{Result: "fail", Signal: signalName(int(status.Signal()))}
	}
	code := status.ExitStatus()
	if code == 0 {
		return journal.Done{Result: "ok", Code: &code}
	}
	return journal.Done{Result: "fail", Code: &code}
}

// signalName is the signal's name. Real-time signals have none: they are SIG34 and so on.
func signalName(signo int) string {
	if name := unix.SignalName(unix.Signal(signo)); name != "" {
		return name
	}
	return fmt.Sprintf("SIG%d", signo)
}
