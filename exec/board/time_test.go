package board

import (
	"pgregory.net/rapid"

	"jobd/journal"
)

// times are the model's books of rows that come at a time, and come back.
type times struct {
	until      int64          // not 0: what is due later is let alone, so that there is an end
	turned     int64          // when the newest turn was made
	started    map[run]uint64 // the announcement of each start that was asked for
	hands      map[int64]bool // rows that are run by hand
	generation map[int64]int  // how often a row was inserted, or reset by somebody
}

// run is one attempt of one run of a row.
type run struct {
	job        int64
	generation int
	plannedAt  int64
	attempt    int
}

// plan is what a new row says about time.
func (w *world) plan() *journal.Plan {
	plan := journal.Plan{
		Schedule:    rapid.SampledFrom([]string{"", "", "every 90s", "hourly :15", "* * * * *", "daily 03:00"}).Draw(w.T, "schedule"),
		Zone:        rapid.SampledFrom([]string{"", "Asia/Tokyo"}).Draw(w.T, "zone"),
		MaxAttempts: int64(rapid.SampledFrom([]int{0, 0, 1, 2, 4}).Draw(w.T, "max attempts")),
	}
	if ago := rapid.IntRange(0, 3).Draw(w.T, "due for"); ago > 0 {
		plan.RunAt = w.now.Unix() - int64(ago*ago*100)
	}
	return &plan
}

// isDue tells whether a claim would find a row.
func (w *world) isDue(row journal.Row) bool {
	now := w.now.Unix()
	if w.times.until != 0 {
		now = min(now, w.times.until)
	}
	return row.Status == journal.RowWaiting || row.Status == journal.RowDelayed && row.Plan.RunAt <= now
}

// The mirror's and the claims' updates.

func comesBack(row journal.Row, again *journal.Again) journal.Row {
	if again != nil {
		plan := *row.Plan
		plan.RunAt, plan.PlannedAt, plan.Attempts = again.RunAt, again.PlannedAt, again.Attempts
		row.Status, row.Plan = journal.RowDelayed, &plan
	}
	return row
}

func starts(row journal.Row, p journal.Running) journal.Row {
	plan := *row.Plan
	plan.Attempts, row.Status = int64(p.Attempt), journal.RowRunning
	row.Plan = &plan
	return row
}

func plansAt(row journal.Row, at int64) journal.Row {
	if plan := *row.Plan; at != 0 {
		plan.PlannedAt = at
		row.Plan = &plan
	}
	return row
}

// outcome is how a process ends.
func (w *world) outcome() journal.Done {
	code := rapid.SampledFrom([]int{0, 0, 0, 1, 1, exDataErr}).Draw(w.T, "exit code")
	if code == 0 {
		return journal.Done{Result: "ok", Code: &code}
	}
	return journal.Done{Result: "fail", Code: &code}
}

// most is how often a run is started at most.
func (w *world) most(claim journal.Accepted) int {
	most := max(1, w.config.Timing.Terms[claim.Target].Attempts)
	if claim.Plan.MaxAttempts > 0 {
		most = int(claim.Plan.MaxAttempts)
	} else if w.config.Timing.Terms[claim.Target].Attempts == 0 && w.config.Requeue {
		most = w.config.MaxAttempts
	}
	if claim.Manual {
		most = before(claim) + w.config.MaxAttempts
	}
	return most
}

// startsRun checks that each attempt of a run is started once; but for starts that did not happen.
func (w *world) startsRun(s Start) {
	this := run{s.id, w.times.generation[s.id], s.claim.PlannedAt, s.attempt}
	if s.claim.Manual || w.rows[s.id].Owner != s.claim.Token {
		return
	}
	if seq, before := w.times.started[this]; before && !w.withdrawn[seq] {
		w.Fatalf("%+v is started a second time: by events %d and %d", this, seq, s.Seq)
	}
	w.times.started[this] = s.Seq
}

// checkTime checks what is about to be journalled: attempts come in order and are no more than there
// may be, nothing is run before its time, and what recurs comes back.
func (w *world) checkTime(e journal.Event) {
	known, now := w.state.Job(e.Job), w.now.Unix()
	if known.Status.Ended() && (e.Kind() == journal.KindRunning || e.Kind() == journal.KindDone) {
		return // which the journal refuses
	}
	switch p := e.Payload.(type) {
	case journal.Accepted:
		if p.From == journal.RowDelayed && p.Plan.RunAt > now {
			w.Fatalf("job %d is claimed before it is due", e.Job)
		}
	case journal.Running:
		if claim := claimOf(known); p.Attempt > w.most(claim) {
			w.Fatalf("job %d is started %d times, of %d", e.Job, p.Attempt, w.most(claim))
		} else if !w.config.Requeue && p.Attempt != First(claim) {
			w.Fatalf("job %d is started by its claim for the second time, attempt %d", e.Job, p.Attempt)
		}
	case journal.Planned:
		if p.From.Schedule == "" || p.To.RunAt <= now {
			w.Fatalf("job %d is planned anew: %+v", e.Job, p)
		}
	case journal.Done:
		recurs := known.Plan.Schedule != "" && !known.Manual && (known.Cancelled == nil || !known.Cancelled.Schedule)
		switch again := p.Again; {
		case again == nil && recurs:
			w.Fatalf("job %d recurs, and ends for good: %+v", e.Job, p)
		case again == nil:
		case known.Manual, known.Cancelled != nil && (known.Cancelled.Schedule || again.Why == journal.AgainRetry):
			w.Fatalf("job %d comes back: %+v", e.Job, again)
		case again.RunAt <= w.times.turned:
			w.Fatalf("job %d is due at once: %+v", e.Job, again)
		case again.Why == journal.AgainSchedule && (!recurs || again.Attempts != 0 || again.PlannedAt != again.RunAt || again.RunAt <= known.PlannedAt):
			w.Fatalf("job %d, planned for %d, comes back for a run: %+v", e.Job, known.PlannedAt, again)
		case again.Why == journal.AgainRetry && (p.Result == "ok" || hopeless(p) || int(again.Attempts) != known.Attempt || known.Attempt >= w.most(claimOf(known))):
			w.Fatalf("job %d, attempt %d with %+v, comes back for another one: %+v", e.Job, known.Attempt, p, again)
		}
	}
}

// checkRows checks, when everything has come to its end, that no row was lost: what is delayed has a
// time to come, and what recurs is delayed still.
func (w *world) checkRows() {
	if w.stopped {
		return
	}
	for id, row := range w.rows {
		switch row.Status {
		case journal.RowDelayed:
			if row.Plan.RunAt <= w.times.until {
				w.Fatalf("row %d is due for ever: %+v", id, *row.Plan)
			}
		case journal.RowWaiting:
			w.Fatalf("row %d waits for ever", id)
		case journal.RowAccepted, journal.RowRunning:
			if w.state.Job(id).Status != journal.StatusConflict && !w.hadConflict(id) {
				w.Fatalf("row %d is %s for ever", id, row.Status)
			}
		}
	}
}

// hadConflict tells whether the mirror has once found the row changed by somebody else: nobody writes
// to it any more then.
func (w *world) hadConflict(id int64) bool {
	for _, e := range w.events {
		if e.Job == id && e.Kind() == journal.KindConflict {
			return true
		}
	}
	return false
}
