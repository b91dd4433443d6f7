package host

import (
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
