package runner

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	jobexec "jobd/exec"
)

// held is a job that was asked for and whose outcome is not journalled yet.
type held struct {
	server *Server
	id     id

	// Under the server's lock.
	process *child // nil until it is started
	told    bool   // the worker knows that it began
	done    bool   // it has ended
}

// begun implements watcher.
func (h *held) begun(c *child) {
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	h.tell(c)
}

// tell tells the worker that the job began, once. The lock is held.
func (h *held) tell(c *child) {
	if h.told || h.done || h.server.out == nil {
		return
	}
	h.told = true
	h.server.out.send(message{Kind: kindStarted, ID: h.id, Started: c.started})
}

// ended implements watcher: it keeps the outcome and tells it.
func (h *held) ended(c *child) {
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	h.process, h.done = c, true
	if h.server.out != nil {
		h.server.out.send(h.news())
	}
}

// news is the message about a job that has ended. The lock is held.
func (h *held) news() message {
	m := ended(h.id, h.process.started, h.process.done)
	m.Timed = h.server.timed
	return m
}

// maxStarts is how many starts may be under way at once. Each keeps a thread and one of Go's processors until the
// launcher is executed (pitfall 31).
const maxStarts = 2

// requests does what one worker asks for. What came together is started together.
type requests struct {
	server *Server
	env    []string
	starts []request
}

// request is a start that is to be done.
type request struct {
	job  *held
	spec jobexec.Spec
}

// take does one thing, or, where that is a start, notes it: its job is known from then on.
func (r *requests) take(m *message) error {
	switch m.Kind {
	case kindEnvironment:
		r.env = m.Env
	case kindStart:
		r.note(m)
	case kindSignal:
		r.run() // it may be for one of those
		r.server.signal(m)
	case kindFetch:
		r.server.fetch(m.ID)
	case kindForget:
		r.server.forget(m.ID)
	default:
		return fmt.Errorf("message of kind %d: %w", m.Kind, errMalformed)
	}
	return nil
}

func (r *requests) note(m *message) {
	job := &held{server: r.server, id: m.ID}
	if !r.server.hold(job) {
		r.server.refuse(m.ID, alreadyStarted, classKnown)
		return
	}
	spec := jobexec.Spec{Argv: m.Argv, Dir: m.Dir, Env: r.env, MaxOutput: m.MaxOutput}
	r.starts = append(r.starts, request{job, spec})
}

// run does the starts that were noted, some at a time, and returns when each has happened, or
// has not.
func (r *requests) run() {
	var next atomic.Int64
	work := func() {
		for i := next.Add(1); i <= int64(len(r.starts)); i = next.Add(1) {
			r.starts[i-1].do()
		}
	}
	var others sync.WaitGroup
	for range min(len(r.starts), maxStarts) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	clear(r.starts)
	r.starts = r.starts[:0]
}

// do starts a job.
func (a *request) do() {
	s := a.job.server
	c, err := s.local.Start(a.spec, a.job)
	if err != nil {
		s.forget(a.job.id)
		s.refuse(a.job.id, err.Error(), classOf(err))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a.job.process = c
}

// hold makes a job known, unless it is.
func (s *Server) hold(job *held) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.jobs[job.id]; known {
		return false
	}
	s.jobs[job.id] = job
	return true
}

// signal signals a job's process group.
func (s *Server) signal(m *message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := os.ErrProcessDone
	if job := s.jobs[m.ID]; job != nil {
		job.tell(job.process)
		err = job.process.Signal(m.Signo)
	}
	answer := message{Kind: kindSignalled, ID: m.ID}
	if err != nil {
		answer.Text = err.Error()
	}
	if s.out != nil {
		s.out.send(answer)
	}
}

// fetch sends the output that did not come with the news of the end.
func (s *Server) fetch(id id) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if job := s.jobs[id]; job != nil && job.done && s.out != nil {
		m := job.news()
		m.Kind, m.Later = kindOutput, false
		s.out.send(m)
	}
}

// forget drops a job whose outcome is journalled.
func (s *Server) forget(id id) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.jobs, id)
	if len(s.jobs) == 0 {
		select {
		case s.empty <- struct{}{}:
		default:
		}
	}
}
