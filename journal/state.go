package journal

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Status is where a job stands according to the journal.
type Status string

// The statuses. A job that the journal never mentioned has StatusNone.
const (
	StatusNone     Status = ""
	StatusAccepted Status = "accepted" // claimed, waits for a slot
	StatusStarting Status = "starting" // running is journalled, no process is known yet
	StatusRunning  Status = "running"  // its process was started
	StatusDone     Status = "done"
	StatusReleased Status = "released" // the claim was given up, or never won
	StatusIgnored  Status = "ignored"
	StatusRetried  Status = "retried"  // its row was set back to be run once more, by whichever worker
	StatusPlanned  Status = "planned"  // its row was not run, and is due at another time from now on
	StatusConflict Status = "conflict" // somebody else took the row before the start
)

// Ended reports whether a job of this status needs nothing more.
func (s Status) Ended() bool {
	return s != StatusAccepted && s != StatusStarting && s != StatusRunning
}

// Job is what the journal knows of one job. For a job that was claimed more than
// once it is about the newest claim. Its JSON form, in which a checkpoint has it, is of a job under
// way: what only a job at its end has is not there. The order of its fields is that of the bytes.
type Job struct {
	ID      int64    `json:"id"`
	Target  string   `json:"target"`
	Manual  bool     `json:"manual,omitempty"`
	Token   string   `json:"token"` // the claim's token
	Status  Status   `json:"status"`
	Attempt int      `json:"attempt,omitempty"` // of the newest start, from 1; 0 before the first
	Runner  string   `json:"runner,omitempty"`  // the runner's instance that was to do it
	Claimed bool     `json:"claimed,omitempty"` // the newest start came with the claim, before that was committed
	Process *Started `json:"process,omitempty"` // the newest start's process, once it is known
	Lost    bool     `json:"lost,omitempty"`    // a conflict was met while its process ran

	Accepted Moment `json:"accepted,omitzero"`
	Running  Moment `json:"running,omitzero"` // when the newest start was journalled

	// Cancelled: that somebody wants, or wanted, it not to run; nil: nobody does. Older versions have
	// none, and nothing of what follows.
	Cancelled *Cancellation `json:"cancelled,omitempty"`
	From      string        `json:"from,omitempty"`       // RowDelayed where the claim found the row so; ""
	Plan      *Plan         `json:"plan,omitempty"`       // what the row said about time at its claim; nil: nothing
	PlannedAt int64         `json:"planned_at,omitempty"` // the planned start of the run, in seconds since 1970; or 0
	Timeout   int64         `json:"timeout,omitempty"`    // for how many seconds the newest start may run; 0: no limit
	KillAfter int64         `json:"kill_after,omitempty"` // how many seconds later it gets SIGKILL
	// Ends: a signal that somebody had sent may have ended the newest start: it is not tried again
	// then.
	Ends     bool   `json:"ends,omitempty"`
	Executor string `json:"executor,omitempty"` // what was to run it; "": a process of its own

	Ended  time.Time `json:"-"`
	End    uint64    `json:"-"` // the event with which it came to its end; 0 while it is under way
	Result string    `json:"-"` // of a job that is done: "ok" or "fail"
	Code   *int      `json:"-"`
	Signal string    `json:"-"`
	Again  *Again    `json:"-"` // the row comes back, and when; nil: it does not
	Reason string    `json:"-"` // why it was released, ignored or could not be, or is done without an own outcome

	Retried *Retried `json:"-"` // of a job whose row was set back: which end of it that was
	Before  *Job     `json:"-"` // of such a job: as it was before, which a conflict brings back; nil: not known
}

// Target is what the journal knows of a target that the worker serves.
type Target struct {
	Concurrency int
	Paused      bool
}

// State is a fold over the journal: what held after its newest event. The zero
// value is the state before the first event. It is not safe for concurrent use.
type State struct {
	Seq     uint64    // the newest event that went in
	Hash    Hash      // its hash
	Time    time.Time // its time
	Name    string    // the worker's name
	Open    bool      // a run of the worker has begun and not ended in order
	Mark    string    // the worker id that its tokens bear; "" where it has none yet
	Server  string    // the database server that the table was last found on; "" where that is not known
	Jobs    map[int64]*Job
	Targets map[string]Target
	// Removed: what retention has taken; nil where older versions wrote all there is, which did not
	// journal that.
	Removed *Removal

	// KeepEnded keeps jobs that are at their end, to look at history. Without
	// it memory is bounded by the number of jobs under way.
	KeepEnded bool
}

// IllegalError says that an event contradicts what the journal holds.
type IllegalError struct {
	Job    int64
	kind   Kind
	status Status // the job's status before the event
	detail string
}

// Error implements error.
func (e *IllegalError) Error() string {
	status := e.status
	if status == StatusNone {
		status = "not the worker's"
	}
	text := fmt.Sprintf("illegal transition: job %d is %s, and %q cannot follow", e.Job, status, e.kind)
	if e.Job == 0 {
		text = fmt.Sprintf("illegal transition: %q", e.kind)
	}
	if e.detail != "" {
		text += ": " + e.detail
	}
	return text
}

// Apply takes the next event into the state, or refuses it, unchanged, when the
// event is not the next one or contradicts the state.
func (s *State) Apply(e Event) error {
	if e.Seq != s.Seq+1 {
		return fmt.Errorf("event %d follows event %d", e.Seq, s.Seq)
	}
	if e.Time.Before(s.Time) {
		return fmt.Errorf("event %d: time runs backwards: %s after %s", e.Seq, stamp(e.Time), stamp(s.Time))
	}
	if e.Job == 0 {
		if err := s.applyWorker(e); err != nil {
			return err
		}
	} else {
		before := s.Job(e.Job)
		next, err := before.next(e)
		if err != nil {
			return err
		}
		if !before.Status.Ended() && next.Status.Ended() {
			next.End = e.Seq
		}
		s.put(&next)
	}
	s.Seq, s.Time, s.Hash = e.Seq, e.Time, e.Hash
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

// put takes in what became of a job.
func (s *State) put(job *Job) {
	if s.Jobs == nil {
		s.Jobs = make(map[int64]*Job)
	}
	if job.Status.Ended() && !s.KeepEnded {
		delete(s.Jobs, job.ID)
	} else {
		s.Jobs[job.ID] = job
	}
}

// Job is what is known of one job; a zero Job (with its ID) where nothing is.
func (s *State) Job(id int64) Job {
	if job, ok := s.Jobs[id]; ok {
		return *job
	}
	return Job{ID: id}
}

// applyWorker takes in an event about the worker itself.
func (s *State) applyWorker(e Event) error {
	if s.Targets == nil {
		s.Targets = make(map[string]Target)
	}
	switch p := e.Payload.(type) {
	case Opened:
		s.Name, s.Open = p.Name, true
		clear(s.Targets)
		for name, n := range p.Targets {
			s.Targets[name] = Target{Concurrency: n}
		}
	case Closed:
		s.Open = false
	case Paused:
		s.pause(p.Targets, true)
	case Continued:
		s.pause(p.Targets, false)
	case TargetAdded:
		s.Targets[p.Target] = Target{Concurrency: p.Concurrency}
	case TargetRemoved:
		delete(s.Targets, p.Target)
	case Requested, Refused, Reloaded, Reapplied, Runner, Registered, Left: // change nothing but are part of the history
	case Retention:
		s.Removed = s.Removed.After(p)
	case Marked:
		s.Mark = p.Mark
	case Server:
		s.Server = p.Server
	case ConcurrencySet:
		t := s.Targets[p.Target]
		t.Concurrency = p.Concurrency
		s.Targets[p.Target] = t
	default:
		return &IllegalError{kind: e.Kind(), detail: fmt.Sprintf("a %T is not about the worker: it needs a job", e.Payload)}
	}
	return nil
}

func (s *State) pause(names []string, paused bool) {
	for _, name := range names {
		if t, ok := s.Targets[name]; ok {
			t.Paused = paused
			s.Targets[name] = t
		}
	}
}

// Unfinished lists the jobs that are not at their end, in the order of their ids.
func (s *State) Unfinished() []Job {
	var jobs []Job
	for _, id := range slices.Sorted(maps.Keys(s.Jobs)) {
		if job := s.Jobs[id]; !job.Status.Ended() {
			jobs = append(jobs, *job)
		}
	}
	return jobs
}

// Stage is what events do to a state that must not change before they are durable.
type Stage struct {
	base *State
	jobs map[int64]*Job // jobs as the staged events leave them
}

// Stage begins a stage on top of the state, for about as many events as size says. The state must
// not change until it is taken or dropped.
func (s *State) Stage(size int) *Stage {
	return &Stage{base: s, jobs: make(map[int64]*Job, size)}
}

// Add stages events, all or none: it refuses those of which one contradicts the state or what is
// staged before it, and gives the number of that one.
func (s *Stage) Add(events ...Event) (refused int, err error) {
	undo := make([]*Job, 0, len(events))
	for i := range events {
		before, err := s.add(&events[i])
		if err != nil {
			for _, job := range slices.Backward(undo) {
				s.jobs[job.ID] = job
			}
			return i, err
		}
		if before != nil {
			undo = append(undo, before)
		}
	}
	return 0, nil
}

// add stages one event, and gives its job as it was before.
func (s *Stage) add(e *Event) (before *Job, err error) {
	if e.Job == 0 {
		return nil, (&State{}).applyWorker(*e)
	}
	before, ok := s.jobs[e.Job]
	if !ok {
		before, ok = s.base.Jobs[e.Job]
	}
	if !ok {
		before = &Job{ID: e.Job}
	}
	next, err := before.next(*e)
	if err == nil {
		s.jobs[e.Job] = &next
	}
	return before, err
}

// Take moves the state on by what was staged on top of it: these events.
func (s *State) Take(staged *Stage, events []Event) error {
	for _, e := range events {
		if e.Job == 0 {
			if err := s.applyWorker(e); err != nil {
				return err
			}
		}
	}
	for _, job := range staged.jobs {
		s.put(job)
	}
	if n := len(events); n > 0 {
		last := &events[n-1]
		s.Seq, s.Time, s.Hash = last.Seq, last.Time, last.Hash
	}
	return nil
}

// Removal is what retention has taken so far, as the history itself tells: by retention events, and
// by the checkpoints that carry it on when the segments with these events are gone themselves.
type Removal struct {
	Segment int    `json:"segment,omitempty"` // the newest that is gone; 0: none
	Seq     uint64 `json:"seq,omitempty"`     // its last event
	Hash    string `json:"hash,omitempty"`    // that event's hash, in hexadecimal
	Noted   int    `json:"noted,omitempty"`   // the segments up to this one went before such events existed: only a note said so
}

// After is what is gone after one more retention event. The first one of a journal that older
// versions began says what went before such events existed. Removals are replaced, never changed.
func (r *Removal) After(p Retention) *Removal {
	next := &Removal{Segment: p.Last, Seq: p.Seq, Hash: p.Hash}
	switch {
	case r == nil:
		next.Noted = p.Last
	case p.Last <= r.Segment:
		return r
	default:
		next.Noted = r.Noted
	}
	return next
}

// Last is the number of the newest segment that is gone; 0: none.
func (r *Removal) Last() int {
	if r == nil {
		return 0
	}
	return r.Segment
}

// checkpoint is the JSON form of a state. It is canonical: equal states give equal bytes.
type checkpoint struct {
	Time    Moment            `json:"time,omitzero"`
	Name    string            `json:"name,omitempty"`
	Open    bool              `json:"open,omitempty"`
	Mark    string            `json:"mark,omitempty"`
	Server  string            `json:"server,omitempty"`
	Targets map[string]Target `json:"targets,omitempty"`
	Jobs    []Job             `json:"jobs,omitempty"` // those not at their end, by id
	// Removed: {} in journals that nothing was removed from; older versions have none.
	Removed *Removal `json:"removed,omitempty"`
}

func EncodeCheckpoint(s *State) ([]byte, error) {
	c := checkpoint{
		Time: Moment{s.Time}, Name: s.Name, Open: s.Open, Mark: s.Mark, Server: s.Server,
		Targets: s.Targets, Removed: s.Removed,
	}
	for _, id := range slices.Sorted(maps.Keys(s.Jobs)) {
		if job := s.Jobs[id]; !job.Status.Ended() {
			c.Jobs = append(c.Jobs, *job)
		}
	}
	return json.Marshal(c)
}

func DecodeCheckpoint(data []byte) (*State, error) {
	var c checkpoint
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, err
	}
	s := &State{
		Time: c.Time.Time, Name: c.Name, Open: c.Open, Mark: c.Mark, Server: c.Server,
		Targets: c.Targets, Removed: c.Removed,
	}
	if len(c.Jobs) > 0 {
		s.Jobs = make(map[int64]*Job, len(c.Jobs))
	}
	for _, job := range c.Jobs {
		if job.Status.Ended() {
			return nil, fmt.Errorf("job %d is %q, not under way", job.ID, job.Status)
		}
		s.Jobs[job.ID] = &job
	}
	return s, nil
}

// Moment is a time whose JSON form is a number: microseconds since 1970, 0 for no time.
type Moment struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (m Moment) MarshalJSON() ([]byte, error) {
	if m.IsZero() {
		return []byte("0"), nil
	}
	return json.Marshal(m.UnixMicro())
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Moment) UnmarshalJSON(data []byte) error {
	var micros int64
	err := json.Unmarshal(data, &micros)
	m.Time = moment(micros)
	return err
}

// moment is a time in microseconds since 1970; 0 stands for no time.
func moment(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}
