package gearman

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// A worker says what it can do, asks for jobs, and sleeps where there is none until NOOP wakes it. Between the
// moment when it has asked for a job and that when the job is sent, it waits: the job's start is journalled.

// Job is one that a worker is to run.
type Job struct {
	Function string
	Handle   string
	Run      Run

	// guarded by the server's mu
	worker *Peer // that has asked for it; nil: it waits for one, or is over
	grab   Kind  // how it asked
	sent   bool  // it was assigned
	alarm  *time.Timer
}

// Run hears what becomes of a job. Its methods are called by the goroutines of connections and must not block.
type Run interface {
	// Taken says that a worker has asked for it, which waits for Assign.
	Taken(address string)
	// Heard says what the worker has said: WORK_STATUS, with its arguments, WORK_DATA, WORK_WARNING; it is over with
	// WORK_COMPLETE, WORK_FAIL and WORK_EXCEPTION. Who needs the payload later keeps it.
	Heard(kind Kind, args []string, last Payload)
	// Lost says that the worker is gone, or has taken too long. Where it was not sent, the worker knows nothing of it.
	Lost(why error, sent bool)
}

// worker is what a peer is as a worker.
type worker struct {
	id       string
	can      []string // functions, in the order in which it said so
	limits   map[string]time.Duration
	sleeping bool
	jobs     map[string]*Job // by handle: those that it was sent, or waits for
}

// function is one that workers can do, or that jobs wait for.
type function struct {
	workers  map[*Peer]struct{}
	sleeping map[*Peer]struct{}
	waiting  []*Job
	alarm    *time.Timer // wakes all where those that were woken do not ask
	patience *time.Timer // ends when nobody has asked for those that wait; nil: nothing waits
	asked    bool        // since patience was set, a worker has asked for a job or begun to sleep
	mute     bool        // nobody did in time
}

// wakeAllAfter is how long a job waits for the one worker that was woken for it until all others are; askWithin how
// long until workers that have no job and ask for none are as ones that are not there.
const (
	wakeAllAfter = 100 * time.Millisecond
	askWithin    = 10 * time.Second
)

// functionOf is a function, made where it is not there. Callers must hold s.mu.
func (s *Server) functionOf(name string) *function {
	f := s.functions[name]
	if f == nil {
		f = &function{workers: map[*Peer]struct{}{}, sleeping: map[*Peer]struct{}{}}
		s.functions[name] = f
	}
	return f
}

// tidy forgets a function that nobody needs. Callers must hold s.mu.
func (s *Server) tidy(name string) {
	if f := s.functions[name]; f != nil && len(f.workers) == 0 && len(f.waiting) == 0 {
		delete(s.functions, name)
	}
}

// Offer has a job wait for a worker.
func (s *Server) Offer(j *Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.functionOf(j.Function)
	f.waiting = append(f.waiting, j)
	s.wakeOne(f)
	if len(f.sleeping) > 0 && f.alarm == nil {
		f.alarm = time.AfterFunc(wakeAllAfter, func() { s.wakeAll(f) })
	}
	if f.patience == nil {
		f.asked = false
		f.patience = time.AfterFunc(askWithin, func() { s.unasked(j.Function, f) })
	}
}

// unasked looks whether the workers of a function ask for jobs: one that has a job asks when that is over.
func (s *Server) unasked(name string, f *function) {
	s.mu.Lock()
	f.patience = nil
	if len(f.waiting) > 0 {
		f.mute = !f.asked
		for p := range f.workers {
			f.mute = f.mute && len(p.jobs) == 0
		}
		if f.asked = false; !f.mute {
			f.patience = time.AfterFunc(askWithin, func() { s.unasked(name, f) })
		}
	}
	mute := f.mute
	s.mu.Unlock()
	if mute {
		s.tell(name)
	}
}

// asks notes that a worker asks for jobs. It gives the functions of which that was not known any more. Callers must
// hold s.mu.
func (s *Server) asks(p *Peer) (again []string) {
	for _, name := range p.can {
		f := s.functions[name]
		if f.asked = true; f.mute {
			f.mute, again = false, append(again, name)
		}
	}
	return again
}

// tellAll tells of functions how many workers can do them by now.
func (s *Server) tellAll(names []string) {
	for _, name := range names {
		s.tell(name)
	}
}

// Mute tells whether jobs of a function have waited for long, and none of its workers has asked for one since.
func (s *Server) Mute(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.functions[name]
	return f != nil && f.mute
}

// wakeOne wakes a worker of a function. Callers must hold s.mu.
func (s *Server) wakeOne(f *function) {
	for p := range f.sleeping {
		s.wake(p)
		return
	}
}

func (s *Server) wakeAll(f *function) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.alarm = nil
	if len(f.waiting) == 0 {
		return
	}
	for p := range f.sleeping {
		s.wake(p)
	}
}

// wake sends NOOP. Callers must hold s.mu.
func (s *Server) wake(p *Peer) {
	s.setSleeping(p, false)
	p.Send(Noop)
}

// setSleeping notes whether a worker sleeps. Callers must hold s.mu.
func (s *Server) setSleeping(p *Peer, sleeping bool) {
	if p.sleeping == sleeping {
		return
	}
	p.sleeping = sleeping
	for _, name := range p.can {
		if sleeping {
			s.functions[name].sleeping[p] = struct{}{}
		} else {
			delete(s.functions[name].sleeping, p)
		}
	}
}

// Withdraw takes a job back that waits for a worker. It is false where one has asked for it, or it is over.
func (s *Server) Withdraw(j *Job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.functions[j.Function]
	if f == nil {
		return false
	}
	at := slices.Index(f.waiting, j)
	if at < 0 {
		return false
	}
	f.waiting = slices.Delete(f.waiting, at, at+1)
	s.tidy(j.Function)
	return true
}

// Assign sends a job to the worker that has asked for it. Where that is gone, Lost was called.
func (s *Server) Assign(j *Job, unique string, workload Payload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := j.worker
	if p == nil || j.sent {
		return
	}
	j.sent = true
	if limit := p.limits[j.Function]; limit > 0 {
		j.alarm = time.AfterFunc(limit, func() { s.late(j, limit) })
	}
	if j.grab == GrabJob {
		p.SendPayload(JobAssign, workload, j.Handle, j.Function)
	} else {
		p.SendPayload(JobAssignUniq, workload, j.Handle, j.Function, unique)
	}
}

// late gives up a job whose worker has taken longer than it said.
func (s *Server) late(j *Job, limit time.Duration) {
	if s.Forget(j) {
		j.Run.Lost(fmt.Errorf("its worker took longer than the %s of its CAN_DO_TIMEOUT", limit), true)
	}
}

// Forget ends a job that a worker has, or waits for: what it says of it is not known any more. It is false where it
// was over.
func (s *Server) Forget(j *Job) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := j.worker
	if p == nil {
		return false
	}
	s.end(j)
	if !j.sent {
		p.Send(NoJob)
	}
	return true
}

// end takes a job from its worker. Callers must hold s.mu.
func (s *Server) end(j *Job) {
	delete(j.worker.jobs, j.Handle)
	j.worker = nil
	if j.alarm != nil {
		j.alarm.Stop()
	}
}

// canDo notes that a worker can do a function, within a time (0: any).
func (s *Server) canDo(p *Peer, name string, limit time.Duration) {
	s.mu.Lock()
	if p.limits == nil {
		p.limits = map[string]time.Duration{}
	}
	p.limits[name] = limit
	f := s.functionOf(name)
	_, could := f.workers[p]
	if !could {
		p.can = append(p.can, name)
		f.workers[p] = struct{}{}
		if p.sleeping {
			f.sleeping[p] = struct{}{}
		}
	}
	if len(f.waiting) > 0 && p.sleeping {
		s.wake(p)
	}
	s.mu.Unlock()
	if !could {
		s.tell(name)
	}
}

// cantDo notes that a worker can't do a function any more.
func (s *Server) cantDo(p *Peer, name string) {
	s.mu.Lock()
	could := slices.Contains(p.can, name)
	if could {
		p.can = slices.DeleteFunc(p.can, func(one string) bool { return one == name })
		f := s.functions[name]
		delete(f.workers, p)
		delete(f.sleeping, p)
		s.tidy(name)
	}
	s.mu.Unlock()
	if could {
		s.tell(name)
	}
}

// tell tells how many workers can do a function by now.
func (s *Server) tell(name string) {
	s.telling.Lock()
	defer s.telling.Unlock()
	s.Config.Workers(name, s.WorkersOf(name))
}

// WorkersOf is how many workers can do a function.
func (s *Server) WorkersOf(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.functions[name]; f != nil {
		return len(f.workers)
	}
	return 0
}

// Doable are the functions that workers can do.
func (s *Server) Doable() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, f := range s.functions {
		if len(f.workers) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// reset notes that a worker can do nothing.
func (s *Server) reset(p *Peer) {
	s.mu.Lock()
	can := slices.Clone(p.can)
	s.mu.Unlock()
	for _, name := range can {
		s.cantDo(p, name)
	}
}

// endWorker notes that a peer is gone.
func (s *Server) endWorker(p *Peer) {
	s.mu.Lock()
	lost := make(map[*Job]bool, len(p.jobs))
	for _, j := range p.jobs {
		lost[j] = j.sent
		s.end(j)
	}
	s.mu.Unlock()
	s.reset(p)
	for j, sent := range lost {
		j.Run.Lost(errGone, sent)
	}
}

var errGone = errors.New("the connection to its worker was lost")

// grab gives a worker a job, or tells that there is none.
func (s *Server) grab(p *Peer, kind Kind) {
	s.mu.Lock()
	s.setSleeping(p, false)
	again := s.asks(p)
	var j *Job
	for _, name := range p.can {
		if f := s.functions[name]; len(f.waiting) > 0 {
			j = f.waiting[0]
			f.waiting[0] = nil
			f.waiting = f.waiting[1:]
			break
		}
	}
	if j == nil {
		p.Send(NoJob)
		s.mu.Unlock()
		s.tellAll(again)
		return
	}
	if p.jobs == nil {
		p.jobs = map[string]*Job{}
	}
	j.worker, j.grab, p.jobs[j.Handle] = p, kind, j
	s.mu.Unlock()
	s.tellAll(again)
	j.Run.Taken(p.session.Address)
}

// sleep notes that a worker sleeps, unless there is a job for it.
func (s *Server) sleep(p *Peer) {
	s.mu.Lock()
	s.setSleeping(p, true)
	again := s.asks(p)
	if slices.ContainsFunc(p.can, func(name string) bool { return len(s.functions[name].waiting) > 0 }) {
		s.wake(p)
	}
	s.mu.Unlock()
	s.tellAll(again)
}

// said takes what a worker says of a job.
func (s *Server) said(p *Peer, kind Kind, args [][]byte, held *hold) {
	s.mu.Lock()
	j := p.jobs[string(args[0])]
	if j != nil && !j.sent {
		j = nil
	}
	if j != nil && (kind == WorkComplete || kind == WorkFail || kind == WorkException) {
		s.end(j)
	}
	s.mu.Unlock()
	if j == nil {
		p.refuse("JOB_NOT_FOUND", "Job given in work result not found")
		return
	}
	if kind == WorkStatus {
		j.Run.Heard(kind, []string{string(args[1]), string(args[2])}, Payload{})
		return
	}
	var last Payload
	if len(args) > 1 {
		last = Payload{Bytes: args[1], hold: held}
	}
	j.Run.Heard(kind, nil, last)
}

// milliseconds reads the limit of CAN_DO_TIMEOUT. What is no number is no limit.
func milliseconds(text []byte) time.Duration {
	n, err := strconv.ParseUint(string(text), 10, 32)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Millisecond
}
