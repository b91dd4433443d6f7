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
	"jobd/exec/runner/wire"
)

// link is the worker's connection to its runner.
type link struct {
	conn      *net.UnixConn
	logger    *slog.Logger
	pulse     jobexec.Pulse                     // of receive; nil: nobody watches it
	onLost    func(*link, map[wire.ID]*process) // goes on with the processes of a lost connection
	onPools   func([]wire.Message)              // takes what the runner says of its pools
	signaller signaller                         // signal
	instance  string
	pid       int                  // the runner's; 0: it is not known
	recalled  map[wire.ID]*process // the jobs that the runner had when the link was made
	out       *wire.Outbox
	lost      chan struct{} // closed when the connection is gone
	end       Standing      // why, and since when; set before that

	room    chan struct{} // holds one for each large output that is here and not journalled yet
	other   bool          // the runner is of another build
	peeking chan struct{} // holds one for each peek that is not answered

	mu        sync.Mutex
	occupied  map[wire.ID]bool // the processes that hold those
	closing   bool             // the worker ends the connection
	owed      map[wire.ID]bool // the starts that the runner was asked for and has not forgotten
	onIdle    func()           // leaves a runner of another build that has none; nil: it is of this one
	leaving   bool             // that was called: the runner is asked for nothing more
	env       []string         // the environment that the runner has
	processes map[wire.ID]*process
	signals   []signalled         // what was asked for and not answered, in order
	glances   []chan wire.Message // likewise, of peeks
}

// newLink greets the runner and makes processes of the jobs that it still has. Those of the first
// link are the worker's. Those of a later one are placeholders, until the worker's own processes of
// a lost link come to their places.
func newLink(
	conn *net.UnixConn, c Config, first bool, onLost func(*link, map[wire.ID]*process), onPools func([]wire.Message),
	check func(instance string) error,
) (*link, error) {
	out, err := wire.NewOutbox(conn)
	if err != nil {
		return nil, err
	}
	in := wire.NewReader(conn)
	hello, err := greet(conn, out, in)
	if err == nil {
		err = check(hello.Instance)
	}
	if err != nil {
		out.Close()
		return nil, err
	}
	l := &link{
		conn: conn, logger: c.Logger, pulse: c.Pulse, onLost: onLost, onPools: onPools, instance: hello.Instance, pid: hello.PID(),
		out: out, lost: make(chan struct{}),
		processes: make(map[wire.ID]*process), recalled: make(map[wire.ID]*process),
		owed: make(map[wire.ID]bool),
		room: make(chan struct{}, largeOutputs), occupied: make(map[wire.ID]bool),
		peeking: make(chan struct{}, mostPeeks), other: !hello.IsOfThisBuild(),
	}
	l.signaller = l.signal
	for _, old := range hello.Jobs {
		if old.IsWord() {
			continue
		}
		p := newProcess(claim{old.ID, old.Limit}, l)
		p.placeholder = !first
		if old.Started.Known() { // else it waits for a process of a pool
			p.begin(old.Started, nil)
		}
		l.processes[old.ID], l.recalled[old.ID], l.owed[old.ID] = p, p, true
	}
	go l.receive(in)
	return l, nil
}

func (l *link) alive() bool { return !isClosed(l.lost) }

// close ends the connection once everything that was sent is written and the runner has read it,
// but waits for no longer than patience. Processes run on, and their channels stay open. Requests
// that a stopped runner finds when it goes on it does before it serves the next worker.
func (l *link) close(patience time.Duration) {
	l.mu.Lock()
	l.closing = true
	jobs := len(l.processes)
	l.mu.Unlock()
	late := time.NewTimer(patience)
	defer late.Stop()
	l.out.Close()
	select {
	case <-l.out.Written():
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
			"jobs", jobs, "requests that it was not sent", l.out.Length())
		l.conn.Close()
		<-l.lost
		<-l.out.Written()
	}
}

// post sends a message.
func (l *link) post(m wire.Message) {
	m.Tokens = m.Kind != wire.Environment && m.Kind != wire.Pools
	l.out.Post(m)
}

// receive acts on what the runner sends until the connection is gone.
func (l *link) receive(in *wire.Reader) {
	var n notices
	var err error
	for err == nil {
		var batch []wire.Message
		batch, err = in.Receive()
		l.take(batch, &n)
	}
	l.lose(err)
}

// take acts on messages that came together.
func (l *link) take(batch []wire.Message, n *notices) {
	if l.pulse != nil {
		l.pulse.Works()
		defer l.pulse.Waits()
	}
	var pools []wire.Message
	l.mu.Lock()
	for i := range batch {
		if batch[i].Kind == wire.Pools {
			pools = append(pools, batch[i])
		} else {
			l.act(&batch[i], n)
		}
	}
	l.mu.Unlock()
	n.make()
	if len(pools) > 0 {
		l.onPools(pools)
	}
}

// lose gives up a connection that is gone.
func (l *link) lose(err error) {
	l.conn.Close()
	l.out.Close()
	l.mu.Lock()
	l.end = Standing{Since: time.Now(), Err: fmt.Errorf("the connection to the runner is lost: %w", err)}
	close(l.lost)
	closing := l.closing
	processes, signals, glances := l.processes, l.signals, l.glances
	l.processes, l.signals, l.glances = nil, nil, nil
	l.mu.Unlock()
	maps.DeleteFunc(processes, func(_ wire.ID, p *process) bool { return p.placeholder })
	for _, wanted := range signals {
		wanted.answer <- os.ErrProcessDone.Error()
	}
	for _, wanted := range glances {
		close(wanted)
	}
	if closing {
		return
	}
	l.logger.Warn("connection to the runner is lost", "error", err, "jobs", len(processes))
	l.onLost(l, processes)
}

// act acts on one message. Callers must hold l.mu.
func (l *link) act(m *wire.Message, n *notices) {
	p := l.processes[m.ID]
	switch {
	case m.Kind == wire.Signalled && len(l.signals) > 0:
		l.signals[0].answer <- m.Text
		l.signals = l.signals[1:]
	case m.Kind == wire.Peeked && len(l.glances) > 0:
		l.glances[0] <- *m
		l.glances = l.glances[1:]
		<-l.peeking
	case p == nil:
		l.logger.Warn("runner speaks of a job that nobody started", "job", m.ID.Job, "attempt", m.ID.Attempt)
	case m.Kind == wire.Started:
		p.begin(m.Started, n)
	case m.Kind == wire.Refused:
		delete(l.processes, m.ID)
		l.paid(m.ID)
		p.end(refusal(m), n)
	case m.Kind == wire.Ended && m.Later:
		p.exit(m.Started, m.Done)
		go l.fetch(m.ID)
	case m.Kind == wire.Ended || m.Kind == wire.Output:
		delete(l.processes, m.ID)
		p.exit(m.Started, m.Done)
		p.end(nil, n)
	}
}

// largeOutputs is how many large outputs may be in the worker's memory at once.
const largeOutputs = 2

// fetch asks for a large output when there is room for it; forget makes the room again. On a
// connection that is lost nobody asks: the next one begins with the outcomes that are not
// forgotten.
func (l *link) fetch(id wire.ID) {
	select {
	case l.room <- struct{}{}:
	case <-l.lost:
		return
	}
	l.mu.Lock()
	l.occupied[id] = true
	l.mu.Unlock()
	l.post(wire.Message{Kind: wire.Fetch, ID: id})
}

// forget tells the runner that an outcome is journalled, and makes room for the next large output.
func (l *link) forget(id wire.ID) {
	l.post(wire.Message{Kind: wire.Forget, ID: id})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paid(id)
	if l.occupied[id] {
		delete(l.occupied, id)
		<-l.room
	}
}

// paid notes that the runner has nothing of a start any more. Callers must hold l.mu.
func (l *link) paid(id wire.ID) {
	delete(l.owed, id)
	l.leaveIdle()
}

// takeOver moves to this link those of a lost link's processes that the runner still has, and
// removes them from the map. It does nothing, and fails, where this connection is lost too.
func (l *link) takeOver(processes map[wire.ID]*process, n *notices) (done bool) {
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
		p.signaller.Store(&l.signaller)
		if isClosed(known.begun) {
			p.begin(known.started, n)
		}
		if known.exited {
			p.exit(known.started, known.done)
		}
		if isClosed(known.ended) {
			p.end(known.err, n)
		} else {
			l.processes[id] = p
		}
	}
	return true
}

// greetTimeout is how long a runner may take to answer a hello. First it does all that former
// workers have asked for.
const greetTimeout = 10 * time.Second

// errSilent says that a runner is there, and does not answer.
var errSilent = errors.New("the runner does not answer; it may have been stopped, as by SIGSTOP")

// greet sends the worker's hello and waits for the runner's.
func greet(conn *net.UnixConn, out *wire.Outbox, in *wire.Reader) (hello wire.Message, err error) {
	out.Send(wire.WorkerHello())
	out.Flush()
	if err := conn.SetReadDeadline(time.Now().Add(greetTimeout)); err != nil {
		return hello, err
	}
	hello, err = in.Next()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return hello, fmt.Errorf("%w (for %s)", errSilent, greetTimeout)
	}
	if err != nil {
		return hello, err
	}
	if err := hello.CheckHello(); err != nil {
		return hello, err
	}
	if err := hello.CheckTokens(); err != nil {
		return hello, err
	}
	return hello, conn.SetReadDeadline(time.Time{})
}

// start asks for a start.
func (l *link) start(spec *jobexec.Spec) (jobexec.Process, error) {
	p := newProcess(claimOf(spec), l)
	p.tell, p.shares = spec.Tell, shares(spec.Mode)
	if !spec.Mode.Kept() { // a process that is kept may have to be loaded first
		p.asked = time.Now()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.alive() || l.leaving {
		return nil, fmt.Errorf("start %s: %w", spec.Argv[0], jobexec.ErrRunnerChanged)
	}
	l.processes[p.id], l.owed[p.id] = p, true
	if spec.Mode.Kept() {
		id := p.id
		p.withdraw = func() { l.post(wire.Message{Kind: wire.Withdraw, ID: id}) }
		l.post(wire.Message{
			Kind: wire.Start, ID: p.id, Argv: spec.Argv[:1], MaxOutput: spec.MaxOutput, Limit: p.limit,
			Pool: spec.Target, Vars: spec.Vars,
		})
		return p, nil
	}
	if !sameSlice(l.env, spec.Env) {
		l.env = spec.Env
		l.post(wire.Message{Kind: wire.Environment, Env: spec.Env})
	}
	l.post(wire.Message{
		Kind: wire.Start, ID: p.id, Argv: spec.Argv, Dir: spec.Dir, MaxOutput: spec.MaxOutput, Limit: p.limit,
	})
	return p, nil
}

// sameSlice tells whether two environments are one and the same slice: a launcher uses one for all
// its jobs, and it is not sent again for each.
func sameSlice(a, b []string) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// signalTimeout is how long a signal waits for a runner that stands still.
const signalTimeout = 5 * time.Second

// signalled is a signal that the runner was asked for.
type signalled struct {
	answer chan string // receives once; "": it was sent
	asked  time.Time
}

// signal asks for a signal and waits for what became of it, but not for long. A runner that has not
// answered for that long is not asked for more: what it was asked for already it may still do.
func (l *link) signal(id wire.ID, signo int) error {
	wanted := signalled{make(chan string, 1), time.Now()}
	l.mu.Lock()
	if !l.alive() {
		l.mu.Unlock()
		return os.ErrProcessDone
	}
	if len(l.signals) > 0 && time.Since(l.signals[0].asked) >= signalTimeout {
		l.mu.Unlock()
		return errSilent
	}
	l.signals = append(l.signals, wanted)
	l.post(wire.Message{Kind: wire.Signal, ID: id, Signo: signo})
	l.mu.Unlock()
	late := time.NewTimer(signalTimeout)
	defer late.Stop()
	select {
	case text := <-wanted.answer:
		if text != "" {
			return errors.New(text)
		}
		return nil
	case <-late.C:
		l.logger.Warn("the runner does not answer; it may still send a signal", "job", id.Job, "signal", signo)
		return errSilent
	}
}
