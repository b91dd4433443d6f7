package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
)

// The runner towards its worker: who is served, what is asked for, and what each worker hears of jobs.

// Serve is the runner process: it serves the socket that it finds at wire.SocketDescriptor, with
// the journal's folder as working folder. It starts jobs for the worker that is connected, keeps
// their outcomes across workers until they are forgotten, and returns when there is neither a
// worker nor a job.
func Serve(logger *slog.Logger) error {
	makeThreads()
	socket, err := listen()
	if err != nil {
		return fmt.Errorf("jobd runner is started by jobd itself, with a unix socket as descriptor %d: %w", wire.SocketDescriptor, err)
	}
	// The list of runners that ended is opened now: at its end the runner only writes one line, to a folder
	// that may be about to go.
	ended, err := os.OpenFile(wire.EndedFile, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("start runner: %w", err)
	}
	known := newJobs(wire.NameOf(rand.Text(), os.Getpid(), proc.StartTime(os.Getpid())))
	reactor, err := newReactor(known)
	if err != nil {
		return errors.Join(fmt.Errorf("start runner: %w", err), ended.Close())
	}
	s := &server{jobs: known, reactor: reactor, ended: ended, logger: logger}
	s.home, _ = os.Stat(wire.SocketFile)
	return s.run(socket)
}

// listen listens on the socket. As a socket's peer the kernel names the process that called listen last:
// that was the worker, which made the socket, and is the runner from now on.
func listen() (*net.UnixListener, error) {
	if err := unix.Listen(wire.SocketDescriptor, unix.SOMAXCONN); err != nil {
		return nil, err
	}
	file := os.NewFile(wire.SocketDescriptor, "runner socket")
	defer file.Close()
	listener, err := net.FileListener(file)
	if err != nil {
		return nil, err
	}
	if socket, ok := listener.(*net.UnixListener); ok {
		return socket, nil
	}
	return nil, errors.New("it is another kind of socket")
}

// server is the runner between workers.
type server struct {
	jobs    *jobs
	reactor *reactor
	ended   *os.File    // takes the instance at the end
	home    os.FileInfo // the socket by which workers find the runner; nil: it is not in the folder
	logger  *slog.Logger
}

// reachInterval is how often a runner without a worker checks whether one can still come.
const reachInterval = 30 * time.Second

// run serves one worker after the other until nothing is left to be done for anybody.
//
// Each worker is served to the end of what it sent: a start that a killed worker still had on its
// way is known before the next one asks.
func (s *server) run(listener *net.UnixListener) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	workers := make(chan *net.UnixConn)
	failed := make(chan error, 2)
	go func() { failed <- accept(ctx, listener, workers) }()
	go func() { failed <- s.reactor.run() }()
	defer s.reactor.stop()
	defer s.reactor.pools.shutdown()
	defer listener.Close()
	for {
		select {
		case conn := <-workers:
			err := admit(conn)
			if err == nil {
				err = s.serve(conn)
			}
			if err != nil {
				s.logger.Warn("worker was refused or lost", "error", err)
			}
			conn.Close()
		case <-s.jobs.empty:
		case <-time.After(reachInterval):
			if s.abandoned() {
				return nil
			}
		case err := <-failed:
			return err
		}
		if s.jobs.idle() {
			return noteEnd(s.ended, s.jobs.instance)
		}
	}
}

// abandoned tells whether nothing runs, and no worker can come for the outcomes any more.
func (s *server) abandoned() bool { return !reachable(s.home) && !s.jobs.running() }

// acceptDelay is how long a runner that has no descriptor left waits for one.
const acceptDelay = 100 * time.Millisecond

// accept passes connections on until ctx ends.
func accept(ctx context.Context, listener *net.UnixListener, workers chan<- *net.UnixConn) error {
	for {
		conn, err := listener.AcceptUnix()
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
			time.Sleep(acceptDelay) // jobs that end give some back
			continue
		}
		if err != nil {
			return fmt.Errorf("accept worker: %w", err)
		}
		select {
		case workers <- conn:
		case <-ctx.Done():
			conn.Close()
			return nil
		}
	}
}

// serve serves one worker until it is gone.
func (s *server) serve(conn *net.UnixConn) error {
	reader := wire.NewReader(conn)
	hello, err := reader.Next()
	if err != nil {
		return fmt.Errorf("receive hello: %w", err)
	}
	if err := hello.CheckHello(); err != nil {
		return err
	}
	out := wire.NewOutbox(conn)
	defer func() {
		out.Close()
		<-out.Written()
	}()
	s.jobs.connect(out, &hello)
	s.reactor.pools.joined()
	defer s.reactor.pools.left()
	defer s.jobs.disconnect()
	return s.receive(reader)
}

// admit fails where the process that has connected does not hold the journal's lock: it is no worker of
// this journal, and has no orders to give. The kernel lists who has taken which lock; where that list is
// not to be seen the peer's account alone counts.
func admit(conn *net.UnixConn) error {
	pid, err := wire.Peer(conn)
	if err != nil {
		return err
	}
	var lock unix.Stat_t
	if err := unix.Stat(wire.LockFile, &lock); err != nil {
		return fmt.Errorf("refused: process %d can't hold the journal's lock: %w", pid, err)
	}
	locks, err := os.ReadFile("/proc/locks")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("refused: the holder of the journal's lock is not known: %w", err)
	}
	for line := range strings.Lines(string(locks)) { // 7: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF
		f := strings.Fields(line)
		if len(f) > 5 && f[1] == "FLOCK" && f[3] == "WRITE" && f[4] == strconv.Itoa(pid) &&
			strings.HasSuffix(f[5], ":"+strconv.FormatUint(lock.Ino, 10)) {
			return nil
		}
	}
	return fmt.Errorf("refused: process %d (%s) does not hold the journal's lock", pid, proc.Program(pid))
}

// receive does what the worker asks for until it is gone.
func (s *server) receive(reader *wire.Reader) error {
	r := requests{jobs: s.jobs, reactor: s.reactor, places: make(chan struct{}, maxStarts)}
	defer r.starts.Wait()
	for {
		m, err := reader.Next()
		if wire.HungUp(err) {
			return nil
		}
		if err == nil {
			err = r.do(&m)
		}
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
	}
}

// reachable tells whether workers can still come: the path of the working folder, which is the journal's,
// leads to the runner's socket. It does not if the folder was removed, or its file system detached or
// covered by another, or another process has put its socket there. A folder that was renamed is found
// under its new name.
func reachable(socket os.FileInfo) bool {
	folder, err := unix.Getwd()
	if err != nil || socket == nil {
		return false
	}
	there, err := os.Stat(filepath.Join(folder, wire.SocketFile))
	return err == nil && os.SameFile(there, socket)
}

// noteEnd adds a runner to the list, and closes it.
func noteEnd(list *os.File, instance string) error {
	if _, err := fmt.Fprintln(list, instance); err != nil {
		return fmt.Errorf("note the end: %w", err)
	}
	return list.Close()
}

// jobs are the jobs that were asked for and whose outcomes are not journalled yet, and the
// connection on which the worker hears of them. It sends messages to the worker under its lock, so
// that all that is about one job is sent in order.
type jobs struct {
	instance string        // the runner's name
	empty    chan struct{} // has one when the last job was forgotten

	mu     sync.Mutex
	known  map[wire.ID]*job
	worker *wire.Outbox // nil: none is connected
	usage  bool         // it understands what jobs used
}

func newJobs(instance string) *jobs {
	return &jobs{instance: instance, empty: make(chan struct{}, 1), known: make(map[wire.ID]*job)}
}

// begun implements watcher.
func (a *jobs) begun(j *job) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sendStarted(j)
}

// sendStarted tells the worker, once, that a job began. Callers must hold a.mu.
func (a *jobs) sendStarted(j *job) {
	if j.told || j.ended || a.worker == nil {
		return
	}
	if started := j.identity(); started.Known() {
		j.told = true
		a.send(wire.Message{Kind: wire.Started, ID: j.id, Started: started})
	}
}

// ended implements watcher: it keeps the outcome and sends it.
func (a *jobs) ended(j *job) {
	a.mu.Lock()
	defer a.mu.Unlock()
	j.ended = true
	a.send(j.outcome(wire.Ended))
}

// inlineOutput is how many bytes of output may come with the message of an end. The worker fetches
// more when it has room, so that many jobs that end at once don't fill its memory.
const inlineOutput = 64 << 10

// outcome is a message of kind Ended or Output about a job that has ended.
func (j *job) outcome(kind wire.Kind) wire.Message {
	return wire.Message{
		Kind: kind, ID: j.id, Started: j.started, Done: j.done,
		Later: kind == wire.Ended && len(j.done.Stdout.Kept)+len(j.done.Stderr.Kept) > inlineOutput,
	}
}

// send sends a message to the worker, if one is connected. Callers must hold a.mu.
func (a *jobs) send(m wire.Message) {
	if a.worker != nil {
		if !a.usage {
			m.Done.CPU, m.Done.Memory = 0, 0
		}
		a.worker.Post(m)
	}
}

// connect makes this worker the one that hears of the jobs. It gets the hello with all jobs, then the ends
// that it missed, as far as its own hello says that it understands them.
func (a *jobs) connect(worker *wire.Outbox, theirs *wire.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.worker, a.usage = worker, theirs.TakesUsage()
	ours := wire.Message{Kind: wire.Hello, Version: wire.Version, Instance: a.instance, Jobs: theirs.RunnerWords()}
	for id, j := range a.known {
		started := j.identity()
		j.told = started.Known()
		ours.Jobs = append(ours.Jobs, wire.Job{ID: id, Started: started, Limit: j.what.limit})
	}
	a.send(ours)
	for _, j := range a.known {
		if j.ended {
			a.send(j.outcome(wire.Ended))
		}
	}
}

// disconnect leaves nobody who hears of the jobs.
func (a *jobs) disconnect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.worker = nil
}

// add makes a job known. It returns nil, and refuses the start, where the job is known already.
func (a *jobs) add(id wire.ID, what spec) *job {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known[id] != nil {
		a.send(wire.Message{Kind: wire.Refused, ID: id, Text: wire.SaidAlready, Class: wire.AlreadyKnown})
		return nil
	}
	j := newJob(id, what)
	a.known[id] = j
	return j
}

// refused implements watcher: the job is not known any more.
func (a *jobs) refused(j *job, text string, class wire.Class) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.remove(j.id)
	a.send(wire.Message{Kind: wire.Refused, ID: j.id, Text: text, Class: class})
}

// tell implements watcher.
func (a *jobs) tell(m wire.Message) (told bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.send(m)
	return a.worker != nil
}

// about does what the worker asks for about a job that is known, if it is.
func (a *jobs) about(m *wire.Message) (j *job) {
	a.mu.Lock()
	defer a.mu.Unlock()
	j = a.known[m.ID]
	switch {
	case m.Kind == wire.Signal:
		err := os.ErrProcessDone
		if j != nil {
			a.sendStarted(j)
			err = j.signal(m.Signo)
		}
		answer := wire.Message{Kind: wire.Signalled, ID: m.ID}
		if err != nil {
			answer.Text = err.Error()
		}
		a.send(answer)
	case m.Kind == wire.Peek:
		answer := wire.Message{Kind: wire.Peeked, ID: m.ID, Peek: &wire.Glance{}, Text: "the runner has no such job"}
		if j != nil {
			answer.Text = ""
			answer.Peek.Parts = [2]wire.Part{j.stdout.peek(m.Peek.From[0], m.Peek.Most), j.stderr.peek(m.Peek.From[1], m.Peek.Most)}
		}
		a.send(answer)
	case j == nil:
	case m.Kind == wire.Fetch && j.ended: // its output did not come with the message of the end
		a.send(j.outcome(wire.Output))
	case m.Kind == wire.Forget: // its outcome is journalled
		a.remove(m.ID)
	}
	return j
}

// remove drops a job. Callers must hold a.mu.
func (a *jobs) remove(id wire.ID) {
	delete(a.known, id)
	if len(a.known) == 0 {
		select {
		case a.empty <- struct{}{}:
		default:
		}
	}
}

// idle tells whether there is no job and no worker.
func (a *jobs) idle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.known) == 0 && a.worker == nil
}

// running tells whether a job has not ended yet.
func (a *jobs) running() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, j := range a.known {
		if !j.ended {
			return true
		}
	}
	return false
}

// maxStarts is how many starts may be under way at once. Each keeps a thread and one of Go's
// processors until the launcher is executed.
const maxStarts = 2

// requests does what one worker asks for.
type requests struct {
	jobs    *jobs
	reactor *reactor
	env     []string       // for the starts that follow
	starts  sync.WaitGroup // those that are under way
	places  chan struct{}  // holds one for each
}

// do does what a message asks for. A start may be under way when it returns.
func (r *requests) do(m *wire.Message) error {
	switch m.Kind {
	case wire.Environment:
		r.env = m.Env
	case wire.Start:
		switch j := r.jobs.add(m.ID, spec{m.Argv, m.Dir, r.env, m.Account, m.MaxOutput, m.Limit}); {
		case j == nil:
		case m.Pool != "":
			j.turn = &turn{vars: m.Vars}
			r.reactor.pools.start(m.Pool, j)
		default:
			r.places <- struct{}{}
			r.starts.Go(func() {
				defer func() { <-r.places }()
				r.reactor.start(j)
			})
		}
	case wire.Signal, wire.Peek:
		r.starts.Wait() // it may be for one of them
		r.jobs.about(m)
	case wire.Fetch, wire.Forget:
		r.jobs.about(m)
	case wire.Withdraw:
		if j := r.jobs.about(m); j != nil && j.turn != nil {
			r.reactor.pools.withdraw(j)
		}
	case wire.Pools:
		r.reactor.pools.set(m.Wanted)
	case wire.Recycle: // nothing to do: the next Pools message says the same
	default:
		return fmt.Errorf("message of kind %d: %w", m.Kind, wire.ErrMalformed)
	}
	return nil
}
