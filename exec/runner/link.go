package runner

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"sync"
	"time"

	jobexec "jobd/exec"
)

// link is the worker's connection to its runner.
type link struct {
	conn     *net.UnixConn
	logger   *slog.Logger
	onLost   func(*link, map[id]*remoteProcess) // goes on with the processes of a lost connection
	instance string
	recalled map[id]*remoteProcess // the jobs that the runner had when the link was made
	out      *outbox
	written  chan struct{} // closed when nothing more is written
	lost     chan struct{} // closed when the connection is gone

	room chan struct{} // holds one for each large output that is here and not journalled yet

	mu        sync.Mutex
	occupied  map[id]bool // who holds those
	closing   bool        // it is us who ends the connection
	env       []string    // the environment that the runner has
	processes map[id]*remoteProcess
	signals   []chan string // callers that wait for signalled, in order
}

// newLink greets the runner and makes processes of the jobs it still has. Those of the first link are the worker's; those
// of another one keep the place of what is on its way there from the link before.
func newLink(conn *net.UnixConn, logger *slog.Logger, first bool, onLost func(*link, map[id]*remoteProcess)) (*link, error) {
	out, err := newOutbox(conn)
	if err != nil {
		return nil, err
	}
	out.send(message{
		Kind: kindHello, Version: protocolVersion, Instance: understandsElapsed, Jobs: []process{understands(understandsClasses)},
	})
	out.flush()
	w := newWire(conn)
	hello, err := greeted(conn, w)
	if err != nil {
		return nil, err
	}
	if err := checkHello(hello); err != nil {
		return nil, err
	}
	l := &link{
		conn: conn, logger: logger, onLost: onLost, instance: hello.Instance,
		out: out, written: make(chan struct{}), lost: make(chan struct{}),
		processes: make(map[id]*remoteProcess), recalled: make(map[id]*remoteProcess),
		room: make(chan struct{}, largeOutputs), occupied: make(map[id]bool),
	}
	for _, old := range hello.Jobs {
		p := newProcess(l, jobexec.Spec{Job: old.ID.Job, Attempt: old.ID.Attempt})
		p.placeholder = !first
		p.begin(old.Started, nil)
		l.processes[old.ID], l.recalled[old.ID] = p, p
	}
	go func() {
		defer close(l.written)
		out.write()
	}()
	go l.receive(w)
	return l, nil
}

func (l *link) alive() bool { return !closed(l.lost) }

// greetTimeout is how long a runner may take to answer a hello. It does what former workers have asked it for before.
const greetTimeout = 10 * time.Second

// errSilent says that a runner is there, and does not answer.
var errSilent = errors.New("the runner does not answer; it may have been stopped, as by SIGSTOP")

// greeted waits for the runner's hello.
func greeted(conn *net.UnixConn, w *wire) (message, error) {
	if err := conn.SetReadDeadline(time.Now().Add(greetTimeout)); err != nil {
		return message{}, err
	}
	hello, err := w.next()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return message{}, fmt.Errorf("%w (for %s)", errSilent, greetTimeout)
	}
	if err != nil {
		return message{}, err
	}
	return hello, conn.SetReadDeadline(time.Time{})
}

// close ends the connection when everything that was sent is written, and the runner has read it, or has not for as long as
// patience. Processes run on; whoever waits for one waits for ever. What the runner finds when it goes on it does, before it
// serves the next worker.
func (l *link) close(patience time.Duration) {
	l.mu.Lock()
	l.closing = true
	jobs := len(l.processes)
	l.mu.Unlock()
	late := time.NewTimer(patience)
	defer late.Stop()
	l.out.close()
	select {
	case <-l.written:
		if err := l.conn.CloseWrite(); err != nil {
			l.conn.Close()
		}
	case <-late.C:
		late.Reset(0)
	}
	select {
	case <-l.lost:
	case <-late.C:
		l.logger.Warn("the runner does not answer: it is left as it is, and the next start hears from it",
			"jobs", jobs, "requests that it was not sent", l.out.length())
		l.conn.Close()
		<-l.lost
		<-l.written
	}
}

// start asks for a start.
func (l *link) start(spec jobexec.Spec) (jobexec.Process, error) {
	p := newProcess(l, spec)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.alive() {
		return nil, fmt.Errorf("start %s: %w", spec.Argv[0], jobexec.ErrRunnerChanged)
	}
	l.processes[p.id] = p
	if !same(l.env, spec.Env) {
		l.env = spec.Env
		l.out.post(message{Kind: kindEnvironment, Env: spec.Env})
	}
	l.out.post(message{Kind: kindStart, ID: p.id, Argv: spec.Argv, Dir: spec.Dir, MaxOutput: spec.MaxOutput})
	return p, nil
}

// same tells whether two environments are one and the same slice: a launcher
// uses one for all its jobs, and it is not sent again for each.
func same(a, b []string) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// receive passes on what the runner tells, until the connection is gone.
func (l *link) receive(w *wire) {
	var n news
	var err error
	for err == nil {
		var batch []message
		batch, err = w.receive()
		l.mu.Lock()
		for i := range batch {
			l.take(&batch[i], &n)
		}
		l.mu.Unlock()
		n.tell()
	}
	l.lose(err)
}

// lose gives up a connection that is gone.
func (l *link) lose(err error) {
	l.conn.Close()
	l.out.close()
	l.mu.Lock()
	close(l.lost)
	processes, signals := l.processes, l.signals
	l.processes, l.signals = nil, nil
	closing := l.closing
	l.mu.Unlock()
	maps.DeleteFunc(processes, func(_ id, p *remoteProcess) bool { return p.placeholder })
	for _, answered := range signals {
		answered <- os.ErrProcessDone.Error()
	}
	if closing {
		return
	}
	l.logger.Warn("connection to the runner is lost", "error", err, "jobs", len(processes))
	l.onLost(l, processes)
}

// take acts on one message. The lock is held.
func (l *link) take(m *message, n *news) {
	p := l.processes[m.ID]
	switch {
	case m.Kind == kindSignalled && len(l.signals) > 0:
		l.signals[0] <- m.Text
		l.signals = l.signals[1:]
	case p == nil:
		l.logger.Warn("runner speaks of a job that nobody started", "job", m.ID.Job, "attempt", m.ID.Attempt)
	case m.Kind == kindStarted:
		p.begin(m.Started, n)
	case m.Kind == kindRefused:
		delete(l.processes, m.ID)
		p.end(refusal(m), n)
	case m.Kind == kindEnded && m.Later:
		p.exit(m.Started, m.Done)
		go l.fetch(m.ID)
	case m.Kind == kindEnded || m.Kind == kindOutput:
		delete(l.processes, m.ID)
		p.exit(m.Started, m.Done)
		p.end(nil, n)
	}
}

// largeOutputs is how many large outputs may be in the worker's memory at once.
const largeOutputs = 2

// fetch asks for a large output when there is room for it, which is given up when its outcome is forgotten. On
// a connection that is lost nobody asks: the next one is told of the job anew.
func (l *link) fetch(id id) {
	select {
	case l.room <- struct{}{}:
	case <-l.lost:
		return
	}
	l.mu.Lock()
	l.occupied[id] = true
	l.mu.Unlock()
	l.out.post(message{Kind: kindFetch, ID: id})
}

// forget tells the runner that an outcome is journalled, and makes room for the next.
func (l *link) forget(id id) {
	l.out.post(message{Kind: kindForget, ID: id})
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.occupied[id] {
		delete(l.occupied, id)
		<-l.room
	}
}

// signal asks for a signal and waits for what became of it.
func (l *link) signal(id id, signo int) error {
	answered := make(chan string, 1)
	l.mu.Lock()
	if !l.alive() {
		l.mu.Unlock()
		return os.ErrProcessDone
	}
	l.signals = append(l.signals, answered)
	l.out.post(message{Kind: kindSignal, ID: id, Signo: signo})
	l.mu.Unlock()
	if text := <-answered; text != "" {
		return errors.New(text)
	}
	return nil
}

// takeOver goes on with those of a lost connection's processes that the runner still has, and takes them from the
// others. It does nothing where this connection is lost too.
func (l *link) takeOver(processes map[id]*remoteProcess, n *news) (taken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.alive() {
		return false
	}
	for id, p := range processes {
		known := l.recalled[id]
		if known == nil {
			continue
		}
		delete(processes, id)
		p.link.Store(l)
		p.begin(known.started, n)
		if known.over {
			p.exit(known.started, known.done)
		}
		if closed(known.ended) {
			p.end(known.err, n)
		} else {
			l.processes[id] = p
		}
	}
	return true
}
