package live

import (
	"context"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
)

// Source asks the daemon at the other end, a worker or a master, and makes a lost connection again.
// Its methods are called at the same time, end with their context, and wait no longer for an answer
// than is usual. What one of several workers can't tell is no error: the others' answers count.
type Source interface {
	// Fleet tells what the daemon says of itself, or a master of its workers.
	Fleet(ctx context.Context) (Fleet, error)
	// Running lists running jobs of these workers: at most q.Most of each, in no order.
	Running(ctx context.Context, workers []Worker, q api.RunningQuery) (Running, error)
	// Waiting counts what waits for these targets. Targets that it doesn't tell of are not known.
	Waiting(ctx context.Context, workers []Worker, targets []string) (Waiting, error)
	// Show prints the page of a job, Follow its output as it comes, on the terminal itself.
	Show(ctx context.Context, job Job) error
	Follow(ctx context.Context, job Job) error
	// Do carries an action out, and says what the daemon answered.
	Do(ctx context.Context, action Action) (string, error)
}

// Fleet is the worker at the other end, or those of a master.
type Fleet struct {
	Workers  []Worker
	Troubles []string // of the master itself, or beyond any worker
}

// Worker is a worker, and what it says of itself.
type Worker struct {
	Name    string
	Address string // by which its master knows it; "" where there is no master
	Targets []string
	Status  *api.WorkerStatus // nil: it did not answer
	Error   string            // why not
}

// Running is what runs, as far as workers told.
type Running struct {
	Jobs   []Job
	Total  int      // how many run, listed or not
	Silent []string // why a worker can't tell, with its name
}

// Job is a running job, and its worker.
type Job struct {
	api.RunningJob
	Worker  string // its name
	Address string // by which its master knows it; "" where there is no master
}

// Waiting is what waits in the table.
type Waiting struct {
	Targets map[string]api.WaitingTarget
	Silent  []string // why something can't be told
}

// Action is something that a person wants done. It is about a target or about a job.
type Action struct {
	Kind   ActionKind
	Target string
	Job    Job
}

// ActionKind is what is to be done.
type ActionKind int

// The actions.
const (
	Pause ActionKind = iota
	Continue
	Poke
	Term
	Kill
	Cancel
)

// id is a job's number as people write it.
func id(job jobnet.Whole) string { return number(int64(job)) }

// running is what its worker says of a job.
func (j *Job) running() *api.RunningJob { return &j.RunningJob }

// since is when a running job was started.
func since(job Job) time.Time { return time.UnixMilli(job.Since) }
