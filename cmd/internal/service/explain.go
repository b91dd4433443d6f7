package service

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"jobd/journal"
	"jobd/journal/replay"
	"jobd/net/api"
	"jobd/store"
)

// Table is the jobs table as those see it who ask about jobs.
type Table interface {
	counts
	store.Explainer
	store.Timekeeper
	Rows(ctx context.Context, ids []int64) (rows []journal.Row, locked []int64, err error)
	Holder(ctx context.Context, name string) (holder string, err error)
}

// What one explain may take. A master waits 5 s for the answer. The journal has what is left of the
// time: a second at least.
const (
	explainTime    = 4 * time.Second
	tableTime      = 2 * time.Second // of these, for what is read without locks
	probeTime      = 1 * time.Second
	mostExplaining = 4 // at once; the others wait
	mostNamed      = 100
	longestTail    = 16 << 10 // bytes of a job's output, if one is asked about
	shortestTail   = 1 << 10
	mostEvents     = 100 // of a job, the newest
)

// explanation is one answer to explain under way.
type explanation struct {
	*Service
	query  api.ExplainQuery
	ids    []int64
	rows   map[int64]*store.Detail
	answer api.Explained
}

// Explain tells all that the worker knows of jobs. It asks the table first, then the worker, then
// the journal: what happens meanwhile shows in a later one, and a job is never behind its row.
func (s *Service) Explain(ctx context.Context, from Call, q api.ExplainQuery) (api.Explained, error) {
	ctx, cancel := context.WithTimeout(ctx, explainTime)
	defer cancel()
	select {
	case s.explaining <- struct{}{}:
		defer func() { <-s.explaining }()
	case <-ctx.Done():
		return api.Explained{}, ctx.Err()
	}
	x := &explanation{Service: s, query: q}
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
	if q.Probe {
		x.probe(ctx)
	}
	x.askWorker()
	x.readHistory(ctx)
	x.standTargets()
	return x.answer, nil
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
		x.Logger.Warn("looking at rows for a client failed", "error", err)
		x.answer.Table = err.Error()
		return
	}
	x.readPlans(ctx)
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
			job.Row.Plan = x.rowPlan(row.Status, row.Served, row.Plan, time.Now())
		}
		if n, counted := ahead[id]; counted {
			job.Ahead = &api.JobsAhead{Rows: n.Rows, More: n.More}
		}
	})
	x.countDue(ctx)
}

// jobRow is a row in its form on the wire.
func jobRow(row *store.Detail) *api.JobRow {
	return &api.JobRow{
		Target: row.Target, Status: row.Status, Owner: row.Owner,
		Created: row.Created, Started: row.Started, Finished: row.Finished,
		Result: row.Result, Code: codeOf(row.Code), Sig: row.Sig,
		Stdout: api.JobText(row.Stdout), Stderr: api.JobText(row.Stderr),
	}
}

// askWorker takes in what the worker and its mirror have in memory.
func (x *explanation) askWorker() {
	known := x.Worker.Explain(x.ids)
	owed := make(map[int64]store.Aside)
	for _, a := range x.Owed() {
		owed[a.Job] = a
	}
	x.each(func(id int64, job *api.ExplainedJob) {
		if s := known[id].Standing; s != nil {
			job.Here = jobStanding(s)
			job.Here.MaxAttempts = x.mostAttempts(s.Target, s.Time.Plan)
		}
		if a := known[id].Aside; a != nil {
			job.Aside = &api.AsideJob{Reason: a.Reason, Since: millis(a.Since)}
		} else if a, is := owed[id]; is {
			job.Aside = &api.AsideJob{Wanted: a.Wanted, Reason: a.Reason, Since: millis(a.Since)}
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

// Journal opens the worker's journal to be read.
type Journal func() (*replay.Reader, error)
