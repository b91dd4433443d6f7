package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
)

// link is the worker's connection to its runner.
type link struct {
	of       *Remote
	conn     *net.UnixConn
	instance string
	pid      int // the runner's; 0: it is not known
	out      *wire.Outbox
	in       *wire.Reader
	news     notices // of what the runner has told in its hello
	since    time.Time
	lost     chan struct{} // closed when the connection is gone
	end      Standing      // why, and since when; set before that

	toLeave  bool          // the runner is of another build, or lacks rights: leave it as soon as it has nothing
	accounts bool          // it may start processes of other accounts
	again    bool          // it is one more link to the same runner, which tells again what the worker knows
	guarding sync.Once     // for guard
	asking   chan struct{} // holds one for each question that is not answered

	mu        sync.Mutex
	later     []wire.ID        // jobs whose large outputs are still with the runner
	large     map[wire.ID]bool // those whose large outputs were asked for, and are not journalled yet
	closing   bool             // the worker ends the connection
	owed      map[wire.ID]bool // the starts that the runner was asked for and has not forgotten
	leaving   bool             // the runner is being left (see toLeave): it is asked for nothing more
	env       []string         // the environment that the runner has
	processes map[wire.ID]*process
	answers   []chan wire.Message // of those who wait for one, in order
	silent    bool                // one has waited for too long, and is not answered yet
}

// newLink makes processes of the jobs that the runner still has, by its hello. Those of a lost link to
// the same runner go on, with what became of them meanwhile. Callers must hold r.connecting.
func newLink(r *Remote, former *link, conn *net.UnixConn, out *wire.Outbox, in *wire.Reader, hello *wire.Message) *link {
	l := &link{
		of: r, conn: conn, out: out, in: in, lost: make(chan struct{}), instance: hello.Instance, pid: hello.PID(), since: time.Now(),
		processes: make(map[wire.ID]*process), owed: make(map[wire.ID]bool),
		large: make(map[wire.ID]bool), asking: make(chan struct{}, mostAsked),
		accounts: hello.TakesAccounts(),
	}
	l.toLeave = !hello.IsOfThisBuild() || !l.accounts && len(proc.MissingCapabilities()) == 0
	var known map[wire.ID]*process
	if l.again = former != nil && former.instance == l.instance; l.again {
		former.mu.Lock()
		defer former.mu.Unlock()
		known = former.processes
	}
	for _, old := range hello.Jobs {
		if old.IsWord() {
			continue
		}
		p := known[old.ID]
		switch delete(known, old.ID); {
		case p == nil && l.again && former.owed[old.ID]: // its outcome is on its way into the journal
			l.owed[old.ID] = true
			continue
		case p == nil && l.again: // the order to forget it was lost
			out.Post(wire.Message{Kind: wire.Forget, ID: old.ID})
			continue
		case p == nil:
			p = newProcess(claim{old.ID, old.Limit})
		}
		p.link.Store(l)
		if old.Started.Known() { // else it waits for a process of a pool
			p.begin(old.Started, &l.news)
		}
		l.processes[old.ID], l.owed[old.ID] = p, true
	}
	if former == nil {
		r.recalled = maps.Clone(l.processes)
	}
	return l
}

func (l *link) alive() bool { return !jobexec.IsClosed(l.lost) }

// close ends the connection once everything that was sent is written and the runner has read it,
// but waits for no longer than patience. Processes run on, and their channels stay open. A runner that
// was stopped finds the requests when it goes on, and does them before it serves the next worker.
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
		l.of.config.Logger.Warn("the runner does not answer: its jobs go on, and the worker's next start asks it again",
			"jobs", jobs)
		l.conn.Close()
		<-l.lost
		<-l.out.Written()
	}
}

// receive acts on what the runner sends until the connection is gone.
func (l *link) receive() {
	l.news.make()
	for {
		m, err := l.in.Next()
		if err != nil {
			l.lose(err)
			return
		}
		l.take(&m, &l.news)
	}
}

// take acts on a message.
func (l *link) take(m *wire.Message, n *notices) {
	if pulse := l.of.config.Pulse; pulse != nil {
		pulse.Works()
		defer pulse.Waits()
	}
	if m.Kind == wire.Pools {
		l.of.heard(m)
		return
	}
	l.mu.Lock()
	l.act(m, n)
	l.mu.Unlock()
	n.make()
}

// lose gives up a connection that is gone.
func (l *link) lose(err error) {
	l.conn.Close()
	l.out.Close()
	l.mu.Lock()
	l.end = Standing{Since: time.Now(), Err: fmt.Errorf("the connection to the runner is lost: %w", err)}
	close(l.lost)
	closing, jobs := l.closing, len(l.processes)
	l.mu.Unlock()
	if closing {
		return
	}
	l.of.config.Logger.Warn("connection to the runner is lost", "error", err, "jobs", jobs)
	l.of.rejoin(l)
}

// act acts on one message. Callers must hold l.mu.
func (l *link) act(m *wire.Message, n *notices) {
	p := l.processes[m.ID]
	switch {
	case (m.Kind == wire.Signalled || m.Kind == wire.Peeked) && len(l.answers) > 0:
		l.answers[0] <- *m
		l.answers, l.silent = l.answers[1:], false
		<-l.asking
	case p == nil && l.again: // its outcome is known, or was to be forgotten: see newLink
	case p == nil:
		l.of.config.Logger.Warn("runner reports a job that this worker did not start", "job", m.ID.Job, "attempt", m.ID.Attempt)
	case m.Kind == wire.Started:
		p.begin(m.Started, n)
	case m.Kind == wire.Refused:
		delete(l.processes, m.ID)
		l.paid(m.ID)
		p.end(refusal(m), n)
	case m.Kind == wire.Ended && m.Later:
		p.exit(m.Started, m.Done)
		l.later = append(l.later, m.ID)
		l.fetch()
	case m.Kind == wire.Ended || m.Kind == wire.Output:
		delete(l.processes, m.ID)
		p.exit(m.Started, m.Done)
		p.end(nil, n)
	}
}

// largeOutputs is how many large outputs may be in the worker's memory at once.
const largeOutputs = 2

// fetch asks the runner for large outputs as long as the worker has room for them; forget makes room again.
// After a lost link the runner tells the next one all outcomes that it was not told to forget. Callers must
// hold l.mu.
func (l *link) fetch() {
	for len(l.later) > 0 && len(l.large) < largeOutputs {
		l.large[l.later[0]] = true
		l.out.Post(wire.Message{Kind: wire.Fetch, ID: l.later[0]})
		l.later = l.later[1:]
	}
}

// forget tells the runner that an outcome is journalled, and makes room for the next large output.
func (l *link) forget(id wire.ID) {
	l.out.Post(wire.Message{Kind: wire.Forget, ID: id})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paid(id)
	delete(l.large, id)
	l.fetch()
}

// paid notes that the runner has nothing of a start any more. Callers must hold l.mu.
func (l *link) paid(id wire.ID) {
	delete(l.owed, id)
	l.leaveIdle()
}

// greetTimeout is how long a runner may take to answer a hello. First it does all that former
// workers have asked for.
const greetTimeout = 10 * time.Second

// errSilent says that a runner is there, and does not answer.
var errSilent = errors.New("the runner does not answer; it may have been stopped, as by SIGSTOP")

// greet sends the worker's hello and waits for the runner's.
func greet(conn *net.UnixConn, out *wire.Outbox, in *wire.Reader) (hello wire.Message, err error) {
	out.Post(wire.WorkerHello())
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
	return hello, conn.SetReadDeadline(time.Time{})
}

// start asks for a start.
func (l *link) start(spec *jobexec.Spec) (jobexec.Process, error) {
	p := newProcess(claimOf(spec))
	p.link.Store(l)
	p.tell, p.shares, p.waits = spec.Tell, spec.Mode.Shares(), spec.Mode.Pooled()
	if !p.waits { // a pool process may have to be loaded first
		p.asked = time.Now()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.alive() || l.leaving {
		return nil, fmt.Errorf("start %s: %w", spec.Argv[0], jobexec.ErrRunnerChanged)
	}
	if spec.Account != nil && !l.accounts {
		return nil, &jobexec.NotStartedError{Why: fmt.Sprintf("the runner (process %d) was started before it was allowed to change to user %s; it is replaced as soon as it has no job", l.pid, spec.Account.Name), Short: true}
	}
	l.processes[p.id], l.owed[p.id] = p, true
	if spec.Account != nil {
		l.guarding.Do(func() { go l.guard() })
	}
	if p.waits {
		l.out.Post(wire.Message{
			Kind: wire.Start, ID: p.id, Argv: spec.Argv[:1], MaxOutput: spec.MaxOutput, Limit: p.limit,
			Pool: spec.Target, Vars: spec.Vars,
		})
		return p, nil
	}
	if !sameSlice(l.env, spec.Env) {
		l.env = spec.Env
		l.out.Post(wire.Message{Kind: wire.Environment, Env: spec.Env})
	}
	l.out.Post(wire.Message{
		Kind: wire.Start, ID: p.id, Argv: spec.Argv, Dir: spec.Dir, MaxOutput: spec.MaxOutput, Limit: p.limit,
		Account: spec.Account,
	})
	return p, nil
}

// sameSlice tells whether two environments are one and the same slice: a launcher uses one for all
// its jobs, and it is not sent again for each.
func sameSlice(a, b []string) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// mostAsked is how many questions the runner is asked at once, since their answers are in memory, and
// askTimeout how long one waits for a runner that stands still, or is asked for many.
const (
	mostAsked  = 16
	askTimeout = 5 * time.Second
)

// ask asks the runner something. The runner answers one question after the other, so a caller may have to
// wait for those before it, but no longer than askTimeout. If the runner has not answered in time, ask asks
// it nothing more until it answers. The runner may still do then what it was asked to do.
func (l *link) ask(ctx context.Context, m wire.Message) (answer wire.Message, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askTimeout, errSilent)
	defer cancel()
	select {
	case l.asking <- struct{}{}:
	case <-l.lost:
		return answer, errLost
	case <-ctx.Done():
		return answer, context.Cause(ctx)
	}
	wanted := make(chan wire.Message, 1)
	l.mu.Lock()
	if l.silent {
		<-l.asking
		l.mu.Unlock()
		return answer, errSilent
	}
	l.answers = append(l.answers, wanted)
	l.out.Post(m)
	l.mu.Unlock()
	select {
	case answer = <-wanted:
		if answer.Text != "" {
			return answer, errors.New(answer.Text)
		}
		return answer, nil
	case <-l.lost:
		return answer, errLost
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if errors.Is(err, errSilent) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.silent = slices.Contains(l.answers, wanted)
		l.of.config.Logger.Warn("the runner does not answer; it may still do what it was asked for", "job", m.ID.Job)
	}
	return answer, err
}

// signal has a signal sent.
func (l *link) signal(id wire.ID, signo int) error {
	_, err := l.ask(context.Background(), wire.Message{Kind: wire.Signal, ID: id, Signo: signo})
	if errors.Is(err, errLost) {
		return os.ErrProcessDone
	}
	return err
}
