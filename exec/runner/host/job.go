package host

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// A job in the runner: the process, what it has written, and when it is to be looked at. All of that is
// the reactor's.

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
		j.done = journal.Done{Result: wire.ResultLost, Reason: "its exit code is not known: its parent, which had it, is gone"}
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

// A job is next to be looked at when it has run for a while, or for as long as it may, or when it has
// ended, and its output was waited for long enough. One timer serves all, and the pools; when it rings all
// are gone through, which takes some microseconds for a hundred. All times are uptimes.

// lateBegin is the age at which a job is said to run: most have ended by then. leastAlarm is how far
// rings are apart, so that one serves many jobs.
const (
	lateBegin  = int64(4 * time.Millisecond)
	leastAlarm = int64(2 * time.Millisecond)
)

// lookAgain is how soon an end is looked for again that nothing tells of.
const lookAgain = time.Second

// never is an uptime that does not come.
const never = int64(math.MaxInt64)

// next is when the reactor must look at the job.
func (j *job) next() (at int64) {
	at = never
	if j.again != 0 {
		at = j.again
	}
	if j.exited {
		return at
	}
	if !j.grown {
		at = min(at, j.born+lateBegin)
	}
	if limit, ever := j.over.Due(); ever && !j.missed {
		at = min(at, limit)
	}
	return at
}

// onTimer says that jobs run that have come of age, stops those that have run for as long as they
// may, and ends those whose output was waited for.
func (r *reactor) onTimer() {
	now := proc.Uptime()
	r.mu.Lock()
	r.timer.rung()
	var due []*job
	for _, j := range r.children {
		if j.next() <= now {
			due = append(due, j)
		}
	}
	r.mu.Unlock()
	for _, j := range due {
		r.look(j, now)
	}
	r.pools.onTimer(now)
	r.mu.Lock()
	defer r.mu.Unlock()
	next := never
	for _, j := range r.children {
		next = min(next, j.next())
	}
	r.timer.set(max(next, now+leastAlarm))
}

// ringAt has the timer ring.
func (r *reactor) ringAt(at int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer.set(at)
}

// look does what is due for a job.
func (r *reactor) look(j *job, now int64) {
	if again := j.again; again != 0 && again <= now {
		switch j.again = 0; {
		case j.exited:
			r.end(j)
		case j.hasEnded():
			r.onExit(j)
		default:
			j.again = now + int64(lookAgain)
		}
	}
	if j.exited {
		return
	}
	if !j.grown && j.born+lateBegin <= now {
		if j.grown = r.listen(j); !j.grown { // it is tried again
			j.born = now
		}
		r.watcher.begun(j)
	}
	if at, ever := j.over.Due(); ever && at <= now && !j.missed {
		j.missed = !j.overrun()
	}
}

// overrun sends the signals that are due to the job's group. It sends none, and fails, where the
// process is gone: then its end came first, though that was not seen yet.
func (j *job) overrun() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.reaped || j.hasEnded() {
		return false
	}
	for _, signo := range j.over.Next(proc.Uptime()) {
		j.killed = j.killed || signo == unix.SIGKILL
		_ = j.send(signo) // the group is there as long as its leader is not reaped
	}
	return true
}

// hasEnded tells whether the process has ended, be it reaped or not, though nobody was told. One of which
// there is no descriptor is looked for.
func (j *job) hasEnded() bool {
	if j.pidfd >= 0 {
		return proc.Over(j.pidfd)
	}
	who, there := proc.RelativesOf(j.started.Pid)
	return !there || who.Ended || who.StartTime != j.started.StartTime
}

// capture reads a pipe to its end, keeps the beginning of what it reads and counts the rest. While
// somebody follows the job, it has the newest of the rest, too.
type capture struct {
	pipe   int  // the end that is read; reading never waits
	closed bool // after the end, or an error
	epoll  int  // the one that it is in; 0: none
	limit  int  // how much is kept

	// Of a pipe that a pool process has for one job after the other.
	shared bool // it is not closed with the capture
	hungUp bool // nobody can write into it any more

	// The reactor changes these, but for followed, holding mu; others look at them holding it. It is
	// never held while a pipe or a file is read or written.
	mu       sync.Mutex
	kept     []byte // what is in it stays as it is: it only grows
	size     int64
	tail     []byte // the newest bytes beyond the limit, up to size; empty while nobody follows
	followed int64  // the uptime until which somebody follows
}

// scratchSize is how much one read brings: what a pipe usually holds.
const scratchSize = 64 << 10

// turnBytes is how much of one pipe is read before the others have their turn.
const turnBytes = 256 << 10

// read reads what the pipe has, a turn's share at most, and closes it at its end. With drain it
// reads until the pipe is empty; without, it stops at the first read that was not full, and the
// epoll tells when there is more.
func (c *capture) read(scratch []byte, drain bool) {
	for budget := turnBytes; budget > 0 && !c.closed; {
		n := c.readOnce(scratch)
		if budget -= n; n == 0 || n < len(scratch) && !drain {
			return
		}
	}
}

// leave reads what is in the pipe now, no more, and leaves it.
func (c *capture) leave(scratch []byte) {
	if !c.closed {
		c.readPending(scratch)
		c.close()
	}
}

func (c *capture) readPending(scratch []byte) {
	for left := pending(c.pipe); left > 0; {
		n := c.readOnce(scratch[:min(left, len(scratch))])
		if left -= n; n == 0 {
			return // somebody else has read it
		}
	}
}

// readOnce gives how many bytes it has read; 0: there are none now. At its end the pipe is closed.
func (c *capture) readOnce(scratch []byte) int {
	n, err := unix.Read(c.pipe, scratch)
	for err == unix.EINTR {
		n, err = unix.Read(c.pipe, scratch)
	}
	switch {
	case err == unix.EAGAIN:
		return 0
	case err != nil || n == 0:
		c.hungUp = true
		c.close()
		return 0
	}
	c.take(scratch[:n])
	return n
}

// pending is how many bytes are in a pipe.
func pending(pipe int) int {
	n, err := unix.IoctlGetInt(pipe, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}

// take counts what was read, and keeps of it as much as the limit allows.
func (c *capture) take(output []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size += int64(len(output))
	beyond := c.keep(output)
	switch {
	case len(beyond) == 0 || c.followed == 0:
	case proc.Uptime() < c.followed:
		c.tail = append(c.tail, beyond...)
		if over := len(c.tail) - tailSize; over > 0 {
			c.tail = append(c.tail[:0], c.tail[over:]...)
		}
	default:
		c.tail, c.followed = nil, 0
	}
}

// keep copies output into a buffer that grows, but never beyond the limit, and gives what is beyond
// it. Callers must hold c.mu.
func (c *capture) keep(output []byte) (beyond []byte) {
	room := min(len(output), c.limit-len(c.kept))
	more, beyond := output[:room], output[room:]
	if len(more) == 0 {
		return beyond
	}
	if need := len(c.kept) + len(more); need > cap(c.kept) {
		kept := make([]byte, len(c.kept), min(max(4*cap(c.kept), need), c.limit))
		copy(kept, c.kept)
		c.kept = kept
	}
	c.kept = append(c.kept, more...)
	return beyond
}

func (c *capture) open() bool { return !c.closed }

// close closes the pipe and takes it out of the epoll. Closing alone would leave it there as long
// as a child that does not execute its program yet has a copy.
func (c *capture) close() {
	if c.closed {
		return
	}
	c.closed = true
	if c.epoll != 0 {
		_ = unix.EpollCtl(c.epoll, unix.EPOLL_CTL_DEL, c.pipe, nil) // it is there
	}
	if !c.shared {
		unix.Close(c.pipe)
	}
}

func (c *capture) output() journal.Output { return journal.Output{Kept: c.kept, Size: c.size} }

// A follower of a job asks for what the job has written, from an offset on, again and again. What is
// kept is there anyway. The runner drops what is beyond as long as nobody looks; while somebody has
// asked within the last followTime, it has the newest tailSize bytes of that, too. Nobody waits for a
// follower: one that asks too late hears how much is missing.

// followTime is how long a question counts.
const followTime = int64(5 * time.Second)

// tailSize is how much of what is beyond the limit one follower can be behind.
const tailSize = 64 << 10

// mostPeeked is how much of a stream one answer has.
const mostPeeked = 64 << 10

// peek gives what a job has written, from an offset on, and counts as following it. Any goroutine
// may call it.
func (c *capture) peek(from int64, most int) wire.Part {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.followed = proc.Uptime() + followTime
	kept := int64(len(c.kept))
	begin, end := kept, kept // of the tail
	if len(c.tail) > 0 {
		begin, end = c.size-int64(len(c.tail)), c.size
	}
	if from < 0 {
		if from += end; begin > kept {
			from = max(from, begin)
		}
		from = max(from, 0)
	}
	length := int64(min(most, mostPeeked))
	switch {
	case from < kept:
		return wire.Part{At: from, Bytes: c.kept[from:min(from+length, kept)], Size: c.size}
	case from < end:
		from = max(from, begin)
		return wire.Part{At: from, Bytes: bytes.Clone(c.tail[from-begin : min(from+length, end)-begin]), Size: c.size}
	}
	return wire.Part{At: c.size, Size: c.size}
}
