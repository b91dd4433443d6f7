package exec_test

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
)

// mirror shows everything at once, unless it is held. It never tells that the table shows what it
// does not: a look at the table would then find rows that run and jobs that are done.
type mirror struct {
	mu          sync.Mutex
	heldUp      uint64                  // the newest event that somebody waits for because of held
	held        chan struct{}           // not nil: Shown waits until it is closed
	quarantined map[int64]chan struct{} // the same for single jobs; Tried does not wait for them
	away        chan struct{}
	seen        chan struct{} // has room for one; receives when somebody asks whether the table is away
}

func (m *mirror) Tried(seq uint64) <-chan struct{} { return m.Shown(seq, 0) }

func (m *mirror) Reached() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.holds() {
		return 0
	}
	return math.MaxUint64
}

func (m *mirror) Shown(seq uint64, job int64) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if waits := m.quarantined[job]; waits != nil {
		return waits
	}
	if m.holds() {
		m.heldUp = max(m.heldUp, seq)
		return m.held
	}
	shown := make(chan struct{})
	close(shown)
	return shown
}

// holds tells whether it shows nothing at the moment. Callers must hold m.mu.
func (m *mirror) holds() bool {
	select {
	case <-m.held:
		return false
	default:
		return m.held != nil
	}
}

func (m *mirror) Away() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case m.seen <- struct{}{}:
	default:
	}
	return m.away
}

// setAway has it lose the table, or find it again.
func (m *mirror) setAway(away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if away {
		close(m.away)
	} else {
		m.away = make(chan struct{})
	}
}

// lock has somebody hold a row, as the mirror finds; unlock lets it go.
func (m *mirror) lock(id int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.quarantined = map[int64]chan struct{}{id: make(chan struct{})}
}

func (m *mirror) unlock(id int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.quarantined[id])
}

// awaited is the newest event that somebody waits for while it shows nothing.
func (m *mirror) awaited() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.heldUp
}

// runner starts processes that the test ends.
type runner struct {
	mu      sync.Mutex
	refuse  error
	once    error            // refuses one start
	alive   map[int]*process // to be adopted, by pid
	started chan *process
	instant bool // processes end at once
	pid     int
	jobs    []int64 // that were started, in order

	recalled  []jobexec.Recalled
	forgotten chan [2]int64

	glances []jobexec.Glance
	written jobexec.Written
	silent  error
}

// instance is the name of the runner in all tests.
const instance = "runner-1"

// endedInstance is the name of one that ended in order.
const endedInstance = "runner-0-ended"

func (r *runner) Instance() (string, error) { return instance, nil }

func (r *runner) Ended(instance string) bool { return instance == endedInstance }

func (r *runner) Recall(underWay []jobexec.Spec) []jobexec.Recalled {
	recalled := slices.Clone(r.recalled)
	for i := range recalled {
		for _, of := range underWay {
			if recalled[i].Job == of.Job && recalled[i].Attempt == of.Attempt {
				recalled[i].Token = of.Token
			}
		}
	}
	return recalled
}

func (r *runner) Forget(job int64, _ string, attempt int) {
	r.forgotten <- [2]int64{job, int64(attempt)}
}

// begun lists the jobs that were started.
func (r *runner) begun() []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.jobs)
}

func (r *runner) Usage(of []journal.Started) []*jobexec.Usage {
	used := make([]*jobexec.Usage, len(of))
	for i, started := range of {
		if started.Pid > 0 {
			used[i] = &jobexec.Usage{CPU: time.Duration(started.Pid) * time.Second, Memory: 1, Processes: 1}
		}
	}
	return used
}

func (r *runner) Written(_ context.Context, g jobexec.Glance) (w jobexec.Written, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.glances = append(r.glances, g)
	return r.written, r.silent
}

func newRunner() *runner {
	return &runner{
		started: make(chan *process, 1000), alive: make(map[int]*process),
		forgotten: make(chan [2]int64, 1000),
	}
}

func (r *runner) Start(spec jobexec.Spec) (jobexec.Process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		return nil, r.refuse
	}
	if err := r.once; err != nil {
		r.once = nil
		return nil, err
	}
	r.pid++
	p := &process{spec: spec, pid: r.pid, ended: make(chan struct{}), signals: make(chan int, 10), known: true}
	if r.instant {
		p.exit(0)
	} else {
		go spec.Tell(jobexec.News{Job: spec.Job, Token: spec.Token, Attempt: spec.Attempt})
	}
	r.jobs = append(r.jobs, spec.Job)
	r.started <- p
	return p, nil
}

func (r *runner) Adopt(_ jobexec.Spec, started journal.Started) (jobexec.Process, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.alive[started.Pid]
	if !ok {
		return nil, false
	}
	return p, true
}

// process is a process that the test ends.
type process struct {
	spec    jobexec.Spec
	pid     int
	once    sync.Once
	ended   chan struct{}
	done    journal.Done
	known   bool
	signals chan int
	stderr  string // that it has written at its end

	lost atomic.Int32 // how many signals are lost on their way
}

func (p *process) Started() journal.Started {
	return journal.Started{Pid: p.pid, StartTime: 1, BootID: "boot"}
}

func (p *process) Signal(signo int) error {
	select {
	case <-p.ended:
		return errors.New("process is gone")
	default:
		if p.lost.Add(-1) >= 0 {
			return os.ErrProcessDone // as of a lost link
		}
		p.signals <- signo
		return nil
	}
}

func (p *process) Begun() <-chan struct{} {
	begun := make(chan struct{})
	close(begun)
	return begun
}

func (p *process) Ended() <-chan struct{} { return p.ended }

func (p *process) Outcome() (journal.Done, error) {
	if !p.known {
		return journal.Done{Elapsed: p.done.Elapsed}, jobexec.ErrOutcomeUnknown
	}
	return p.done, nil
}

func (p *process) exit(code int) {
	p.once.Do(func() {
		result := "ok"
		if code != 0 {
			result = "fail"
		}
		p.done = journal.Done{Result: result, Code: &code, Stderr: journal.Output{Kept: []byte(p.stderr), Size: int64(len(p.stderr))}}
		close(p.ended)
		if p.spec.Tell != nil {
			p.spec.Tell(jobexec.News{Job: p.spec.Job, Token: p.spec.Token, Attempt: p.spec.Attempt, Ended: true})
		}
	})
}

// patience is a Retry that tries again soon.
type patience struct{}

func (patience) Over() {}

func (patience) Wait(ctx context.Context, _ error) error {
	select {
	case <-time.After(time.Millisecond):
	case <-ctx.Done():
	}
	return ctx.Err()
}

// disk is the journal's disk, which the test fills.
type disk struct {
	mu       sync.Mutex
	low      error
	checked  chan struct{} // receives when somebody asked while it was low
	released int
}

func newDisk() *disk { return &disk{checked: make(chan struct{}, 1)} }

func (d *disk) Check() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.low != nil {
		select {
		case d.checked <- struct{}{}:
		default:
		}
	}
	return d.low
}

func (d *disk) Release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.released++
}

func (d *disk) set(low error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.low = low
}

// kill ends the process by a signal.
func (p *process) kill(name string) {
	p.once.Do(func() {
		p.done = journal.Done{Result: "fail", Signal: name}
		close(p.ended)
		p.spec.Tell(jobexec.News{Job: p.spec.Job, Token: p.spec.Token, Attempt: p.spec.Attempt, Ended: true})
	})
}
