package runner

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// A job on the worker's side: what the runner says of it, and, where the runner is gone, what is left
// of it.

// process is a job that the runner was asked for. One goroutine at a time changes its state: under
// the lock of the link that has it, or, once the runner is gone, the one that watches its process.
type process struct {
	claim                        // which start it is
	waits  bool                  // it may have to wait for a pool process
	tell   func(jobexec.News)    // nil where nobody listens
	shares bool                  // its process was there before, so that since says when it began
	since  atomic.Int64          // the uptime at which the job began; 0: it began when its process did
	link   atomic.Pointer[link]  // to its runner; a lost one, where the worker has no other yet
	stray  atomic.Pointer[stray] // what there is of it without its runner

	asked   time.Time     // when the runner was told to start it; zero: by a former worker
	begun   chan struct{} // closed when started is set, or the process has ended
	ended   chan struct{} // closed when done and err are set
	started journal.Started
	done    journal.Done
	err     error
	exited  bool // done is known, but for the output, which is with the runner
}

// newProcess makes a process that a runner was asked for.
func newProcess(of claim) *process {
	return &process{claim: of, begun: make(chan struct{}), ended: make(chan struct{})}
}

// notices are news for the worker, which is told once no lock is held.
type notices []notice

type notice struct {
	of    *process
	ended bool
}

func (n *notices) add(p *process, ended bool) {
	if p.tell != nil {
		*n = append(*n, notice{p, ended})
	}
}

// make tells the worker.
func (n *notices) make() {
	for _, notice := range *n {
		id := notice.of.id
		notice.of.tell(jobexec.News{Job: id.Job, Token: id.Token, Attempt: id.Attempt, Ended: notice.ended})
	}
	clear(*n)
	*n = (*n)[:0]
}

// begin notes that the process runs.
func (p *process) begin(started journal.Started, n *notices) {
	if !jobexec.IsClosed(p.begun) {
		p.started = started
		if p.shares {
			p.since.Store(proc.Uptime())
		}
		close(p.begun)
		n.add(p, false)
	}
}

// exit notes how the process ended. The runner's message of the end may be the first that names the
// process.
func (p *process) exit(started journal.Started, done journal.Done) {
	p.done, p.exited = done, true
	if !jobexec.IsClosed(p.begun) {
		p.started = started
	}
}

// end notes that nothing more will be known: done is set, or err says why it is not. It may be the
// runner that says that nobody can tell.
func (p *process) end(err error, n *notices) {
	if err == nil && p.done.Result == wire.ResultLost {
		err = fmt.Errorf("%s: %w", p.done.Reason, jobexec.ErrOutcomeUnknown)
		p.done.Result, p.done.Reason = "", ""
	}
	p.err = err
	if !jobexec.IsClosed(p.begun) {
		close(p.begun)
	}
	close(p.ended)
	n.add(p, true)
}

// orphan goes on with a process whose runner is gone. Of a start that the runner had not answered
// nobody knows whether it happened.
func (p *process) orphan(r *Remote, n *notices) {
	switch {
	case p.exited: // only its output is lost
		p.done.Reason = "its output was lost with the runner"
		p.end(nil, n)
	case !jobexec.IsClosed(p.begun):
		p.end(errLost, n)
	case !p.outlive(r):
		p.end(errLost, n)
	}
}

// began is the uptime at which the job began, which is later than its process where that was there
// before.
func (p *process) began() int64 {
	if since := p.since.Load(); since != 0 {
		return since
	}
	return began(p.started)
}

// errLost is the outcome of a process that ended without its runner.
var errLost = fmt.Errorf("the runner was lost: %w", jobexec.ErrOutcomeUnknown)

// Begun implements jobexec.Process.
func (p *process) Begun() <-chan struct{} { return p.begun }

// Started implements jobexec.Process.
func (p *process) Started() journal.Started { return p.started }

// Ended implements jobexec.Process.
func (p *process) Ended() <-chan struct{} { return p.ended }

// Outcome implements jobexec.Process.
func (p *process) Outcome() (journal.Done, error) { return p.done, p.err }

// Signal implements jobexec.Process. It may be called before the process has begun: the runner does
// one request after the other.
func (p *process) Signal(signo int) error {
	if jobexec.IsClosed(p.ended) {
		return os.ErrProcessDone
	}
	if s := p.stray.Load(); s != nil {
		return s.send(unix.Signal(signo))
	}
	return p.link.Load().signal(p.id, signo)
}

// Adopted tells whether the process goes on without its runner.
func (p *process) Adopted() bool { return p.stray.Load() != nil }

// Withdraw takes the start back if it still waits for a pool process: it ends with a *NotStartedError
// then. It does not wait for that.
func (p *process) Withdraw() {
	if p.waits && !jobexec.IsClosed(p.begun) {
		p.link.Load().out.Post(wire.Message{Kind: wire.Withdraw, ID: p.id})
	}
}

// refusal is why a start never happened, as the runner says.
func refusal(m *wire.Message) error {
	if m.Class == wire.AlreadyKnown {
		return errors.New(m.Text)
	}
	return &jobexec.NotStartedError{Why: m.Text, Short: m.Class == wire.Short}
}

// stray is a process whose runner is gone. It can be signalled, and its end can be seen; how it
// ended only its parent could learn. Where it runs for longer than it may, the worker ends it.
type stray struct {
	started journal.Started
	pidfd   *os.File // closed once the process is gone
}

// find finds a process again that a former runner started, if it is alive still.
func find(started journal.Started, bootID string) *stray {
	if started.Pid <= 0 || started.BootID != bootID {
		return nil
	}
	// The descriptor keeps meaning this process, whoever gets its number later, and becomes readable when the
	// process has ended.
	fd, err := unix.PidfdOpen(started.Pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil
	}
	pidfd := os.NewFile(uintptr(fd), "pidfd")
	if started.StartTime == 0 || proc.StartTime(started.Pid) != started.StartTime {
		pidfd.Close()
		return nil
	}
	return &stray{started, pidfd}
}

// outlive goes on with a process whose runner is gone. It fails where that is not alive. Of one that
// ends by itself only how long it ran will be known.
func (p *process) outlive(r *Remote) bool {
	s := find(p.started, r.bootID)
	if s == nil {
		return false
	}
	p.stray.Store(s)
	go func() {
		limit, err := p.limit.From(p.began()), errLost
		s.watch(&limit)
		p.done.Elapsed = proc.Elapsed(p.began(), proc.Uptime())
		if limit.Happened() {
			p.done.Reason, err = "its runner was lost before it ended: its exit code is not known", nil
			limit.Mark(&p.done)
			_ = s.signal(unix.SIGKILL) // what it left behind, as its runner would have done
		}
		s.pidfd.Close()
		var n notices
		p.end(err, &n)
		n.make()
	}()
	return true
}

// A timer's clock stands while the host is asleep, and the limit's does not: so it is looked at each
// longLook. retryLook is how soon a signal is tried again that could not be sent.
const (
	longLook  = time.Minute
	retryLook = time.Second
)

// watch waits until the process is gone, and sends the signals that are due until then.
func (s *stray) watch(limit *wire.Overrun) {
	for {
		_ = s.pidfd.SetReadDeadline(s.look(limit))
		if err := awaitEnd(s.pidfd); !errors.Is(err, os.ErrDeadlineExceeded) {
			return // another error would say that it was closed, which only we do
		}
	}
}

// look sends the signals that are due, and gives when to look again; zero: never. Where they can't be
// sent nothing has happened.
func (s *stray) look(limit *wire.Overrun) time.Time {
	for at, ever := limit.Due(); ever; at, ever = limit.Due() {
		if wait := time.Duration(at - proc.Uptime()); wait > 0 {
			return time.Now().Add(min(wait, longLook))
		}
		before := *limit
		for _, signo := range limit.Next(proc.Uptime()) {
			if err := s.send(signo); err != nil && signo != unix.SIGCONT {
				*limit = before
				return time.Now().Add(retryLook)
			}
		}
	}
	return time.Time{}
}

// send sends a signal to the process's group.
func (s *stray) send(signo unix.Signal) error {
	if hasEnded(s.pidfd) {
		return os.ErrProcessDone
	}
	return s.signal(signo)
}

// signal does so whether the process is there or not. It fails where the descriptor is closed.
func (s *stray) signal(signo unix.Signal) (err error) {
	raw, closed := s.pidfd.SyscallConn()
	if closed == nil {
		closed = raw.Control(func(fd uintptr) { err = proc.SignalGroup(int(fd), s.started.Pid, s.started.StartTime, signo) })
	}
	return errors.Join(closed, err)
}

// awaitEnd waits for the end of a process. Meanwhile it holds no thread, as the waiting system
// calls would: a thousand jobs are no thousand threads.
func awaitEnd(pidfd *os.File) error {
	raw, err := pidfd.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool { return proc.Over(int(fd)) })
}

// hasEnded tells whether the process has ended.
func hasEnded(pidfd *os.File) bool {
	over := true
	raw, err := pidfd.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { over = proc.Over(int(fd)) })
	}
	return over || err != nil
}

// began is the uptime at which a process was started.
func began(process journal.Started) int64 { return int64(process.StartTime) * proc.Tick }
