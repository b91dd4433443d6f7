package exec

import (
	"context"
	"slices"
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// TargetStatus is what clients are told of a target.
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
	// NextDue: when its next delayed row is due, as far as claims have learned, unix seconds; 0: none
	// is known.
	NextDue int64 `json:"nextDue,omitempty"`

	// Configured is how many slots the configuration gives it, where they are others: an operator has set
	// them, until the next reload or restart. 0: the configuration does not name the target.
	Configured *int `json:"configured,omitempty"`
}

// Status is what clients are told of the worker.
type Status struct {
	Targets     map[string]TargetStatus
	Clients     int              // manual jobs that a client waits for
	UnownedRows int              // rows of our targets that are under way and belong to no worker
	Doubted     int              // claims of which the table has not told yet whether they were won
	Quarantined []QuarantinedRow // rows that can't be claimed for now, the oldest first
	Launcher    *Outage          // why no job can be started; nil where nothing is wrong
	Outage      *Outage          // why nothing at all is claimed; nil where nothing is wrong
	Returned    time.Time        // when the last outage ended in which the table was out of reach; zero: there was none
	Nameless    string           // why this worker does not hold its name and worker id; "" where it does
	Executors   []PoolStanding   // what runs jobs otherwise than in a process for each
}

// Status tells how the worker stands.
func (w *Worker) Status() Status {
	away, now, executors := IsClosed(w.Mirror.Away()), time.Now(), w.executors()
	w.mu.Lock()
	defer w.mu.Unlock()
	s := Status{
		Executors: executors,
		Targets:   make(map[string]TargetStatus, len(w.targets)), Clients: w.board.Clients(), UnownedRows: w.unowned,
		Doubted: w.board.Doubts(), Quarantined: w.quarantinedRows(),
		Outage: w.outage.status(), Returned: w.outage.returned,
		Nameless: w.identity.missing(),
	}
	if why, since := w.board.Launcher().Why(); why != "" {
		s.Launcher = &Outage{Why: why, Since: since}
	}
	for name, t := range w.targets {
		s.Targets[name] = w.targetStatus(t, away, now)
	}
	return s
}

// targetStatus is what clients are told of a target. Callers must hold w.mu.
func (w *Worker) targetStatus(t *target, away bool, now time.Time) TargetStatus {
	rates := t.Rates(now)
	status := TargetStatus{
		Paused: t.Paused(), Concurrency: t.Concurrency(), Length: t.Length(), Why: w.hindrance(t, away).Why,
		Running: t.Running(), Prefetched: t.Prefetched(),
		Started: rates.Started, Ended: rates.Ended, Failed: rates.Failed, NextDue: t.next,
	}
	if since, by := t.PausedBy(); t.Paused() {
		status.PausedSince, status.PausedBy = since.UnixMilli(), by
	}
	if slots := w.Targets[t.Name()]; slots != status.Concurrency {
		status.Configured = &slots
	}
	return status
}

// TargetNames lists the names of the targets served, in order.
func (w *Worker) TargetNames() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.board.Names()
}

// Running lists what runs of some targets (none: all), with what that uses.
func (w *Worker) Running(targets []string) (running []JobStanding) {
	w.mu.Lock()
	jobs := ids(w.board.Select(func(j *board.Job) bool {
		return j.Process() != nil && (len(targets) == 0 || slices.Contains(targets, j.Target()))
	}))
	w.mu.Unlock()
	var started []journal.Started
	explained := w.Explain(jobs)
	for _, id := range jobs {
		if s := explained[id].Standing; s != nil && s.Process != nil { // else it has ended meanwhile
			running, started = append(running, *s), append(started, s.Started)
		}
	}
	for i, used := range w.Watcher.Usage(started) {
		r := &running[i]
		if r.Usage = used; used != nil && r.Executor.Shares() { // the process was there before the job
			used.Ran = min(used.Ran, time.Since(r.Began))
		}
	}
	return running
}

// adopted tells whether a process goes on without its runner.
func adopted(p Process) bool {
	stray, ok := p.(interface{ Adopted() bool })
	return ok && stray.Adopted()
}

// JobOutput is what a job that is under way has written.
type JobOutput struct {
	Attempt int
	Started bool // its start was asked for; else it has written nothing
	Adopted bool // its runner is gone
	Written Written
}

// Output gives a part of what a job has written, of its newest attempt where none is named. It
// finds nothing where the job is not under way here: then the journal has its output, if anybody.
func (w *Worker) Output(ctx context.Context, g Glance) (out JobOutput, found bool, err error) {
	j, process := w.underWay(g.Job)
	if j == nil {
		return out, false, nil
	}
	now := g
	now.Token = j.Token()
	if now.Attempt == 0 {
		now.Attempt = j.Attempt()
	}
	out = JobOutput{Attempt: now.Attempt, Started: process != nil || now.Attempt < j.Attempt()}
	switch {
	case now.Attempt > j.Attempt():
		return out, false, nil
	case now.Attempt < j.Attempt():
		out.Written, err = w.Watcher.Written(ctx, now) // of an attempt whose runner is gone
		return out, true, err
	case process == nil:
		return out, true, nil
	}
	out.Adopted = adopted(process)
	if !IsClosed(process.Ended()) {
		if out.Written, err = w.Watcher.Written(ctx, now); err == nil {
			return out, true, nil
		}
		if !IsClosed(process.Ended()) {
			return out, true, err
		}
	}
	done, _ := process.Outcome()
	out.Written = Written{PartOf(done.Stdout, now.From[0], now.Most), PartOf(done.Stderr, now.From[1], now.Most)}
	return out, true, nil
}

// underWay finds a job and its process, which it may not have.
func (w *Worker) underWay(id int64) (j *board.Job, process Process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j = w.board.Job(id); j != nil {
		process, _ = j.Process().(Process)
	}
	return j, process
}

// PartOf is a part of what was kept of a stream.
func PartOf(output journal.Output, from int64, most int) Part {
	kept := int64(len(output.Kept))
	if from < 0 {
		from = max(from+kept, 0)
	}
	if from >= kept {
		return Part{At: output.Size, Size: output.Size}
	}
	return Part{At: from, Bytes: output.Kept[from:min(from+int64(most), kept)], Size: output.Size}
}

// RunTime is what the journal says about the time of a job under way. What is not known, and what is
// not, is zero.
type RunTime struct {
	Plan      *journal.Plan // of its row, when it was claimed; nil where the table uses nothing of that
	PlannedAt int64         // the planned start of the run, in seconds since 1970
	// Deadline: when its newest start has run for as long as it may; zero: nothing limits it, or it
	// has not been started.
	Deadline time.Time
}

// Recurs tells whether the job's row has a schedule.
func (t RunTime) Recurs() bool { return t.Plan != nil && t.Plan.Schedule != "" }

// runTime is what is known of a job.
func runTime(known journal.Job) RunTime {
	t := RunTime{Plan: known.Plan, PlannedAt: known.PlannedAt}
	if known.Timeout > 0 && !known.Running.IsZero() {
		t.Deadline = known.Running.Add(time.Duration(known.Timeout) * time.Second)
	}
	return t
}

// TermsOf tells what the configuration says of the jobs of a target at present, and in which zone
// schedules are read whose rows name none.
func (w *Worker) TermsOf(target string) (terms Terms, zone *time.Location) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if zone = w.Zone; zone == nil {
		zone = time.UTC
	}
	return w.Terms[target], zone
}

// ServerTime is what the clock of the table's server says, by which rows are due; as far as that is
// not known, the worker's own.
func (w *Worker) ServerTime() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock.now(time.Now())
}

// Explanation is what a worker knows of one job from memory: where it stands, and whether its row is
// quarantined.
type Explanation struct {
	Standing    *JobStanding    // nil: it is not under way here
	Quarantined *QuarantinedRow // it can't be claimed for now; nil: nothing is known against that
}

// JobStanding is where a job stands. What is not known is zero.
type JobStanding struct {
	board.Standing
	ID        int64
	Claimed   time.Time
	Started   journal.Started // its process; of a request: where it was sent
	Adopted   bool            // its runner is gone: nobody will know how it ends
	Cancelled bool            // somebody wants it to end
	Executor  Mode            // ModeProcess, or what else runs it
	Time      RunTime
	Usage     *Usage // of what Running lists
}

// TargetStanding is how a target that the worker serves stands.
type TargetStanding struct {
	TargetStatus
	Hindrance
	Room  int  // how many more jobs would be claimed
	Looks bool // a look at the table is due, or under way
}

// ExplainTargets tells how these targets stand, those of them that are served. It changes nothing.
func (w *Worker) ExplainTargets(names []string) map[string]TargetStanding {
	away, now := IsClosed(w.Mirror.Away()), time.Now()
	standings := make(map[string]TargetStanding, len(names))
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		if t, served := w.targets[name]; served {
			standings[name] = TargetStanding{
				TargetStatus: w.targetStatus(t, away, now), Hindrance: w.hindrance(t, away),
				Room: t.Room(w.Prefetch), Looks: t.wanted() || !t.look.Due.IsZero(),
			}
		}
	}
	return standings
}

// Explain tells what the worker knows of jobs. It changes nothing.
func (w *Worker) Explain(ids []int64) map[int64]Explanation {
	claimed := make(map[int64]journal.Job, len(ids))
	w.Recorder.View(func(s *journal.State) {
		for _, id := range ids {
			claimed[id] = s.Job(id)
		}
	})
	explained := make(map[int64]Explanation, len(ids))
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		var e Explanation
		if s, known := w.board.Standing(id); known {
			e.Standing = &JobStanding{Standing: s, ID: id, Claimed: claimed[id].Accepted.Time, Time: runTime(claimed[id])}
			e.Standing.identify(claimed[id])
			if j := w.board.Job(id); j != nil {
				e.Standing.Cancelled, e.Standing.Executor = j.IsCancelled(), modeOf(j.Executor())
			}
		}
		if q := w.quarantined[id]; q != nil {
			row := q.QuarantinedRow
			e.Quarantined = &row
		}
		explained[id] = e
	}
	return explained
}

// identify says which process a job has, as the process itself tells, or the journal.
func (s *JobStanding) identify(known journal.Job) {
	process, has := s.Process.(Process)
	if has && IsClosed(process.Begun()) {
		s.Started = process.Started()
	}
	if s.Started == (journal.Started{}) && known.Process != nil && known.Attempt == s.Attempt {
		s.Started = *known.Process
	}
	s.Adopted = adopted(process)
	if waiting, is := process.(interface{ WaitsFor() string }); is && s.Phase == board.Asked {
		s.Reason = waiting.WaitsFor()
	}
}
