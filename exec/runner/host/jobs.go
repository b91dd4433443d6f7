package host

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"jobd/exec/runner/wire"
)

// jobs are the jobs that were asked for and whose outcomes are not journalled yet, and the
// connection on which the worker hears of them. It sends messages to the worker under its lock, so
// that all that is about one job is sent in order.
type jobs struct {
	instance string        // the runner's name
	empty    chan struct{} // has one when the last job was forgotten
	spool    *spool

	mu     sync.Mutex
	known  map[wire.ID]*job
	worker *wire.Outbox // nil: none is connected
}

func newJobs(instance string, spool *spool) *jobs {
	return &jobs{instance: instance, spool: spool, empty: make(chan struct{}, 1), known: make(map[wire.ID]*job)}
}

// job is one of them. All its fields but id are guarded by jobs.mu.
type job struct {
	jobs  *jobs
	id    wire.ID
	limit wire.Limit
	child *child // nil until it is started
	told  bool   // the worker knows that it began
	done  bool   // it has ended
}

// begun implements watcher.
func (j *job) begun(c *child) {
	j.jobs.mu.Lock()
	defer j.jobs.mu.Unlock()
	j.sendStarted(c)
}

// grown implements watcher.
func (j *job) grown(c *child) { j.jobs.spool.begin(j.id, c) }

// wrote implements watcher.
func (j *job) wrote(c *child) { j.jobs.spool.more(c) }

// sendStarted tells the worker, once, that the job began. Callers must hold jobs.mu.
func (j *job) sendStarted(c *child) {
	if j.told || j.done || j.jobs.worker == nil {
		return
	}
	started := c.identity()
	if !started.Known() {
		return
	}
	j.told = true
	j.jobs.send(wire.Message{Kind: wire.Started, ID: j.id, Started: started})
}

// ended implements watcher: it keeps the outcome and sends it.
func (j *job) ended(c *child) {
	j.jobs.mu.Lock()
	defer j.jobs.mu.Unlock()
	j.child, j.done = c, true
	j.jobs.spool.more(c)
	j.jobs.send(j.outcome(wire.Ended))
}

// inlineOutput is how many bytes of output may come with the message of an end. The worker fetches
// more when it has room, so that many jobs that end at once don't fill its memory.
const inlineOutput = 64 << 10

// outcome is a message of kind Ended or Output about a job that is done. Callers must hold jobs.mu.
func (j *job) outcome(kind wire.Kind) wire.Message {
	done := j.child.done
	return wire.Message{
		Kind: kind, ID: j.id, Started: j.child.started, Done: done,
		Later: kind == wire.Ended && len(done.Stdout.Kept)+len(done.Stderr.Kept) > inlineOutput,
	}
}

// send sends a message to the worker, if one is connected. Callers must hold a.mu.
func (a *jobs) send(m wire.Message) {
	if a.worker != nil {
		a.worker.Post(m)
	}
}

// connect makes a worker the one that hears of the jobs, beginning with what it missed, as far as
// its hello says that it understands it.
func (a *jobs) connect(worker *wire.Outbox, theirs *wire.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.worker = worker
	ours := wire.Message{Kind: wire.Hello, Version: wire.Version, Instance: a.instance, Jobs: theirs.RunnerWords()}
	for id, j := range a.known {
		started := j.child.identity()
		j.told = started.Known()
		ours.Jobs = append(ours.Jobs, wire.Job{ID: id, Started: started, Limit: j.limit})
	}
	a.send(ours)
	for _, j := range a.known {
		if j.done {
			a.send(j.outcome(wire.Ended))
		}
	}
}

// disconnect makes it nobody.
func (a *jobs) disconnect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.worker = nil
}

// add makes a job known. It returns nil, and refuses the start, where the job is known already.
func (a *jobs) add(id wire.ID, limit wire.Limit) *job {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known[id] != nil {
		a.sendRefusal(id, wire.SaidAlready, wire.AlreadyKnown)
		return nil
	}
	j := &job{jobs: a, id: id, limit: limit}
	a.known[id] = j
	return j
}

// started notes what a start led to: a child, or an error, with which the job is not known any
// more.
func (a *jobs) started(j *job, c *child, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var refused *refusedError
	if errors.As(err, &refused) {
		a.remove(j.id)
		a.sendRefusal(j.id, refused.text, refused.class)
		return
	}
	j.child = c
}

// refused implements watcher.
func (j *job) refused(text string, class wire.Class) {
	j.jobs.mu.Lock()
	defer j.jobs.mu.Unlock()
	j.jobs.remove(j.id)
	j.jobs.sendRefusal(j.id, text, class)
}

// turn gives a job that waits for a pool process, or runs in one; nil where there is no such job.
func (a *jobs) turn(id wire.ID) *child {
	a.mu.Lock()
	defer a.mu.Unlock()
	if j := a.known[id]; j != nil && j.child != nil && j.child.turn != nil {
		return j.child
	}
	return nil
}

// tellPools tells the worker about pools, if one is connected.
func (a *jobs) tellPools(m wire.Message) (told bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.send(m)
	return a.worker != nil
}

// sendRefusal tells the worker that a start did not happen. Callers must hold a.mu.
func (a *jobs) sendRefusal(id wire.ID, text string, class wire.Class) {
	a.send(wire.Message{Kind: wire.Refused, ID: id, Text: text, Class: class})
}

// signal signals a job's process group and answers the worker.
func (a *jobs) signal(id wire.ID, signo int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := os.ErrProcessDone
	if j := a.known[id]; j != nil {
		j.sendStarted(j.child)
		err = j.child.signal(signo)
	}
	answer := wire.Message{Kind: wire.Signalled, ID: id}
	if err != nil {
		answer.Text = err.Error()
	}
	a.send(answer)
}

// fetch sends the output that did not come with the message of the end.
func (a *jobs) fetch(id wire.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if j := a.known[id]; j != nil && j.done {
		a.send(j.outcome(wire.Output))
	}
}

// forget drops a job whose outcome is journalled.
func (a *jobs) forget(id wire.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if j := a.known[id]; j != nil {
		if j.child != nil {
			a.spool.forget(j.child)
		}
		a.remove(j.id)
	}
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
		if !j.done {
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
		switch j := r.jobs.add(m.ID, m.Limit); {
		case j == nil:
		case m.Pool != "":
			c := newTurn(m, j)
			r.jobs.started(j, c, nil)
			r.reactor.pools.start(m.Pool, c)
		default:
			r.start(j, spec{m.Argv, m.Dir, r.env, m.MaxOutput, m.Limit})
		}
	case wire.Signal:
		r.starts.Wait() // it may be for one of them
		r.jobs.signal(m.ID, m.Signo)
	case wire.Fetch:
		r.jobs.fetch(m.ID)
	case wire.Peek:
		r.starts.Wait() // as above
		r.jobs.peek(m.ID, m.Peek)
	case wire.Forget:
		r.jobs.forget(m.ID)
	case wire.Pools:
		r.reactor.pools.set(m.Wanted)
	case wire.Withdraw:
		if c := r.jobs.turn(m.ID); c != nil {
			r.reactor.pools.withdraw(c)
		}
	case wire.Recycle: // the next pools have it
	default:
		return fmt.Errorf("message of kind %d: %w", m.Kind, wire.ErrMalformed)
	}
	return nil
}

// start starts a job when there is a place.
func (r *requests) start(j *job, what spec) {
	r.places <- struct{}{}
	r.starts.Go(func() {
		defer func() { <-r.places }()
		c, err := r.reactor.start(what, j)
		r.jobs.started(j, c, err)
	})
}
