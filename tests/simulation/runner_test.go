package simulation

import (
	"errors"
	"fmt"
	"sync"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
)

// start tells one start of one job from all others.
type start struct {
	job     int64
	token   string
	attempt int
}

// runner starts the jobs of a worker, and outlives its processes. A power cut takes it with all it has.
type runner struct {
	m *machine

	mu       sync.Mutex
	number   int // of the instance
	begun    int
	children map[start]*child
}

func (r *runner) instance() string { return fmt.Sprintf("runner %d of %s", r.number, r.m.name) }

// cutPower ends all there is.
func (r *runner) cutPower() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	for _, c := range r.children {
		c.lost = true
	}
	r.children = map[start]*child{}
}

// child is a job's process.
type child struct {
	r     *runner
	spec  jobexec.Spec
	pid   int
	lost  bool // in a power cut; guarded by r.mu
	begun chan struct{}
	ended chan struct{}
	once  sync.Once
	done  journal.Done
	err   error
}

// hands are a process's hold on the runner of its worker.
type hands struct {
	jobexec.Watcher // which is not needed
	*runner
	p *process
}

func (h *hands) Start(spec jobexec.Spec) (jobexec.Process, error) {
	w := h.m.w
	w.mayKill(h.p, 0.001)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.p.isDead() || spec.Runner != h.instance() {
		return nil, jobexec.ErrRunnerChanged
	}
	h.begun++
	c := &child{r: h.runner, spec: spec, pid: h.begun, begun: make(chan struct{}), ended: make(chan struct{})}
	h.children[start{spec.Job, spec.Token, spec.Attempt}] = c
	if w.chance("starts", 0.01) {
		w.after(time.Millisecond, func() { c.end(journal.Done{}, &jobexec.NotStartedError{Why: "no process is free", Short: true}) })
		return c, nil
	}
	w.started(h.m, spec)
	lasts := w.lasts(spec.Job)
	if lasts > 5*time.Millisecond {
		w.after(5*time.Millisecond, func() {
			close(c.begun)
			spec.Tell(jobexec.News{Job: spec.Job, Token: spec.Token, Attempt: spec.Attempt})
		})
	}
	w.after(lasts, func() { c.end(outcome(spec.Job, lasts), nil) })
	w.mayKill(h.p, 0.001)
	return c, nil
}

// outcome is how a job ends: one in seven fails.
func outcome(job int64, lasts time.Duration) journal.Done {
	code, result := int(job%7)/6, "ok"
	if code != 0 {
		result = "fail"
	}
	return journal.Done{Result: result, Code: &code, Elapsed: lasts.Microseconds()}
}

// end ends the process.
func (c *child) end(done journal.Done, err error) {
	c.r.mu.Lock()
	lost := c.lost
	c.r.mu.Unlock()
	c.once.Do(func() {
		if c.done, c.err = done, err; lost {
			c.done, c.err = journal.Done{}, jobexec.ErrOutcomeUnknown
		}
		close(c.ended)
		c.spec.Tell(jobexec.News{Job: c.spec.Job, Token: c.spec.Token, Attempt: c.spec.Attempt, Ended: true})
	})
}

func (c *child) Started() journal.Started {
	var refused *jobexec.NotStartedError
	if errors.As(c.err, &refused) {
		return journal.Started{}
	}
	return journal.Started{Pid: c.pid, StartTime: 1, BootID: "boot"}
}

func (c *child) Signal(int) error {
	c.end(journal.Done{Result: "fail", Signal: "SIGKILL"}, nil)
	return nil
}

func (c *child) Begun() <-chan struct{} { return c.begun }

func (c *child) Ended() <-chan struct{} { return c.ended }

func (c *child) Outcome() (journal.Done, error) { return c.done, c.err }

// Adopt implements exec.Runner: a power cut leaves no process.
func (h *hands) Adopt(jobexec.Spec, journal.Started) (jobexec.Process, bool) { return nil, false }

func (h *hands) Instance() (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.instance(), nil
}

// Ended implements exec.Keeper: no runner ends in order.
func (h *hands) Ended(string) bool { return false }

func (h *hands) Recall([]jobexec.Spec) (recalled []jobexec.Recalled) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, c := range h.children {
		recalled = append(recalled, jobexec.Recalled{Job: key.job, Token: key.token, Attempt: key.attempt, Process: c})
	}
	return recalled
}

func (h *hands) Forget(job int64, token string, attempt int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.p.isDead() {
		delete(h.children, start{job, token, attempt})
	}
}

// unneeded stands for what these workers have no use for: pools, services, an observer, a watched disk.
type unneeded struct{}

func (unneeded) SetPools([]jobexec.Pool)                     {}
func (unneeded) Recycle(targets []string, _ string) []string { return targets }
func (unneeded) Standings() []jobexec.PoolStanding           { return nil }
func (unneeded) SetServices(map[string]jobexec.Service)      {}
func (unneeded) Start(jobexec.Spec) (jobexec.Process, error) { return nil, errors.ErrUnsupported }
func (unneeded) JobStarted(string, time.Duration)            {}
func (unneeded) JobEnded(string, journal.Done)               {}
func (unneeded) Claimed(time.Duration, error)                {}
func (unneeded) Check() error                                { return nil }
func (unneeded) Release()                                    {}
