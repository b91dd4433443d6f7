package api

import (
	"slices"
	"time"

	jobnet "jobd/net"
)

// WorkerStatus is a worker's answer to status. What the original's clients know comes first; the
// original and older workers tell less.
type WorkerStatus struct {
	Targets          map[string]TargetStatus `json:"targets"`
	Clients          int                     `json:"jobPromisesCount"` // manual jobs that a client waits for
	Memory           MemoryUsage             `json:"memoryUsage"`
	Name             string                  `json:"name"`
	Version          string                  `json:"version"`
	Commit           string                  `json:"commit,omitempty"`     // see Build
	CommitDate       string                  `json:"commitDate,omitempty"` // see Build
	Journal          *JournalStatus          `json:"journal"`              // nil: of the original, which has none
	ClaimsInDoubt    int                     `json:"claimsInDoubt"`        // of which it is not known whether they were committed
	UnownedRows      int                     `json:"rowsOfNoWorker"`       // under way, ours by target, claimed by nobody
	Mark             string                  `json:"mark,omitempty"`       // the worker id in the tokens of its claims
	Server           string                  `json:"server,omitempty"`
	Quarantined      []QuarantinedRow        `json:"aside"` // the first of QuarantinedCount
	QuarantinedCount int                     `json:"asideCount"`
	Masters          []MasterStanding        `json:"masters,omitempty"`
	PID              int                     `json:"pid"`
	Started          int64                   `json:"startedAt"`          // unix milliseconds; another one after each restart
	Launcher         *LaunchFailure          `json:"launcher,omitempty"` // why no job can be started
	// Executors: by target; none: each job has a process of its own.
	Executors []ExecutorStatus `json:"executors,omitempty"`
	Database  *Standing        `json:"database,omitempty"` // nil: of a worker that does not tell
	Runner    *RunnerStanding  `json:"runner,omitempty"`
	// NotReady: why it may not take work; none: it may, or does not tell.
	NotReady []NotReady `json:"notReady,omitempty"`

	// ConfigRefused is since when the configuration on the disk has a mistake, and is not in force; zero
	// where it is, or the worker does not tell.
	ConfigRefused time.Time `json:"configRefusedSince,omitzero"`
}

// Stuck tells whether the worker says that it can start no job of a target. That for now it claims
// none, as where the target's rate is used up, is something else: see TargetStatus.Why.
func (s *WorkerStatus) Stuck(target string) bool {
	return s.Launcher != nil || slices.ContainsFunc(s.Executors, func(e ExecutorStatus) bool {
		return e.Target == target && e.Unready != ""
	})
}

// Build is the version of the program that answers, and the commit of which it was built: "unknown"
// where the build was not told of one, "" of a program that does not tell.
type Build struct {
	Version    string `json:"version,omitempty"`
	Commit     string `json:"commit,omitempty"`
	CommitDate string `json:"commitDate,omitempty"` // RFC 3339
}

// Standing is whether something can be reached, and since when that is so.
type Standing struct {
	Reachable bool      `json:"reachable"`
	Since     time.Time `json:"since,omitzero"`
	Error     string    `json:"error,omitempty"` // why not
}

// NotReady is a reason why a worker may not take work at the moment.
type NotReady struct {
	What  string    `json:"what"` // one word: the part that it is about
	Why   string    `json:"why"`
	Since time.Time `json:"since,omitzero"`
}

// RunnerStanding is how a worker stands with the process that runs its jobs.
type RunnerStanding struct {
	Standing
	PID int `json:"pid,omitempty"`
}

// TargetStatus is what is told of a target.
type TargetStatus struct {
	Paused      bool   `json:"paused"`
	Concurrency int    `json:"concurrency"`
	Length      int    `json:"length"`        // jobs waiting and running
	Why         string `json:"why,omitempty"` // why nothing is claimed for it; "" where nothing is wrong

	Running     int    `json:"running"`               // slots in use
	Prefetched  int    `json:"prefetched"`            // claimed, and waiting for a slot
	PausedSince int64  `json:"pausedSince,omitempty"` // unix milliseconds
	PausedBy    string `json:"pausedBy,omitempty"`
	Started     int    `json:"startedLastMinute"`
	Ended       int    `json:"endedLastMinute"`
	Failed      int    `json:"failedLastMinute"` // of those that ended
	// NextDue: when its next delayed row is due, as far as claims have learned, unix seconds.
	NextDue int64 `json:"nextDue,omitempty"`

	// Configured is how many slots the configuration gives it, where they are others: an operator has set
	// them, until the next reload or restart. 0: the configuration does not name the target.
	Configured *int `json:"configured,omitempty"`
}

// MemoryUsage is what memory a daemon uses, in bytes. The names are those of the original; the
// values are the process's own.
type MemoryUsage struct {
	RSS          uint64 `json:"rss"`          // resident, all of the process
	HeapTotal    uint64 `json:"heapTotal"`    // memory that the heap holds
	HeapUsed     uint64 `json:"heapUsed"`     // memory that objects occupy
	External     uint64 `json:"external"`     // memory of the runtime outside the heap
	ArrayBuffers uint64 `json:"arrayBuffers"` // always 0: there are none
}

// JournalStatus is how large a worker's journal is, and how far the table is behind it.
type JournalStatus struct {
	Events   uint64 `json:"events"`   // the newest event's number
	Mirrored uint64 `json:"mirrored"` // the newest event that the table shows
	Bytes    int64  `json:"bytes"`    // on disk
	Segments int    `json:"segments"`

	// UnshownSince: when the first event was journalled that the table does not show.
	UnshownSince time.Time `json:"unshownSince,omitzero"`
	FullSince    time.Time `json:"fullSince,omitzero"` // since when its disk has too little room
	Full         string    `json:"full,omitempty"`     // in words
}

// QuarantinedRow is a row that a worker can't claim or update for now, for a reason that is the row's
// own.
type QuarantinedRow struct {
	Job    jobnet.Whole `json:"job"` // 0: the reason names it
	Target string       `json:"target"`
	Reason string       `json:"reason"`
	Since  time.Time    `json:"since"`
}

// MasterStanding is how a worker stands with one of its masters.
type MasterStanding struct {
	Address    string `json:"address"` // of the master, host:port
	Registered bool   `json:"registered"`
	Error      string `json:"error,omitempty"` // why it is not registered, since the last try

	Since time.Time `json:"since,omitzero"` // when it was registered, or lost the master; since the first try
}

// LaunchFailure is why a worker starts no job.
type LaunchFailure struct {
	Broken string    `json:"broken"`
	Since  time.Time `json:"since"`
}

// ExecutorStatus is how that stands which runs the jobs of a target otherwise than in a process for
// each.
type ExecutorStatus struct {
	Target string `json:"target"`
	Mode   string `json:"mode"`              // fork, pool, http, fastcgi or gearman
	Slots  int    `json:"slots"`             // jobs that may run at once
	Sent   string `json:"address,omitempty"` // of http and fastcgi: where requests are sent

	// Of pool processes: how many there are, of which some are booting, and some have no job.
	Processes int `json:"processes"`
	Booting   int `json:"booting"`
	Ready     int `json:"ready"`
	Busy      int `json:"busy"` // have a job; of http and fastcgi: requests under way

	// Since the runner has them, or the worker was started.
	Boots    int64            `json:"boots"`              // processes that got ready; connections that were made
	Jobs     int64            `json:"jobs"`               // that were passed to one
	Recycled map[string]int64 `json:"recycled,omitempty"` // processes that were replaced, by why

	// Old is how many pool processes recycle still has to replace; nil: an older version, or no pool.
	Old *int `json:"old,omitempty"`

	Unready string `json:"unready,omitempty"` // why no job can be started; "" where nothing is wrong
	Failing string `json:"failing,omitempty"` // why no new process gets ready, while others work
	Since   int64  `json:"since,omitempty"`   // since when, unix milliseconds

	// Stranger tells of the last process that wrote to a pool process's answers and was another one, and
	// what it wrote; "": none did. StrangerAt is when, unix milliseconds.
	Stranger   string `json:"stranger,omitempty"`
	StrangerAt int64  `json:"strangerAt,omitempty"`
}

// Pooled tells whether its jobs run in pool processes, rather than as requests.
func (e *ExecutorStatus) Pooled() bool { return e.Sent == "" }
