package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Hash is the link of the chain: SHA-256 over the hash before it and the
// event's canonical bytes.
type Hash [sha256.Size]byte

// String returns the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Event is one journalled fact. Events are immutable once appended.
type Event struct {
	Seq     uint64    // 1, 2, 3, … without a gap
	Time    time.Time // UTC, whole microseconds, never before the event before it
	Job     int64     // the job's id in the table; 0 where the worker itself is meant
	Payload Payload   // what happened
	Hash    Hash      // chains this event to all before it
}

// Kind is the kind of the event's payload.
func (e Event) Kind() Kind { return e.Payload.Kind() }

// Weight is about how many bytes of memory the event takes.
func (e Event) Weight() int {
	if done, ok := e.Payload.(Done); ok {
		return 512 + len(done.Stdout.Kept) + len(done.Stderr.Kept)
	}
	return 512
}

// Draft is an event that has not been appended yet: the journal gives it its
// sequence number, time and hash.
type Draft struct {
	Job     int64
	Payload Payload
}

// Payload is what an event of one kind says. The JSON form of a payload is
// what the journal stores (the bytes of a Done's output stand beside it).
type Payload interface {
	Kind() Kind
}

// Accepted says that the worker claims the job. It is appended inside the
// claim's transaction, before the row is updated.
type Accepted struct {
	Target string `json:"target"`
	Manual bool   `json:"manual,omitempty"`
	Token  string `json:"token"`

	// Created is the row's time_created, in seconds since 1970; 0 where the table has none, as in
	// events of older versions.
	Created int64 `json:"created,omitempty"`

	// From is RowDelayed where the row was that; "": it was waiting, or manual.
	From string `json:"from,omitempty"`
	// Plan is what the row said about time; nil where the table uses no such columns.
	Plan *Plan `json:"plan,omitempty"`
	// PlannedAt is the planned start of this run, in seconds since 1970, which the claim writes into
	// the row; 0 where there is none.
	PlannedAt int64 `json:"planned_at,omitempty"`
}

// Ignored says that the worker marks the row as not to be run. It is appended inside the
// transaction that updates the row, before that; where the row was not updated, a Conflict with the
// Wanted "ignored" follows.
type Ignored struct {
	Reason string `json:"reason"`
	By     string `json:"by,omitempty"`     // who cancelled it; "": nobody did, it may not run anyway
	Manual bool   `json:"manual,omitempty"` // the row was manual; events of older versions do not tell
	Told   bool   `json:"told,omitempty"`   // the reason stands in the row's stderr
	Target string `json:"target,omitempty"` // the row's; events of older versions do not tell
}

// Released says that a claim is given up before the job was started.
type Released struct {
	Reason string `json:"reason"`
	Target string `json:"target,omitempty"`
	Manual bool   `json:"manual,omitempty"` // the row goes back to manual, not to waiting
	Token  string `json:"token,omitempty"`  // of the claim; events of older versions have none
	From   string `json:"from,omitempty"`   // RowDelayed where the row goes back to that
	Plan   *Plan  `json:"plan,omitempty"`   // what the row says about time from now on: the same as before its claim
}

// Running says that the job is about to be started.
type Running struct {
	Attempt int    `json:"attempt"`          // 1 for the first start
	Runner  string `json:"runner,omitempty"` // the instance of the runner that starts it

	// Claimed says that a slot was free when the job was claimed: the claim's own transaction
	// makes the row running, and the job is started when that is committed.
	Claimed bool `json:"claimed,omitempty"`

	Token string `json:"token,omitempty"` // of the claim; events of older versions have none

	Timeout   int64 `json:"timeout,omitempty"`    // for how many seconds it may run; 0: no limit
	KillAfter int64 `json:"kill_after,omitempty"` // how many seconds later it gets SIGKILL

	// Executor: what runs it: fork, pool, http, fastcgi or gearman, in older journals also spare; "": a
	// process of its own.
	Executor string `json:"executor,omitempty"`
}

// Started says that the job's process exists. Pid, StartTime and BootID together
// identify a process for ever: ids are reused, start times within a boot are not. A job that is a
// request to a service has no process: Address is where it is about to be sent, over a connection
// that is there.
type Started struct {
	Pid       int    `json:"pid"`
	StartTime uint64 `json:"start_time"` // clock ticks since boot, field 22 of /proc/PID/stat
	BootID    string `json:"boot_id"`

	Address string `json:"address,omitempty"`
}

// Known tells whether it says anything.
func (s Started) Known() bool { return s.Pid != 0 || s.Address != "" }

// Signal says that a signal is about to be sent to the job's process group.
type Signal struct {
	Signo int    `json:"signo"`
	By    string `json:"by"` // who asked: a client's address, or the worker's reason

	// Ends says that the run is not tried again if the signal kills the process.
	Ends bool `json:"ends,omitempty"`
}

// Done says how the job ended.
type Done struct {
	Result string `json:"result"`           // "ok" or "fail"
	Code   *int   `json:"code"`             // exit code 0–255; nil where there is none
	Signal string `json:"signal,omitempty"` // the signal's name where one killed the process
	Stdout Output `json:"stdout"`
	Stderr Output `json:"stderr"`
	Reason string `json:"reason,omitempty"` // why, where the process itself does not tell
	Note   string `json:"note,omitempty"`   // what jobd adds to stderr where people look for it

	// Elapsed is how long the process ran, in microseconds of a clock that nobody sets; 0 where
	// that is not known.
	Elapsed int64 `json:"elapsed,omitempty"`
	// Finished is when it ended, in microseconds since 1970, where that is later than the event's
	// own time, because the host's clock was set back while it ran; else 0.
	Finished int64  `json:"finished,omitempty"`
	Token    string `json:"token,omitempty"` // of the claim; events of older versions have none
	// What the process used, with those of its children that it waited for: processor time in
	// microseconds, and the most memory that one of them had, in bytes. 0: nobody knows.
	CPU    int64 `json:"cpu,omitempty"`
	Memory int64 `json:"memory,omitempty"`

	// Timeout: it was ended because it ran longer than so many seconds: a failure, whatever its code.
	Timeout int64  `json:"timeout,omitempty"`
	Again   *Again `json:"again,omitempty"` // the row comes back, and when; nil: it does not

	// What a service has said of another attempt: that there is none to be (Final), or that it
	// comes no sooner than so many seconds from now (RetryAfter; 0: nothing was said).
	Final      bool  `json:"final,omitempty"`
	RetryAfter int64 `json:"retry_after,omitempty"`
}

// EndedAt is when the job ended, where its done event has the given time.
func (d Done) EndedAt(event time.Time) time.Time {
	if finished := moment(d.Finished); finished.After(event) {
		return finished
	}
	return event
}

// ShownStderr is what rows and clients are shown as the job's stderr: what the job wrote, and
// the note.
func (d Done) ShownStderr() Output {
	if d.Note == "" {
		return d.Stderr
	}
	note := "[jobd: " + d.Note + "]\n"
	return Output{
		Kept: slices.Concat(d.Stderr.Kept, []byte(note)),
		Size: d.Stderr.Size + int64(len(note)),
	}
}

// Conflict says that the mirror met a row that somebody else changed or deleted while it was the
// worker's; or, where Wanted is "ignored" or "retried", that the worker did not update the row so.
type Conflict struct {
	Found  *Row   `json:"found"` // nil: the row is gone
	Wanted string `json:"wanted,omitempty"`
	Reason string `json:"reason,omitempty"` // the server's word where it refused the update itself
	Token  string `json:"token,omitempty"`  // of the claim that it is about; events of older versions have none
}

// SetAside says that the row is quarantined: it can't be updated for now, for a reason that is the
// row's own. Somebody holds a lock on it, or a rule of the table refuses the update. The mirror tries
// the update again until it succeeds, and journals this once.
type SetAside struct {
	Wanted string `json:"wanted"` // the status that the row gets next
	Reason string `json:"reason"`
	Token  string `json:"token,omitempty"` // of the claim
}

// MasterName is the Name of a master's runs.
const MasterName = "jobd-master"

// Opened is the first event of every run of a worker, or of a master.
type Opened struct {
	Name    string         `json:"name"`
	Version string         `json:"version"`
	Pid     int            `json:"pid"`
	BootID  string         `json:"boot_id"`
	Targets map[string]int `json:"targets"` // concurrency by target

	Host     string   `json:"host,omitempty"`     // the machine's name; events of older versions have none
	Launcher []string `json:"launcher,omitempty"` // the command that runs a job, word by word

	Launchers map[string][]string `json:"launchers,omitempty"` // likewise, of targets with one of their own
}

// Closed is the last event of a run that ended in order.
type Closed struct {
	Reason string `json:"reason"`
}

// Paused says that targets start nothing until continued.
type Paused struct {
	Targets []string `json:"targets"`
	By      string   `json:"by"`
}

// Continued ends a pause.
type Continued struct {
	Targets []string `json:"targets"`
	By      string   `json:"by"`
}

// TargetAdded says that the worker serves one more target.
type TargetAdded struct {
	Target      string `json:"target"`
	Concurrency int    `json:"concurrency"`
	By          string `json:"by"`
}

// TargetRemoved says that the worker serves a target no more.
type TargetRemoved struct {
	Target string `json:"target"`
	By     string `json:"by"`
}

// ConcurrencySet says how many jobs of a target may run at once from now on.
type ConcurrencySet struct {
	Target      string `json:"target"`
	Concurrency int    `json:"concurrency"`
	By          string `json:"by"`
}

// Marked says which worker id (mark) the worker's tokens bear from now on. No two living workers have
// the same.
type Marked struct {
	Mark string `json:"mark"`
}

// Server says that the table was found on another server than before, and that the rows of the time
// before were compared with the journal.
type Server struct {
	Server string `json:"server"`           // what identifies it
	Before string `json:"before,omitempty"` // the one before; "" the first time
	Mended int    `json:"mended,omitempty"` // rows that were behind and were brought up to date
	Left   int    `json:"left,omitempty"`   // rows that differ, and were left as found
}

// Runner says that another runner has taken the place of one that did not end in order, and that the
// worker did not replace: it was killed, or another process listened in its place.
type Runner struct {
	Instance string `json:"instance"` // the runner that starts jobs from now on
	Before   string `json:"before"`   // the one before
}

// Requeued says why a job whose outcome is not known runs once more; its next attempt follows.
type Requeued struct {
	Reason string `json:"reason"`
	By     string `json:"by"`              // who wants it: the key of the configuration
	Token  string `json:"token,omitempty"` // of the claim
}

// Retried says that the row of a job that is done or ignored goes back to be run once more, because
// somebody wants it. It is appended inside the transaction that updates the row, before that; where
// the row was not updated, a Conflict with the Wanted "retried" follows.
type Retried struct {
	Target string `json:"target"`
	From   string `json:"from"`             // the row's status: done or ignored
	To     string `json:"to"`               // waiting or manual
	Result string `json:"result,omitempty"` // the row's, of a job that is done
	// Finished: the row's time_finished, in seconds since 1970: with From and Result it tells which
	// end it was.
	Finished int64  `json:"finished,omitempty"`
	By       string `json:"by"`
}

// Requested says that a client asked for jobs to be run by hand. It is durable together with the
// first thing that was done about it: the events that follow tell what became of each job. A
// request that changed nothing is a Refused. In a master's journal it is about any change, and durable
// before a worker is asked: the workers' journals tell what became of it.
type Requested struct {
	Request string  `json:"request,omitempty"` // its type, as on the wire; "": run-manual
	Jobs    []int64 `json:"jobs,omitempty"`    // that the client named, in ascending order
	More    int     `json:"more,omitempty"`    // how many it named beyond those
	By      string  `json:"by"`
	About   string  `json:"about,omitempty"` // what else was to be changed, cut to a readable length; of a master
	// Workers are asked for it, the first of them in alphabetical order, and Others beyond those; of a master.
	Workers []string `json:"workers,omitempty"`
	Others  int      `json:"others,omitempty"`
}

// Refused says that somebody asked for a change that was refused as a whole. Repeated requests are
// counted.
type Refused struct {
	Request string `json:"request"`         // its type, as on the wire; "reload" for SIGHUP
	About   string `json:"about,omitempty"` // what it was to change, cut to a readable length
	Reason  string `json:"reason"`          // what the client was told, cut likewise
	By      string `json:"by"`
	// Times: how many more such requests were refused up to now that have no event; 0: this is one.
	Times int `json:"times,omitempty"`
	// Jobs and More are as in Requested; of a master.
	Jobs []int64 `json:"jobs,omitempty"`
	More int     `json:"more,omitempty"`
}

// Reloaded says that the configuration was read again, and what that changed.
type Reloaded struct {
	File    string   `json:"file"`
	Digest  string   `json:"digest"`            // SHA-256 of the file's bytes, in hexadecimal
	Changed []string `json:"changed,omitempty"` // the keys whose values differ; never a value, which may be a password
	By      string   `json:"by"`

	Launcher []string `json:"launcher,omitempty"` // the new command, where that is another one

	Launchers map[string][]string `json:"launchers,omitempty"` // all commands of targets' own, where one is another
}

// Reapplied says that rows of the table are brought up to what a journal says, at somebody's wish.
// There are two of each: one before the first row is changed, and one, Ended, that counts them.
// Where the second is missing the worker was killed.
type Reapplied struct {
	From  uint64 `json:"from"` // the first event of the history that is applied once more
	To    uint64 `json:"to"`   // the last
	Rows  int    `json:"rows"` // that were changed; 0 in the first of the two
	By    string `json:"by"`
	Notes string `json:"notes,omitempty"` // what could not be known

	Since   int64  `json:"since,omitempty"`   // only jobs to which something happened since, in microseconds since 1970
	Journal string `json:"journal,omitempty"` // whose journal it is, where that is another, lost worker's
	Hash    string `json:"hash,omitempty"`    // of that journal's event To, in hexadecimal
	Refused int    `json:"refused,omitempty"` // rows that were left as found
	Ended   bool   `json:"ended,omitempty"`
}

// Retention says that segments leave the journal's folder. It is durable before the first of them
// does.
type Retention struct {
	First   int    `json:"first"`             // the number of the oldest segment that goes
	Last    int    `json:"last"`              // of the newest that goes; those behind it stay
	Seq     uint64 `json:"seq"`               // the newest event that goes
	Hash    string `json:"hash"`              // its hash, in hexadecimal
	Reason  string `json:"reason"`            // why, as in "older than 720h0m0s"
	Archive string `json:"archive,omitempty"` // the folder that they were copied to; "" where they were not
}

// Registered says that a worker has registered with the master whose journal this is, or registered
// other targets.
type Registered struct {
	Worker  string   `json:"worker"`
	Targets []string `json:"targets"`        // the first of them
	More    int      `json:"more,omitempty"` // how many it serves beyond those
	By      string   `json:"by"`             // the worker's address, and as whom it registered
	// Times: how often workers have registered or left since the event before of these kinds, without
	// an event.
	Times int `json:"times,omitempty"`
}

// Left says that a worker is registered no more with the master whose journal this is.
type Left struct {
	Worker string `json:"worker"`
	Reason string `json:"reason"` // why: it stops, or how its connection was lost
	By     string `json:"by"`
	Times  int    `json:"times,omitempty"` // as in Registered
}

// Plan is what a row says about time, in the columns of that name: as far as the table's
// configuration uses them. What is not used, and what is NULL, is zero.
type Plan struct {
	RunAt       int64  `json:"run_at,omitempty"`       // when a delayed row is due, in seconds since 1970
	PlannedAt   int64  `json:"planned_at,omitempty"`   // the planned start of the run, likewise
	Attempts    int64  `json:"attempts,omitempty"`     // starts of the run so far
	MaxAttempts int64  `json:"max_attempts,omitempty"` // the row's own; 0: as the configuration says
	Timeout     int64  `json:"timeout,omitempty"`      // the row's own, in seconds; 0: as the configuration says
	Schedule    string `json:"schedule,omitempty"`
	Zone        string `json:"time_zone,omitempty"` // the row's own; "": as the configuration says
}

// Century is the beginning of the year 2100, in seconds since 1970. Nobody plans so far ahead: a time from
// there on is a mistake.
const Century = 4102444800

// PausedAt is the run_at of a row whose schedule is paused: the last second that is no mistake. So no
// worker of any version runs it. Its planned_at stays.
const PausedAt = Century - 1

// Paused tells whether the row's schedule is paused.
func (p Plan) Paused() bool { return p.Schedule != "" && p.RunAt == PausedAt }

// Due is when delayed rows of some targets are due next, by the clock of the table's server.
type Due struct {
	Now  time.Time        // what that clock said; zero where it was not asked
	Next map[string]int64 // by target, in seconds since 1970; targets without delayed rows are not there
}

// Again says that a row comes back as delayed when its run has ended, and when.
type Again struct {
	RunAt     int64  `json:"run_at"`             // seconds since 1970
	PlannedAt int64  `json:"planned_at"`         // likewise
	Attempts  int64  `json:"attempts,omitempty"` // starts of the run so far; 0 where the next run is another one
	Why       string `json:"why"`                // AgainRetry or AgainSchedule
}

// Why a row comes back.
const (
	AgainRetry    = "retry"    // the run failed, and attempts are left
	AgainSchedule = "schedule" // it recurs
)

// Planned says that a delayed row which was not run is due at another time from now on. It is
// appended inside the transaction that updates the row, before that. A claim that meets the row as it
// was before, because that was not committed, plans it once more.
type Planned struct {
	Target string `json:"target"`
	From   Plan   `json:"from"` // what the row said
	To     Again  `json:"to"`   // what it says from now on
	Reason string `json:"reason"`
	By     string `json:"by,omitempty"` // who wanted it; "": the schedule did
}

// Replanned says that the schedule of a row was edited while it ran, so that what follows the end
// of that run was planned anew. It is appended before the row is updated.
type Replanned struct {
	Token    string `json:"token"` // of the claim
	Schedule string `json:"schedule,omitempty"`
	Zone     string `json:"time_zone,omitempty"`
	Again    *Again `json:"again,omitempty"` // nil: the row is done
	Note     string `json:"note,omitempty"`  // why that is so, where the new schedule can't be read; it stands in stderr
}

// Comes tells when the row of a job that has ended comes back; nil where it does not.
func (j Job) Comes() *Again {
	if j.Status != StatusDone {
		return nil
	}
	return j.Again
}

// first is the number of a claim's first start, but one: attempts of the same run that other claims
// have made come before it.
func (a Accepted) first() int {
	if a.Plan == nil {
		return 0
	}
	return int(a.Plan.Attempts)
}

// planned is a job whose row was planned anew, without a run.
func planned(id int64, p Planned, e Event) Job {
	return Job{ID: id, Target: p.Target, Status: StatusPlanned, Ended: e.Time, Reason: p.Reason, Again: &p.To}
}

// Cancelled says that somebody wants a claimed job not to run. One that was not started is at its
// end with that: its row becomes ignored. One that runs gets SIGTERM, and SIGKILL when the grace is
// over, each by a Signal of its own; its end is a Done.
type Cancelled struct {
	By    string `json:"by"`              // who asked
	Runs  bool   `json:"runs,omitempty"`  // it was started, now or in an attempt before: it ends as done
	Grace int64  `json:"grace,omitempty"` // microseconds between SIGTERM and SIGKILL, where it runs
	Token string `json:"token"`           // of the claim

	Schedule bool `json:"schedule,omitempty"` // of a row that recurs: it ends; else the run does
}

// Reason is why a cancelled job did not run, or not to its own end, in the words that stand in its
// row.
func (c Cancelled) Reason() string { return CancelledBy(c.By) }

// CancelledBy says who cancelled a job, by the addresses in by, without their ports: those tell a
// reader of the row nothing.
func CancelledBy(by string) string {
	words := strings.Fields(by)
	for i, word := range words {
		bare := strings.TrimSuffix(word, ")")
		if at, err := netip.ParseAddrPort(bare); err == nil {
			words[i] = at.Addr().String() + word[len(bare):]
		}
	}
	return cancelledBy + strings.Join(words, " ")
}

// cancelledBy begins the reason of an end that somebody wanted.
const cancelledBy = "cancelled by "

// WasCancelled tells whether a job ended because somebody had cancelled it: that is no failure of its
// own.
func (d Done) WasCancelled() bool { return strings.HasPrefix(d.Reason, cancelledBy) }

// EndedByStop is the reason of an end that the stop of a worker has caused.
func EndedByStop(worker string) string { return endedByStop + worker + " was stopped" }

// endedByStop begins that reason.
const endedByStop = "ended because worker "

// StoppedIn is the reason of such an end as it stands in a reason or a note; "" in any other.
func StoppedIn(text string) string {
	text, _, _ = strings.Cut(strings.TrimSuffix(strings.TrimPrefix(text, "[jobd: "), "]"), "; ")
	if !strings.HasPrefix(text, endedByStop) {
		return ""
	}
	return text
}

// UnknownOutcome begins the reason of a job of which nobody saw the end: the event tells when that was noticed.
const UnknownOutcome = "outcome unknown: "

// Cancellation is what the journal knows of somebody's wish that a job does not run.
type Cancellation struct {
	Time  Moment `json:"time"`
	By    string `json:"by"`
	Grace int64  `json:"grace"` // microseconds between SIGTERM and SIGKILL, where it runs

	Schedule bool `json:"schedule,omitempty"` // of a row that recurs: it ends; else the run does
}

// Deadline is when a job that runs gets SIGKILL.
func (c Cancellation) Deadline() time.Time {
	return c.Time.Add(time.Duration(c.Grace) * time.Microsecond)
}

// cancel ends a job that was not started, or marks one that runs.
func (j Job) cancel(p Cancelled, e Event) (Job, error) {
	j.Cancelled = &Cancellation{Time: Moment{e.Time}, By: p.By, Grace: p.Grace, Schedule: p.Schedule}
	switch {
	case p.Runs && j.Status == StatusAccepted:
		return Job{}, &IllegalError{Job: j.ID, kind: KindCancelled, status: j.Status, detail: "it does not run"}
	case !p.Runs && j.Status == StatusRunning:
		return Job{}, &IllegalError{Job: j.ID, kind: KindCancelled, status: j.Status, detail: "it runs"}
	case !p.Runs:
		j.Status, j.Ended, j.Reason = StatusIgnored, e.Time, p.Reason()
	}
	return j, nil
}

// ignored is a job of which nobody made a claim, and that is not to be run.
func ignored(id int64, p Ignored, at time.Time) Job {
	j := Job{ID: id, Target: p.Target, Status: StatusIgnored, Ended: at, Reason: p.Reason}
	if p.By != "" {
		j.Cancelled = &Cancellation{Time: Moment{at}, By: p.By}
	}
	return j
}

// Row is what the jobs table said of one job at the moment somebody looked.
// It is the vocabulary that a claim is decided with, and what a Conflict found.
type Row struct {
	Job    int64  `json:"-"`
	Target string `json:"target"`
	Status string `json:"status"` // waiting, manual, accepted, running, done, ignored or delayed
	Owner  string `json:"owner"`  // the owner column's content; "" where it is NULL or empty

	// Finished and Result are time_finished, in seconds since 1970, and result of a row that was read
	// under a lock; 0 and "" where there is none.
	Finished int64  `json:"-"`
	Result   string `json:"-"`

	// Created is time_created of a row that a claim has locked, in seconds since 1970; 0 where the
	// column tells no such number, or the row was read for something else.
	Created int64 `json:"-"`

	// Plan is what the row says about time; nil where the table uses no such columns.
	Plan *Plan `json:"-"`

	// Now is what the clock of the table's server said when the row was read; zero where it was read
	// for something that needs no time.
	Now time.Time `json:"-"`
}

// WantedRetried is the Wanted of a Conflict that takes a Retried back.
const WantedRetried = "retried"

// The words of the table's status column.
const (
	RowWaiting  = "waiting"
	RowManual   = "manual"
	RowAccepted = "accepted"
	RowRunning  = "running"
	RowDone     = "done"
	RowIgnored  = "ignored"
	RowDelayed  = "delayed" // not before its time; only where the configuration uses such columns
)
