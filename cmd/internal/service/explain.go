package service

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/board"
	"jobd/journal"
	"jobd/journal/replay"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store"
)

// Table is the jobs table as those see it who ask about jobs.
type Table interface {
	counts
	store.Explainer
	store.Timekeeper
	Unclaimed(ctx context.Context, targets []string, created, after int64, limit int) (ids []int64, err error)
	Free(ctx context.Context, status string, targets []string, before int64, limit int) ([]*store.Seen, error)
}

// What one explain may take. A master waits 5 s for the answer. The journal has what is left of the
// time: a second at least.
const (
	explainTime  = 4 * time.Second
	tableTime    = 2 * time.Second // of these, for what is read without locks
	mostLooking  = 4               // at once, to explain jobs or only to tell what their rows say; the others wait
	mostNamed    = 100
	longestTail  = 16 << 10 // bytes of a job's output, if one is asked about
	shortestTail = 1 << 10
	mostEvents   = 100 // of a job, the newest
)

// explanation is one answer to explain under way.
type explanation struct {
	*Service
	query  api.ExplainQuery
	has    func(target string) bool // whether who asks has it; nil: all
	ids    []int64
	rows   map[int64]*store.Detail
	answer api.Explained
}

// Explain tells all that the worker knows of jobs. It asks the table first, then the worker, then
// the journal: what happens meanwhile shows in a later one, and a job is never behind its row.
func (s *Service) Explain(ctx context.Context, from Call, q api.ExplainQuery) (api.Explained, error) {
	ctx, cancel := context.WithTimeout(ctx, explainTime)
	defer cancel()
	done, err := s.Look(ctx)
	if err != nil {
		return api.Explained{}, err
	}
	defer done()
	x := &explanation{Service: s, query: q, has: from.Who.Has()}
	for _, id := range q.IDs {
		if !slices.Contains(x.ids, int64(id)) {
			x.ids = append(x.ids, int64(id))
			x.answer.Jobs = append(x.answer.Jobs, api.ExplainedJob{Job: id})
		}
	}
	status, _ := s.Status(ctx, from, api.None{}) // it does not fail
	x.answer.Name, x.answer.Mark, x.answer.Database = status.Name, status.Mark, status.Database
	served := slices.Sorted(maps.Keys(status.Targets))
	x.answer.Targets = served[:min(len(served), mostNamed)]
	x.readRows(ctx, served)
	x.askWorker()
	x.readHistory(ctx)
	x.standTargets()
	return x.answer, nil
}

// Look waits until somebody may look at rows for a client, and gives what ends the look. Looks that many
// clients want at once would hold up the worker's claims.
func (s *Service) Look(ctx context.Context) (done func(), err error) {
	select {
	case s.looking <- struct{}{}:
		return func() { <-s.looking }, nil
	case <-ctx.Done():
		return nil, jobnet.Refusal("too many requests look at rows at once: try again").With(jobnet.CodeLimit)
	}
}

// each has every job's part of the answer filled in.
func (x *explanation) each(fill func(id int64, job *api.ExplainedJob)) {
	for i, id := range x.ids {
		fill(id, &x.answer.Jobs[i])
	}
}

// readRows reads the rows, and counts what waits before those that wait.
func (x *explanation) readRows(ctx context.Context, served []string) {
	ctx, cancel := context.WithTimeout(ctx, tableTime)
	defer cancel()
	tail := 0
	if x.query.Output {
		tail = max(longestTail/len(x.ids), shortestTail)
	}
	var err error
	if x.rows, err = x.Table.Details(ctx, x.ids, served, tail); err != nil {
		x.isAway(err)
		x.Logger.Warn("looking at rows for a client failed", "error", err)
		x.answer.Table = err.Error()
		return
	}
	var waiters []store.Waiter
	for id, row := range x.rows {
		if row.Status == journal.RowWaiting {
			waiters = append(waiters, store.Waiter{Job: id, Target: row.Target})
		}
	}
	ahead, err := x.Table.Ahead(ctx, waiters, api.MostCounted)
	if err != nil {
		x.Logger.Warn("counting rows for a client failed", "error", err)
	}
	x.each(func(id int64, job *api.ExplainedJob) {
		if row := x.rows[id]; row != nil {
			job.Row = jobRow(row)
			job.Row.Plan = x.rowPlan(row.Status, row.Served, row.Plan, x.Worker.ServerTime())
		}
		if n, counted := ahead[id]; counted {
			job.Ahead = &api.JobsAhead{Rows: n.Rows, More: n.More}
		}
	})
	x.countDue(ctx)
}

// SignalOf is the signal that a row's column sig names; "" where it names none. The column holds tokens
// of claims, too, and a row that somebody else ended may still have one.
func SignalOf(sig string) string {
	if strings.HasPrefix(sig, "@") {
		return ""
	}
	return sig
}

// jobRow is a row in its form on the wire.
func jobRow(row *store.Detail) *api.JobRow {
	return &api.JobRow{
		Target: row.Target, Status: row.Status, Owner: row.Owner,
		Created: row.Created, Started: row.Started, Finished: row.Finished,
		Result: row.Result, Code: codeOf(row.Code), Sig: SignalOf(row.Sig),
		Stdout: api.JobText(row.Stdout), Stderr: api.JobText(row.Stderr),
	}
}

// askWorker takes in what the worker and its mirror have in memory.
func (x *explanation) askWorker() {
	known := x.Worker.Explain(x.ids)
	owed := make(map[int64]store.QuarantinedRow)
	for _, a := range x.Owed() {
		owed[a.Job] = a
	}
	x.each(func(id int64, job *api.ExplainedJob) {
		if s := known[id].Standing; s != nil {
			job.Here = x.jobStanding(s)
		}
		if a := known[id].Quarantined; a != nil {
			job.Quarantined = &api.QuarantinedJob{Reason: a.Reason, Since: millis(a.Since)}
		} else if a, is := owed[id]; is {
			job.Quarantined = &api.QuarantinedJob{Wanted: a.Wanted, Reason: a.Reason, Since: millis(a.Since)}
		}
	})
}

// codeOf is a return code as a column shows it; nil where it shows none.
func codeOf(text string) *int64 {
	code, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil
	}
	return &code
}

// millis is a moment in its form on the wire; 0 where it is not known.
func millis(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

// readHistory takes in what the journal says of the jobs, as far as that is read in the time that
// is left.
func (x *explanation) readHistory(ctx context.Context) {
	var err error
	x.each(func(id int64, job *api.ExplainedJob) {
		events, unread := newestOf(ctx, x.Journal, id, x.has)
		job.Journal, job.Unread = historyOf(id, events), text(unread)
		err = cmp.Or(err, unread)
	})
	if err != nil {
		x.Logger.Warn("reading the journal for a client failed", "error", err)
	}
}

// newestOf gives the newest events of a job, the oldest first.
func newestOf(ctx context.Context, r *replay.Reader, id int64, has func(target string) bool) (events []journal.Event, err error) {
	for e, err := range r.Events(ctx, journal.Filter{Job: id, Last: mostEvents, Has: has}) {
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
	return events, nil
}

// historyOf is what events say of a job since its newest claim; nil where there are none. They are
// folded as the journal itself folds them, under numbers of their own.
func historyOf(id int64, events []journal.Event) *api.JobHistory {
	if len(events) == 0 {
		return nil
	}
	state, h := journal.State{KeepEnded: true}, &api.JobHistory{}
	for _, e := range events[newestClaim(events):] {
		e.Seq = state.Seq + 1
		if state.Apply(e) != nil {
			state.Seq++ // its beginning is not kept any more: what follows may say enough
		}
		h.Last, h.At, h.By = string(e.Kind()), millis(e.Time), byOf(e.Payload)
		switch p := e.Payload.(type) { // what the fold does not keep
		case journal.Done:
			h.Ran, h.Timeout = p.Elapsed, p.Timeout
		case journal.Planned:
			h.WasDue = p.From.RunAt
		case journal.Cancelled:
			h.Cancelled, h.CancelledBy = h.At, p.By
		case journal.Conflict:
			if h.Found = nil; p.Found != nil {
				h.Found = &api.FoundRow{Status: p.Found.Status, Owner: p.Found.Owner}
			}
		}
	}
	j := state.Job(id)
	h.Status, h.Token, h.Lost = string(j.Status), j.Token, j.Lost
	h.Claimed, h.Ended = millis(j.Accepted.Time), millis(j.Ended)
	h.Result, h.Code, h.Signal, h.Reason = j.Result, j.Code, j.Signal, j.Reason
	return h
}

// newestClaim is the place of the newest event that begins a job's story anew.
func newestClaim(events []journal.Event) int {
	for i := len(events) - 1; i > 0; i-- {
		if events[i].Kind() == journal.KindAccepted {
			return i
		}
	}
	return 0
}

// byOf is who wanted what an event tells of; "" where it does not say.
func byOf(p journal.Payload) string {
	var who struct{ By string }
	if text, err := json.Marshal(p); err == nil {
		_ = json.Unmarshal(text, &who) // a payload whose by is something else says nobody
	}
	return who.By
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// phases are the words for where a job stands.
var phases = map[board.Phase]string{
	board.Queued:   api.StandsQueued,
	board.Reserved: api.StandsClaimed, board.Due: api.StandsClaimed,
	board.Announcing: api.StandsClaimed, board.Announced: api.StandsClaimed,
	board.Asking: api.StandsStarting, board.Asked: api.StandsStarting, board.Running: api.StandsRunning,
	board.Ended: api.StandsEnded, board.Ending: api.StandsEnded,
	board.Renewing: api.StandsRenewing, board.Leaving: api.StandsLeaving,
}

// jobStanding is where a job stands, in its form on the wire.
func (x *explanation) jobStanding(s *jobexec.JobStanding) *api.JobStanding {
	told := &api.JobStanding{
		Phase: phases[s.Phase], Before: s.Before, Since: millis(s.Claimed), Attempt: s.Attempt, PID: s.Started.Pid,
		Target: s.Target, Reason: s.Reason, Adopted: s.Adopted,
		MaxAttempts: x.mostAttempts(s.Target, s.Time.Plan), Deadline: millis(s.Time.Deadline),
	}
	switch {
	case s.InDoubt:
		told.Phase, told.Reason, told.Ignoring = api.StandsInDoubt, s.Lost, s.Ignored
	case s.Process != nil:
		told.Since = millis(s.Began)
	}
	return told
}

// standTargets tells how the jobs' targets stand here: those of the rows, as the table takes them,
// or else those that the jobs were claimed for here.
func (x *explanation) standTargets() {
	names := make(map[int64]string, len(x.ids))
	x.each(func(id int64, job *api.ExplainedJob) {
		if row := x.rows[id]; row != nil {
			names[id] = row.Served
		} else if job.Here != nil {
			names[id] = job.Here.Target
		}
	})
	standings := x.Worker.ExplainTargets(slices.Compact(slices.Sorted(maps.Values(names))))
	x.each(func(id int64, job *api.ExplainedJob) {
		s, served := standings[names[id]]
		if !served {
			return
		}
		job.Target = &api.TargetStanding{
			Name: names[id], Paused: s.Paused, PausedSince: s.PausedSince, PausedBy: s.PausedBy,
			Concurrency: s.Concurrency, Room: s.Room, Looks: s.Looks, Interval: x.PollInterval.Milliseconds(),
			Hindered: string(s.Kind), Why: s.Hindrance.Why, Since: millis(s.Since),
		}
	})
}
