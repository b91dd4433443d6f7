package live

import (
	"context"
	"strconv"
	"time"

	"jobd/cmd/internal/operator"
	jobnet "jobd/net"
	"jobd/net/api"
)

// Source asks the daemon at the other end, a worker or a master, and makes a lost connection again.
// Its methods are called at the same time, end with their context, and wait no longer for an answer
// than is usual. What one of several workers can't tell is no error: the others' answers count.
type Source interface {
	// Fleet tells what the daemon says of itself, or a master of its workers.
	Fleet(ctx context.Context) (*operator.Census, error)
	// Running lists running jobs: at most q.Most of each worker.
	Running(ctx context.Context, q api.RunningQuery) (operator.RunningJobs, error)
	// Waiting counts what waits for these targets.
	Waiting(ctx context.Context, fleet *operator.Census, targets []string) (Waiting, error)
	// Do carries an action out, and says what the daemon answered.
	Do(ctx context.Context, action Action) (string, error)
}

// Job is a running job.
type Job = operator.RunningJob

// Waiting is what waits in the table. Targets that it does not tell of are not known.
type Waiting struct {
	Targets map[string]api.WaitingTarget
	Silent  []error // why something can't be told
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
	Cancel
)

// id is a job's number as people write it.
func id(job jobnet.Whole) string { return strconv.FormatInt(int64(job), 10) }

// since is when a running job was started.
func since(job Job) time.Time { return time.UnixMilli(job.Since) }
