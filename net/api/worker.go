package api

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	jobnet "jobd/net"
	"jobd/net/principal"
)

// What a worker answers.
var (
	Poll     = declare[Targets, Done](Kind{Name: "poll", scope: principal.Submit}, readTargets)
	Pause    = declare[Targets, Done](Kind{Name: "pause", scope: principal.Admin, Changes: true}, readTargets)
	Continue = declare[Targets, Done](Kind{Name: "continue", scope: principal.Admin, Changes: true}, readTargets)

	Recycle = declare[Targets, Done](Kind{Name: "recycle", scope: principal.Admin, Changes: true}, readTargets)

	AddTarget      = declare[Slots, Done](Kind{Name: "add-target", scope: principal.Admin, Changes: true}, readNewTarget)
	SetConcurrency = declare[Slots, Done](Kind{Name: "set-target-concurrency", scope: principal.Admin, Changes: true, OneWorker: true}, readSlots)
	RemoveTarget   = declare[Target, Done](Kind{Name: "remove-target", scope: principal.Admin, Changes: true}, readTarget)

	Status     = declare[None, WorkerStatus](Kind{Name: "status", scope: principal.Status}, readNone)
	RunManual  = declare[Manual, Outcomes](Kind{Name: "run-manual", scope: principal.Submit, Changes: true, Slow: true}, readManual)
	SendSignal = declare[Signals, Delivered](Kind{Name: "send-signal", scope: principal.Run, Changes: true}, readSignals)
	Reload     = declare[None, Reloaded](Kind{Name: "reload", scope: principal.Admin, whole: true, Changes: true, Slow: true, OneWorker: true}, readNone)
	Restart    = declare[Restarting, Restarted](Kind{Name: "restart", scope: principal.Admin, whole: true, Changes: true, OneWorker: true}, readRestarting)
)

// Target is the data of a request about one target.
type Target struct {
	Target string `json:"target"`
}

func readTarget(r *reader) Target { return Target{r.target()} }

// Slots is the data of a request about how many jobs of a target may run at once.
type Slots struct {
	Concurrency int    `json:"concurrency"`
	Target      string `json:"target"`
}

// readNewTarget is readSlots of a target that is new: its name will stand in terminals and logs.
func readNewTarget(r *reader) Slots {
	s := readSlots(r)
	if strings.ContainsFunc(s.Target, unicode.IsControl) {
		r.refuse("target %q has a control character in its name; allowed: any other text", s.Target)
	}
	return s
}

func readSlots(r *reader) Slots {
	target := r.target()
	return Slots{Target: target, Concurrency: int(r.Int("concurrency"))}
}

// Manual is the data of a worker's run-manual.
type Manual struct {
	IDs []jobnet.Whole `json:"ids"`
	By  string         `json:"by,omitempty"` // from a master: the client that asks
}

func readManual(r *reader) Manual { return Manual{IDs: r.ids(math.MaxInt)} }

// Outcomes is the answer to run-manual: each job is in one of its parts, each of which is there
// only where it has entries.
type Outcomes struct {
	Jobs   map[jobnet.Whole]Outcome `json:"jobs,omitempty"`
	Errors map[jobnet.Whole]string  `json:"errors,omitempty"`
}

// Outcome is how a job ended that a client waited for.
type Outcome struct {
	Result string  `json:"result"` // ok or fail
	Code   *int    `json:"code"`   // nil where a signal ended it
	Signal *string `json:"signal"` // its name; nil where none ended it
	Stdout string  `json:"stdout"`
	Stderr string  `json:"stderr"`
}

// mostSignals is how many jobs one request may signal: each signal is journalled before it is sent.
const mostSignals = 10_000

// Signals is the data of a worker's send-signal.
type Signals struct {
	Jobs map[jobnet.Whole]int `json:"jobs"`         // the signals' numbers
	By   string               `json:"by,omitempty"` // from a master: the client that asks

	// Odd are the names that are no ids, and the ids whose signal is no number: nothing is
	// delivered. It is true where more than a probe was asked for.
	Odd map[string]bool `json:"-"`
}

func readSignals(r *reader) (s Signals) {
	jobs := jobnet.FieldsOf(r.Fields["jobs"])
	r.limit(len(jobs), mostSignals, "too many jobs: at most %d are allowed")
	s.Jobs, s.Odd = make(map[jobnet.Whole]int, len(jobs)), make(map[string]bool)
	for name, value := range jobs {
		id, err := strconv.ParseInt(name, 10, 64)
		signo, whole := jobnet.Integer(value)
		if err == nil && whole && strconv.FormatInt(id, 10) == name {
			s.Jobs[jobnet.Whole(id)] = int(signo)
		} else {
			s.Odd[name] = !whole || signo != 0
		}
	}
	return s
}

// Delivered is the answer to send-signal.
type Delivered struct {
	Jobs   map[string]bool   // by what the request named the job: true where the signal was delivered
	Errors map[string]string // of a master: why nobody could be asked, or somebody could not
}

// MarshalJSON implements json.Marshaler.
func (d Delivered) MarshalJSON() ([]byte, error) {
	if len(d.Errors) == 0 {
		if d.Jobs == nil {
			return []byte("{}"), nil
		}
		return json.Marshal(d.Jobs)
	}
	all := make(map[string]any, len(d.Jobs)+1)
	for name, sent := range d.Jobs {
		all[name] = sent
	}
	all["errors"] = d.Errors
	return json.Marshal(all)
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Delivered) UnmarshalJSON(data []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	if errors, there := all["errors"]; there {
		if err := json.Unmarshal(errors, &d.Errors); err != nil {
			return err
		}
		delete(all, "errors")
	}
	d.Jobs = make(map[string]bool, len(all))
	for name, sent := range all {
		d.Jobs[name] = string(sent) == "true"
	}
	return nil
}

// Reloaded is the answer to reload.
type Reloaded struct {
	File    string   `json:"file"`
	Changed []string `json:"changed,omitempty"` // keys that differ from those that were read last
	Later   []string `json:"later,omitempty"`   // keys that differ from those of the start, and count from the next one on

	Warnings []string `json:"warnings,omitempty"` // about the file: unknown keys, say

	// The targets that stand otherwise than before, also where somebody had changed them by hand.
	Before map[string]TargetStatus `json:"before,omitempty"`
	After  map[string]TargetStatus `json:"after,omitempty"`
}

// Restarting is the data of restart.
type Restarting struct {
	Next bool `json:"next,omitempty"` // the answer should tell what follows
}

func readRestarting(r *reader) Restarting { return Restarting{Next: r.Has("next")} }

// Restarted is the answer to restart: the text "ok", or what follows this process.
type Restarted struct{ Next *Successor }

// Successor is the process that follows one that restarts, as far as it is known before.
type Successor struct {
	PID     int    `json:"pid"`
	Address string `json:"address"` // where it will listen
}

// MarshalJSON implements json.Marshaler.
func (r Restarted) MarshalJSON() ([]byte, error) {
	if r.Next == nil {
		return []byte(`"ok"`), nil
	}
	return json.Marshal(r.Next)
}

// UnmarshalJSON implements json.Unmarshaler. A value that is no object tells of no successor.
func (r *Restarted) UnmarshalJSON(data []byte) error {
	if jobnet.TypeOf(data) == "object" {
		_ = json.Unmarshal(data, &r.Next)
	}
	return nil
}

// longestTarget is how many bytes a target may have that a worker is asked about.
const longestTarget = 1024

// Targets is the data of the requests about targets.
type Targets struct {
	Detail  bool     `json:"detail,omitempty"`  // of a master: the answer should tell whom that is about
	Targets []string `json:"targets,omitempty"` // none: all of them
	By      string   `json:"by,omitempty"`      // from a master: the client that asks, see net.Link
}

func readTargets(r *reader) Targets { return Targets{Targets: r.anyTargets(longestTarget)} }

// Done is the answer of the requests that are carried out at once: the text "ok", or, to a client
// that asked a master for detail, which workers that was about.
type Done struct {
	Result   string   // "" is "ok"
	Unserved []string // those of the targets that no registered worker serves
	Workers  *int     // that serve one of them, or all where none were named; nil: the answer has no detail
}

// doneForm is an answer with detail on the wire.
type doneForm struct {
	Result   string   `json:"result"`
	Unserved []string `json:"unserved"`
	Workers  *int     `json:"workers"`
}

// MarshalJSON implements json.Marshaler.
func (d Done) MarshalJSON() ([]byte, error) {
	d.Result = cmp.Or(d.Result, "ok")
	if d.Workers == nil {
		return json.Marshal(d.Result)
	}
	if d.Unserved == nil {
		d.Unserved = []string{}
	}
	return json.Marshal(doneForm(d))
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Done) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &d.Result) == nil {
		return nil
	}
	return json.Unmarshal(data, (*doneForm)(d))
}

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
