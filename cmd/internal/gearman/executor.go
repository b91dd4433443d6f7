package gearman

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/net/gearman"
	"jobd/store/sqlite"
)

// executor runs the jobs of targets by Gearman workers.
type executor struct {
	front *Front

	telling sync.Mutex // held while it is told how workers stand, so that the newest is told last

	mu      sync.Mutex
	targets map[string]*standing
	runs    map[int64]*run // by job
}

// standing is how the workers of a target stand.
type standing struct {
	workers int
	unready string    // why no job can be started
	since   time.Time // of that
	jobs    int64     // that a worker got
}

func newExecutor(f *Front) *executor {
	return &executor{front: f, targets: map[string]*standing{}, runs: map[int64]*run{}}
}

// Why no job of a target can be started.
const (
	none = "no Gearman worker that can do it is connected"
	mute = "the Gearman workers that can do it are connected, and ask for no job"
)

// setTargets says of which targets workers run the jobs.
func (x *executor) setTargets(services map[string]jobexec.Service) {
	x.mu.Lock()
	var added []string
	maps.DeleteFunc(x.targets, func(name string, _ *standing) bool { return services[name].Mode != jobexec.ModeGearman })
	for name, of := range services {
		if of.Mode == jobexec.ModeGearman && x.targets[name] == nil {
			x.targets[name] = &standing{unready: none, since: time.Now()}
			added = append(added, name)
		}
	}
	x.mu.Unlock()
	for _, name := range added {
		x.workers(name)
	}
}

// workers looks how many workers can do a function, and tells it. Without any that asks, the jobs that wait for one
// are given back.
func (x *executor) workers(name string) {
	x.telling.Lock()
	defer x.telling.Unlock()
	n, why := x.front.server.WorkersOf(name), ""
	switch {
	case n == 0:
		why = none
	case x.front.server.Mute(name):
		n, why = 0, mute
	}
	x.mu.Lock()
	t := x.targets[name]
	if t == nil {
		x.mu.Unlock()
		return
	}
	if t.unready != why {
		t.since = time.Now()
	}
	t.workers, t.unready = n, why
	told := t.told(name)
	var waiting []*run
	for _, r := range x.runs {
		if why != "" && r.job.Function == name {
			waiting = append(waiting, r)
		}
	}
	x.mu.Unlock()
	x.front.OnStanding(told)
	for _, r := range waiting {
		r.withdraw(journal.Done{}, &jobexec.NotStartedError{Why: why, Short: true})
	}
}

// told is how the workers of a target stand, as it is told.
func (t *standing) told(name string) jobexec.PoolStanding {
	s := jobexec.PoolStanding{Target: name, Mode: jobexec.ModeGearman, Ready: t.workers, Unready: t.unready, Jobs: t.jobs}
	if s.Unready != "" {
		s.Since = t.since.UnixMilli()
	}
	return s
}

func (x *executor) standings() (all []jobexec.PoolStanding) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(x.targets)) {
		all = append(all, x.targets[name].told(name))
	}
	return all
}

// standing is how far a job has come whose row has a status.
func (x *executor) standing(id int64, status string) (s gearman.Standing) {
	x.mu.Lock()
	r := x.runs[id]
	x.mu.Unlock()
	if r == nil { // it waits, or something else runs it
		s.Running = status == journal.RowRunning
		return s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Running, s.Numerator, s.Denominator = r.state == sent, r.numerator, r.denominator
	return s
}

// run is a job that a worker is to run, or runs.
type run struct {
	executor *executor
	spec     jobexec.Spec
	job      gearman.Job
	begun    chan struct{}
	ended    chan struct{}

	mu                     sync.Mutex
	state                  state
	started                journal.Started
	done                   journal.Done
	err                    error
	unique                 string
	workload               gearman.Payload
	long                   int       // bytes of the workload, if that is read when a worker has asked; 0: it is there
	at                     time.Time // when it was sent
	limit                  *time.Timer
	numerator, denominator string // as the worker has said last
}

// state is how far a run has come.
type state int

const (
	loading state = iota // its workload is read
	offered              // it waits for a worker
	taken                // a worker waits for it, until its start is journalled, and a long workload read
	sent                 // a worker has it
	over
)

// start implements jobexec.Requester. Where no worker is connected, the job is not started.
func (x *executor) start(spec jobexec.Spec) *run {
	r := &run{executor: x, spec: spec, begun: make(chan struct{}), ended: make(chan struct{})}
	r.job = gearman.Job{Function: spec.Target, Handle: x.front.handle(spec.Job), Run: r}
	if spec.Attempt > 1 { // a worker that was given up may still speak of the one before
		r.job.Handle += "." + strconv.Itoa(spec.Attempt)
	}
	x.mu.Lock()
	t := x.targets[spec.Target]
	why := none
	if t != nil {
		why = t.unready
	}
	if why == "" {
		x.runs[spec.Job] = r
		t.jobs++
	}
	x.mu.Unlock()
	if why != "" {
		r.end(journal.Done{}, &jobexec.NotStartedError{Why: why})
		return r
	}
	if x.front.intake == nil {
		r.offer("", strconv.AppendInt(nil, spec.Job, 10), 0)
	} else if w, known := x.front.intake.takeWorkload(spec.Job); known {
		r.offer(w.unique, w.bytes, 0)
	} else {
		x.front.tasks.Go(r.load)
	}
	return r
}

// load reads the workload of a run, but for a long one.
func (r *run) load() {
	w, err := r.read(longWorkload)
	if err != nil {
		r.withdraw(journal.Done{}, &jobexec.NotStartedError{Why: err.Error(), Short: true})
		return
	}
	long := 0
	if w.Size > longWorkload {
		long = w.Size
	}
	r.offer(uniqueOf(w.UniqueKey), w.Bytes, long)
}

// read reads what a row has. One without a workload was inserted by the application: its worker gets the id.
func (r *run) read(most int) (w sqlite.Workload, err error) {
	w, found, err := r.executor.front.workload(r.spec.Job, most)
	if err != nil || !found {
		return w, fmt.Errorf("its workload can't be read: %w", cmp.Or(err, errors.New("its row is gone")))
	}
	if w.Null {
		w.Bytes = strconv.AppendInt(nil, w.ID, 10)
	}
	return w, nil
}

// workload is what a row has; without the bytes, where they are more than most.
func (f *Front) workload(job int64, most int) (w sqlite.Workload, found bool, err error) {
	rows, err := f.Table.Workloads(context.Background(), []int64{job}, most)
	if err != nil || len(rows) == 0 {
		return w, false, err
	}
	if w = rows[0]; w.Size > f.MaxPacket {
		err = fmt.Errorf("it has %d bytes, and gearman_max_packet is %d", w.Size, f.MaxPacket)
	}
	return w, true, err
}

// loadLong reads a long workload, for which there must be memory, and sends it to the worker that has asked for it.
// That may be gone meanwhile, or the run given up.
func (r *run) loadLong(size int) {
	server := r.executor.front.server
	workload, err := server.Load(&r.job, size, func() ([]byte, error) {
		r.mu.Lock()
		gone := r.state != taken
		r.mu.Unlock()
		if gone {
			return nil, os.ErrProcessDone
		}
		w, err := r.read(r.executor.front.MaxPacket)
		return w.Bytes, err
	})
	if err != nil {
		if server.Forget(&r.job) {
			r.Lost(err, false)
		}
		return
	}
	defer workload.Drop()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.send(workload)
}

// offer has the run wait for a worker, now that its workload is known, or how long it is.
func (r *run) offer(unique string, workload []byte, long int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != loading {
		return
	}
	r.state, r.unique, r.workload, r.long = offered, unique, gearman.Payload{Bytes: workload}, long
	r.executor.front.server.Offer(&r.job)
}

// withdraw ends a run that no worker has asked for; it is false where one has.
func (r *run) withdraw(done journal.Done, why error) bool {
	r.mu.Lock()
	waits := r.state == loading || r.state == offered && r.executor.front.server.Withdraw(&r.job)
	if waits {
		r.state = over
	}
	r.mu.Unlock()
	if waits {
		r.end(done, why)
	}
	return waits
}

// WaitsFor tells what keeps the run from beginning; "": nothing does.
func (r *run) WaitsFor() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != offered {
		return ""
	}
	return "a Gearman worker that asks for a job"
}

// Taken implements gearman.Run.
func (r *run) Taken(address string) {
	r.mu.Lock()
	ours := r.state == offered
	if ours {
		r.state, r.started = taken, journal.Started{Address: address}
		close(r.begun)
	}
	r.mu.Unlock()
	if ours {
		r.tell(false)
	}
}

// Proceed implements jobexec.Held: the start is journalled.
func (r *run) Proceed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.long > 0 && r.state == taken {
		r.executor.front.tasks.Go(func() { r.loadLong(r.long) })
		return
	}
	r.send(r.workload)
	r.workload = gearman.Payload{}
}

// send sends the run to its worker. Callers must hold r.mu.
func (r *run) send(workload gearman.Payload) {
	if r.state != taken {
		return
	}
	r.state, r.at = sent, time.Now()
	if r.spec.Timeout > 0 {
		r.limit = time.AfterFunc(r.spec.Timeout, func() {
			r.giveUp(fmt.Errorf("the worker did not answer within its timeout of %s", r.spec.Timeout))
		})
	}
	r.executor.front.server.Assign(&r.job, r.unique, workload)
}

// giveUp ends a run that a worker has, whatever that says later.
func (r *run) giveUp(why error) {
	if r.executor.front.server.Forget(&r.job) {
		r.Lost(why, true)
	}
}

// Lost implements gearman.Run.
func (r *run) Lost(why error, wasSent bool) {
	if wasSent {
		r.finish(func(*journal.Done) error { return fmt.Errorf("%w: %w", why, jobexec.ErrOutcomeUnknown) })
	} else {
		r.finish(func(*journal.Done) error { return &jobexec.NotStartedError{Why: why.Error(), Short: true} })
	}
}

// Heard implements gearman.Run.
func (r *run) Heard(kind gearman.Kind, args []string, last gearman.Payload) {
	front := r.executor.front
	switch kind {
	case gearman.WorkStatus:
		r.mu.Lock()
		r.numerator, r.denominator = args[0], args[1]
		r.mu.Unlock()
	case gearman.WorkWarning, gearman.WorkException:
		r.mu.Lock()
		keep(&r.done.Stderr, last.Bytes, r.spec.MaxOutput)
		r.mu.Unlock()
	}
	if kind == gearman.WorkStatus || kind == gearman.WorkData || kind == gearman.WorkWarning {
		if front.intake != nil {
			front.intake.live(r.spec.Job, kind, args, last)
		}
		return
	}
	if front.intake != nil {
		front.intake.final(r.spec.Job, kind, last)
	}
	r.finish(func(done *journal.Done) error {
		done.Result = "fail"
		switch kind {
		case gearman.WorkComplete:
			done.Result, done.Code = "ok", new(int)
			keep(&done.Stdout, last.Bytes, r.spec.MaxOutput)
		case gearman.WorkFail:
			done.Reason = "its Gearman worker has answered with WORK_FAIL"
		default:
			done.Reason = "its Gearman worker has answered with WORK_EXCEPTION"
		}
		return nil
	})
}

// keep adds to an output, of which so much is kept.
func keep(o *journal.Output, more []byte, most int) {
	o.Size += int64(len(more))
	o.Kept = append(o.Kept, more[:min(len(more), max(0, most-len(o.Kept)))]...)
}

// finish ends a run that a worker has, or has asked for.
func (r *run) finish(how func(*journal.Done) error) {
	r.mu.Lock()
	if r.state == over {
		r.mu.Unlock()
		return
	}
	r.state = over
	if r.limit != nil {
		r.limit.Stop()
	}
	if !r.at.IsZero() {
		r.done.Elapsed = max(1, time.Since(r.at).Microseconds())
	}
	done := r.done
	err := how(&done)
	r.mu.Unlock()
	r.end(done, err)
}

// end tells how the run has ended.
func (r *run) end(done journal.Done, err error) {
	x := r.executor
	x.mu.Lock()
	if x.runs[r.spec.Job] == r {
		delete(x.runs, r.spec.Job)
	}
	x.mu.Unlock()
	r.mu.Lock()
	r.done, r.err, r.state, r.workload = done, err, over, gearman.Payload{}
	select {
	case <-r.begun:
	default:
		close(r.begun)
	}
	close(r.ended)
	r.mu.Unlock()
	r.tell(true)
}

func (r *run) tell(ended bool) {
	if r.spec.Tell != nil {
		r.spec.Tell(jobexec.News{Job: r.spec.Job, Token: r.spec.Token, Attempt: r.spec.Attempt, Ended: ended})
	}
}

// Begun implements jobexec.Process.
func (r *run) Begun() <-chan struct{} { return r.begun }

// Started implements jobexec.Process.
func (r *run) Started() journal.Started {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.started
}

// Ended implements jobexec.Process.
func (r *run) Ended() <-chan struct{} { return r.ended }

// Outcome implements jobexec.Process.
func (r *run) Outcome() (journal.Done, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done, r.err
}

// Withdraw takes the run back if it waits still for a worker.
func (r *run) Withdraw() {
	r.withdraw(journal.Done{}, &jobexec.NotStartedError{Why: "it was taken back while it waited for a worker", Short: true})
}

// Signal implements jobexec.Process. A run can be given up, and nothing else: a worker hears of no signal.
func (r *run) Signal(signo int) error {
	signal := unix.Signal(signo)
	name := unix.SignalName(signal)
	r.mu.Lock()
	at := r.state
	r.mu.Unlock()
	switch {
	case at == over:
		return os.ErrProcessDone
	case signo == 0:
		return nil
	case signal != unix.SIGTERM && signal != unix.SIGINT && signal != unix.SIGKILL:
		return fmt.Errorf("%w: a job of a Gearman worker takes SIGTERM, SIGINT and SIGKILL, which give it up", unix.EINVAL)
	}
	unsent := journal.Done{Result: "fail", Signal: name, Reason: "it was cancelled before it was sent to a worker"}
	if r.withdraw(unsent, nil) || !r.executor.front.server.Forget(&r.job) {
		return nil // else it is ending
	}
	r.finish(func(done *journal.Done) error {
		if r.at.IsZero() {
			*done = unsent
			return nil
		}
		return fmt.Errorf("it was cancelled by %s while a worker had it: %w", name, jobexec.ErrOutcomeUnknown)
	})
	return nil
}
