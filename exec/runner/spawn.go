package runner

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/journal"
)

// Local starts jobs as children of this process.
type Local struct {
	null   *os.File
	bootID string
	delay  time.Duration

	oomKills atomic.Int64 // how often the kernel had killed for want of memory when we last looked
}

// pipeDelay is how long the output of a process that is gone is waited for:
// a grandchild may keep the pipe open (pitfall 28).
const pipeDelay = time.Second

// NewLocal makes a runner whose jobs are children of this process.
func NewLocal() (*Local, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("start runner: %w", err)
	}
	id, err := BootID()
	if err == nil {
		err = keepDescriptors()
	}
	if err != nil {
		return nil, fmt.Errorf("start runner: %w", errors.Join(err, null.Close()))
	}
	l := &Local{null: null, bootID: id, delay: pipeDelay}
	l.oomKills.Store(oomKills())
	return l, nil
}

// keepDescriptors keeps from jobs what this process has open. Go's own files are kept from them
// anyway; this is about those that our own parent left us (pitfall 33).
func keepDescriptors() error {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keep descriptors from jobs: %w", err)
	}
	return nil
}

// Close gives up the runner's resources; its processes run on.
func (l *Local) Close() error { return l.null.Close() }

// Start implements jobexec.Runner.
func (l *Local) Start(spec jobexec.Spec) (jobexec.Process, error) {
	stdout, outWriter, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Argv[0], err)
	}
	stderr, errWriter, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Argv[0], errors.Join(err, stdout.Close(), outWriter.Close()))
	}
	process, err := os.StartProcess(spec.Argv[0], spec.Argv, &os.ProcAttr{
		Dir: spec.Dir, Env: spec.Env,
		Files: []*os.File{l.null, outWriter, errWriter},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
	outWriter.Close()
	errWriter.Close()
	if err != nil {
		stdout.Close()
		stderr.Close()
		return nil, startError(spec, err)
	}
	c := &child{process: process, delay: l.delay, local: l, oomKills: l.oomKills.Load(), ended: make(chan struct{})}
	c.started = journal.Started{Pid: process.Pid, BootID: l.bootID, StartTime: startTime(process.Pid)}
	c.stdout = newCapture(stdout, spec.MaxOutput)
	c.stderr = newCapture(stderr, spec.MaxOutput)
	go c.stdout.drain()
	go c.stderr.drain()
	go c.reap()
	return c, nil
}

// startError says what could not be started, and names the folder where that
// is what is missing.
func startError(spec jobexec.Spec, err error) error {
	if spec.Dir != "" {
		if _, statErr := os.Stat(spec.Dir); statErr != nil {
			return fmt.Errorf("start %s: working folder: %w", spec.Argv[0], statErr)
		}
	}
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return fmt.Errorf("start %s: %w", spec.Argv[0], err)
}

// child is a job that runs as our child.
type child struct {
	process        *os.Process
	started        journal.Started
	stdout, stderr *capture
	delay          time.Duration
	local          *Local
	oomKills       int64         // of local, when it was started
	killed         atomic.Bool   // SIGKILL came from us
	ended          chan struct{} // closed when done is set
	done           journal.Done
}

// Started implements jobexec.Process.
func (c *child) Started() journal.Started { return c.started }

// Signal implements jobexec.Process.
func (c *child) Signal(signo int) error {
	select {
	case <-c.ended:
		return os.ErrProcessDone
	default:
		if unix.Signal(signo) == unix.SIGKILL {
			c.killed.Store(true)
		}
		return unix.Kill(-c.started.Pid, unix.Signal(signo))
	}
}

// Ended implements jobexec.Process.
func (c *child) Ended() <-chan struct{} { return c.ended }

// Outcome implements jobexec.Process.
func (c *child) Outcome() (journal.Done, bool) { return c.done, true }

// reap waits for the process, then for its output, and ends what it left in its group. As long as the
// process is not reaped, nobody else can have its number, and with it the group's.
func (c *child) reap() {
	defer close(c.ended)
	c.awaitZombie()
	deadline := time.Now().Add(c.delay)
	stdout, outOpen := c.stdout.result(deadline)
	stderr, errOpen := c.stderr.result(deadline)
	_ = unix.Kill(-c.started.Pid, unix.SIGKILL) // the process itself is past it
	state, err := c.process.Wait()
	if err != nil {
		c.done = journal.Done{Result: "fail", Reason: "wait for the process: " + err.Error()}
	} else {
		c.done = outcome(state.Sys().(syscall.WaitStatus))
	}
	c.done.Stdout, c.done.Stderr = stdout, stderr
	if c.done.Signal == "SIGKILL" && !c.killed.Load() {
		c.done.Note = c.local.killer(c.oomKills)
	}
	if outOpen || errOpen {
		c.done.Reason = fmt.Sprintf("a process it left behind kept its output open for more than %s", c.delay)
	}
}

// awaitZombie waits until the process has ended, and leaves it to be reaped.
func (c *child) awaitZombie() {
	pidfd, err := openPidfd(c.started.Pid)
	if err == nil {
		err = awaitEnd(pidfd)
		pidfd.Close()
	}
	if err == nil {
		return
	}
	// No descriptor is to be had: a thread waits.
	for unix.Waitid(unix.P_PID, c.started.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// outcome translates what the kernel says. There is no exit code where a signal
// ended the process: −1 would read as something else in the table (pitfall 11).
func outcome(status syscall.WaitStatus) journal.Done {
	if status.Signaled() {
		return journal.Done{Result: "fail", Signal: SignalName(int(status.Signal()))}
	}
	code := status.ExitStatus()
	if code == 0 {
		return journal.Done{Result: "ok", Code: &code}
	}
	return journal.Done{Result: "fail", Code: &code}
}

// SignalName is the signal's name, "SIG34" where it has none (pitfall 12).
func SignalName(signo int) string {
	if name := unix.SignalName(unix.Signal(signo)); name != "" {
		return name
	}
	return fmt.Sprintf("SIG%d", signo)
}
