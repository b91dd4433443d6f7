package runner

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"

	jobexec "jobd/exec"
	"jobd/journal"
)

// link is the worker's connection to its runner.
type link struct {
	conn     *net.UnixConn
	logger   *slog.Logger
	onLost   func(*link, map[id]*remoteProcess) // goes on with the processes of a lost connection
	instance string
	recalled []jobexec.Recalled // the jobs that the runner had when the link was made
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

// newLink greets the runner and takes over the jobs it still has.
func newLink(conn *net.UnixConn, logger *slog.Logger, onLost func(*link, map[id]*remoteProcess)) (*link, error) {
	w := newWire(conn)
	if err := w.send(message{Kind: kindHello, Version: protocolVersion}); err != nil {
		return nil, err
	}
	hello, err := w.receive()
	if err != nil {
		return nil, err
	}
	if err := checkHello(hello); err != nil {
		return nil, err
	}
	l := &link{
		conn: conn, logger: logger, onLost: onLost, instance: hello.Instance,
		out: newOutbox(), written: make(chan struct{}), lost: make(chan struct{}),
		processes: make(map[id]*remoteProcess),
		room:      make(chan struct{}, largeOutputs), occupied: make(map[id]bool),
	}
	for _, old := range hello.Jobs {
		p := l.newProcess(old.ID)
		p.begin(old.Started, nil)
		l.processes[old.ID] = p
		l.recalled = append(l.recalled, jobexec.Recalled{Job: old.ID.Job, Attempt: old.ID.Attempt, Process: p})
	}
	go func() {
		defer close(l.written)
		l.out.write(w, conn)
	}()
	go l.receive(w)
	return l, nil
}

func (l *link) newProcess(id id) *remoteProcess {
	return &remoteProcess{
		link: l, id: id,
		begun: make(chan struct{}), ended: make(chan struct{}), fetched: make(chan struct{}),
		passed: make(chan struct{}),
	}
}

func (l *link) alive() bool {
	select {
	case <-l.lost:
		return false
	default:
		return true
	}
}

// close ends the connection when everything that was sent is written. Processes run on; whoever
// waits for one waits for ever.
func (l *link) close() {
	l.mu.Lock()
	l.closing = true
	l.mu.Unlock()
	l.out.close()
	<-l.written
	if err := l.conn.CloseWrite(); err != nil {
		l.conn.Close()
	}
	<-l.lost
}

// left tells whether it was us who ended the connection.
func (l *link) left() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closing
}

// start asks for a start and waits until the process is there, or can't be.
func (l *link) start(spec jobexec.Spec) (jobexec.Process, error) {
	p := l.newProcess(id{spec.Job, spec.Attempt})
	l.mu.Lock()
	if !l.alive() {
		l.mu.Unlock()
		return nil, fmt.Errorf("start %s: %w", spec.Argv[0], jobexec.ErrRunnerChanged)
	}
	l.processes[p.id] = p
	if !same(l.env, spec.Env) {
		l.env = spec.Env
		l.out.send(message{Kind: kindEnvironment, Env: spec.Env})
	}
	l.out.send(message{Kind: kindStart, ID: p.id, Argv: spec.Argv, Dir: spec.Dir, MaxOutput: spec.MaxOutput})
	l.mu.Unlock()
	<-p.begun
	if p.err != nil {
		return nil, p.err
	}
	return p, nil
}

// same tells whether two environments are one and the same slice: a launcher
// uses one for all its jobs, and it is not sent again for each.
func same(a, b []string) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// receive passes on what the runner tells, until the connection is gone.
func (l *link) receive(w *wire) {
	var err error
	for err == nil {
		var m message
		if m, err = w.receive(); err == nil {
			l.take(m)
		}
	}
	l.conn.Close()
	l.out.close()
	l.mu.Lock()
	close(l.lost)
	processes, signals := l.processes, l.signals
	l.processes, l.signals = nil, nil
	closing := l.closing
	l.mu.Unlock()
	for _, answered := range signals {
		answered <- os.ErrProcessDone.Error()
	}
	if closing {
		return
	}
	l.logger.Warn("connection to the runner is lost", "error", err, "jobs", len(processes))
	l.onLost(l, processes)
}

// take acts on one message.
func (l *link) take(m message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.processes[m.ID]
	switch {
	case m.Kind == kindSignalled:
		answered := l.signals[0]
		l.signals = l.signals[1:]
		answered <- m.Text
	case p == nil:
		l.logger.Warn("runner speaks of a job that nobody started", "job", m.ID.Job, "attempt", m.ID.Attempt)
	case m.Kind == kindStarted:
		p.begin(m.Started, nil)
	case m.Kind == kindRefused:
		delete(l.processes, m.ID)
		p.begin(journal.Started{}, errors.New(m.Text))
	case m.Kind == kindEnded && m.Done.Later:
		p.later = true
		p.end(m.Done.done(nil, nil), true)
	case m.Kind == kindEnded:
		delete(l.processes, m.ID)
		p.end(m.Done.done(m.outputs[0], m.outputs[1]), true)
	case m.Kind == kindOutput:
		delete(l.processes, m.ID)
		p.done = m.Done.done(m.outputs[0], m.outputs[1])
		close(p.fetched)
	}
}

// largeOutputs is how many large outputs may be in the worker's memory at once.
const largeOutputs = 2

// occupy notes who has a place in the room.
func (l *link) occupy(id id) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.occupied[id] = true
}

// forget tells the runner that an outcome is journalled, and makes room for the next.
func (l *link) forget(id id) {
	l.out.send(message{Kind: kindForget, ID: id})
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
	l.out.send(message{Kind: kindSignal, ID: id, Signo: signo})
	l.mu.Unlock()
	if text := <-answered; text != "" {
		return errors.New(text)
	}
	return nil
}
