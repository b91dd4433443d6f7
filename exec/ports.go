package exec

import (
	"context"
	"errors"
	"time"

	"jobd/exec/board"
	"jobd/exec/runner/proc"
	"jobd/journal"
)

// Recorder is the journal: the first place that learns of anything.
type Recorder interface {
	// Append makes drafts durable, all or none. After an error other than journal.ErrFull or a
	// *journal.IllegalError the worker can't go on.
	Append(drafts ...journal.Draft) ([]journal.Event, error)
	// View shows the state after everything appended so far.
	View(look func(*journal.State))
}

// Claimer is the jobs table as a source of work; see store.Table for the contract. If a claim ends with
// an error after decide was called, only Rows can tell whether it was committed, unless the error says so.
// An error, or one of its causes, says more by these methods:
//
//   - Undone() bool: true says that the claim was not committed.
//   - Refused() map[int64]string: the rows, of a claim that is Undone, that the table does not let us claim.
//   - Away() bool: true says that the error is about the whole table. Without that it is not.
//   - Passing() bool: true says that nothing is wrong: after its start every worker has to wait for this.
type Claimer interface {
	Names(ctx context.Context, names []string) (unfit map[string]string, err error)
	Hold(ctx context.Context, name string) (holder string, err error)
	Holder(ctx context.Context, name string) (holder string, err error)
	Claim(ctx context.Context, room map[string]int, except []int64, decide func([]journal.Row) ([]journal.Event, error)) error
	Waiting(ctx context.Context, targets []string, except []int64) ([]string, error)
	NextDue(ctx context.Context, targets []string, except []int64) (journal.Due, error)
	ClaimManual(ctx context.Context, ids []int64, targets []string, decide func([]journal.Row) ([]journal.Event, error)) (locked []int64, err error)
	Rows(ctx context.Context, ids []int64) (rows []journal.Row, locked []int64, err error)
	// UnderWay lists rows that are accepted or running: those whose owner begins so, whatever their
	// target, and those of the targets that have no owner.
	UnderWay(ctx context.Context, owner string, targets []string) ([]journal.Row, error)
}

// Disk is the room that the journal has.
type Disk interface {
	// Check fails where there is too little of it to begin anything new.
	Check() error
	// Release frees the reserve, so that what was begun can be ended.
	Release()
}

// Mirror brings the table up to date with the journal.
type Mirror interface {
	// Shown is closed when the table shows event seq of a job, or the journal holds a conflict
	// instead. For job 0 it is closed when that holds for all jobs.
	Shown(seq uint64, job int64) <-chan struct{}
	// Tried is closed when the mirror has tried to show event seq and all before it. A row that
	// can't be updated for now is quarantined, and only Shown waits for it.
	Tried(seq uint64) <-chan struct{}
	// Reached is the event up to which Tried is closed.
	Reached() uint64
	// Away is closed as long as the table can't be reached.
	Away() <-chan struct{}
}

// Runner starts jobs. Its processes may outlive the worker.
type Runner interface {
	// Start asks for the start of a process as the leader of a process group of its own, and does
	// not wait for it: what becomes of it the process tells. Starts are asked for in the order of
	// the calls. The error is ErrRunnerChanged where the runner is not the one that was announced:
	// nothing was asked for then.
	Start(spec Spec) (Process, error)
	// Adopt takes up the process of a start whose runner is gone, if the process is still alive. It
	// reads only the start's identity, mode, time and limits; the limits stay in force.
	Adopt(of Spec, started journal.Started) (Process, bool)
}

// Keeper is the runner's memory: it keeps what it was asked to start, with the outcome, until it is
// told to forget it, whatever becomes of the worker.
type Keeper interface {
	// Instance names the runner that is there now. A start under an instance that lives still, and
	// of which it knows nothing, never happened.
	Instance() (string, error)
	// Ended tells whether a runner is known to have ended by itself, because it had nothing any
	// more. A start under its instance whose outcome is not journalled never happened.
	Ended(instance string) bool
	// Recall lists what the runner had from workers before this one. underWay are the starts that are
	// under way by the journal: of a pool job they tell when it began.
	Recall(underWay []Spec) []Recalled
	// Forget says that an outcome is journalled.
	Forget(job int64, token string, attempt int)
}

// Recalled is a start that a former worker asked for.
type Recalled struct {
	Job     int64
	Token   string // of the job's claim
	Attempt int
	Process Process // runs, or has ended
}

// ErrOutcomeUnknown is among the causes of an outcome that nobody can tell any more. Whether the
// process was started at all may be unknown too.
var ErrOutcomeUnknown = errors.New("its outcome is unknown")

// ErrRunnerChanged is among the causes of a start that never happened because it was announced with
// another runner's name. What the journal says must be true before it happens: a start is looked
// for where it was announced.
var ErrRunnerChanged = errors.New("the runner was replaced")

// NotStartedError is among the causes of a start that never happened because the system refused to
// execute the program. A program that was executed and ended at once, be it with 126 or 127, was
// started.
type NotStartedError struct {
	Why   string
	Short bool // what was missing comes back by itself: a process, memory, descriptors, a file that is being written
}

// Error implements error.
func (e *NotStartedError) Error() string { return e.Why }

// Spec says what to start.
type Spec struct {
	Mode      Mode   // ModeProcess, or how else
	Target    string // whose pool process runs it, or whose service
	Job       int64
	Attempt   int
	Runner    string // the instance that should start it
	Argv      []string
	Dir       string // "": the worker's own
	Env       []string
	Account   *proc.Account // nil: the worker's own
	MaxOutput int           // bytes kept of stdout and of stderr, each

	// Vars is what this start's own environment has beyond that of its launcher, "JOBD_NAME=value":
	// a pool process learns it with each job, a service from headers. In ModeProcess it is part of Env.
	Vars    []string
	Service Service // of modes that are requests

	// Since is set for a start that is taken up from a former worker: the time when it was announced,
	// by the worker's clock.
	Since time.Time

	// Token is that of the job's claim. With the attempt it tells starts of the job apart, for ever.
	Token string
	// Timeout is how long the process may run; 0: no limit. Then its group gets SIGTERM, KillAfter
	// later SIGKILL.
	Timeout, KillAfter time.Duration

	// Tell is called with the news of this start: once at most, each, when the process's channels
	// Begun and Ended have been closed; from any goroutine, and must not block. For a process that has
	// ended, the news of its end is enough: that of Begun may be left out.
	Tell func(News)
}

// News says that something has become of a start: the process has begun, or ended.
type News struct {
	Job     int64
	Token   string
	Attempt int
	Ended   bool
}

// Process is a job whose start was asked for.
type Process interface {
	// Begun is closed when the process is known to run, which may be told only after some
	// milliseconds, because most have ended by then; at the latest when it has ended.
	Begun() <-chan struct{}
	// Started identifies the process for ever, once it has begun. It is zero where there never was
	// one, or nobody can tell.
	Started() journal.Started
	// Signal sends a signal to the process group, once it has begun. It fails when the process is
	// gone.
	Signal(signo int) error
	// Ended is closed when the process is gone and its outcome is here.
	Ended() <-chan struct{}
	// Outcome tells how it ended, once it has, and how long it ran and what it has written, where
	// that is known. The error is ErrOutcomeUnknown where nobody can tell any more,
	// ErrRunnerChanged where it was never started and may be under another runner's name; any other
	// says why it could not be started.
	Outcome() (journal.Done, error)
}

// Held is a process that has not begun its work when Begun is closed: it does so when Proceed is
// called, which is done once its start is journalled. A job that is a request is one: its connection
// is there, and no byte of it was sent.
type Held interface {
	Process
	Proceed()
}

// withdrawable is a process that may have to wait before it begins: for a pool process that is ready, or
// for the connection of a request.
type withdrawable interface {
	Process
	// Withdraw takes it back if it waits still: it ends with a *NotStartedError or ErrRunnerChanged
	// then. It does not wait for that. Where it has begun, or is about to, nothing follows.
	Withdraw()
}

// Requester runs jobs that are requests to a service. They live and die with the worker.
type Requester interface {
	// Start begins a request, and does not wait for it, as Runner.Start.
	Start(spec Spec) (Process, error)
	// SetServices says which services there are from now on, by target. Of the targets that are not
	// there nothing more is told.
	SetServices(services map[string]Service)
	// Standings tell how the services stand.
	Standings() []PoolStanding
}

// Pools keeps processes ready which run the jobs of targets, see Mode.Pooled.
type Pools interface {
	// SetPools says which pools the worker wants from now on. All of a pool may have changed, its
	// number of slots too. The runner replaces the processes of a changed pool one after the other, and
	// ends those of a pool that is gone, when they have no job.
	SetPools(pools []Pool)
	// Recycle replaces the processes of pools, one after the other. It gives the targets without a pool.
	Recycle(targets []string, why string) (unknown []string)
	// Standings tell how the pools stand, in the order of their targets.
	Standings() []PoolStanding
}

// Watcher looks at what jobs do while they run. None of it holds up a job.
type Watcher interface {
	// Usage gives what the process groups of starts have used so far, in their order; nil where it
	// is not known. It may be some seconds old.
	Usage(of []journal.Started) []*Usage
	// Written gives a part of what a start has written so far. Of one whose runner is gone that is
	// what the runner had kept on disk.
	Written(ctx context.Context, g Glance) (Written, error)
}

// Glance asks for a part of what a start has written.
type Glance struct {
	Job     int64
	Token   string // of the claim
	Attempt int
	From    [2]int64 // of stdout and stderr, the first byte wanted; below 0: so far before the newest one
	Most    int      // bytes of each
}

// Written is a part of stdout and one of stderr.
type Written [2]Part

// Part is a piece of an output stream.
type Part struct {
	At    int64  // where it begins: after From, where the bytes at From were not kept
	Bytes []byte // as the job wrote them
	Size  int64  // of the whole stream so far
}

// Usage is what the process group of a job has used of the machine.
type Usage struct {
	Ran       time.Duration // since its leader was started, whatever the host's clock says
	CPU       time.Duration
	Memory    int64 // resident bytes
	Processes int
}

// Retry waits before something is tried again after cause, and reports cause. It fails when ctx
// ends. Over reports that what had failed, if anything had, has succeeded.
type Retry interface {
	Wait(ctx context.Context, cause error) error
	Over()
}

// RefusedError is a text for the client whose request can't be done as it stands.
type RefusedError string

// Error implements error.
func (e RefusedError) Error() string { return string(e) }

// Observer counts what the worker does. The worker tells it of the start and the end of a job after the
// event is durable, so it counts nothing that a crash takes back. It hears nothing again that a former
// run of the worker did. Its methods are called from any goroutine and for each job: they must be fast,
// and must not block.
type Observer interface {
	// JobStarted says that a job's process was started, and how long its row had waited for that: since
	// it was made, was set back by hand, or was due, whichever came last. It is not told of jobs that
	// are run by hand, nor of those started again whose outcome nobody knows, and not where the row
	// does not say since when it waits.
	JobStarted(target string, waited time.Duration)
	// JobEnded says how a job has ended.
	JobEnded(target string, done journal.Done)
	// Claimed says how long the table took to answer a claim, and why it failed, if it did.
	Claimed(took time.Duration, err error)
}

// observe tells what a turn has journalled.
func (w *Worker) observe(steps []*board.Step) {
	for _, s := range steps {
		if s.Err != nil {
			continue
		}
		var ran time.Duration
		for _, e := range s.Events {
			if done, is := e.Payload.(journal.Done); is {
				ran = time.Duration(done.Elapsed) * time.Microsecond
				w.Observer.JobEnded(s.Job().Target(), done)
			}
		}
		for _, e := range s.Events {
			if _, is := e.Payload.(journal.Started); is {
				w.observeStart(s.Job(), e.Time.Add(-ran))
			}
		}
	}
}

// observeStart tells of a job whose process began at a time of the worker's clock.
func (w *Worker) observeStart(j *board.Job, began time.Time) {
	since := j.Ready()
	if since == 0 {
		return
	}
	w.mu.Lock()
	began = w.clock.now(began)
	w.mu.Unlock()
	w.Observer.JobStarted(j.Target(), max(0, began.Sub(time.Unix(since, 0))))
}
