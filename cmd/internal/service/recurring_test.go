package service

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	jobexec "jobd/exec"
	"jobd/exec/board"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store"
	"jobd/store/storetest/must"
)

// recurring is a table that answers as the test says.
type recurring struct {
	Table // whose other methods nobody calls here

	rows    []*store.Seen
	err     error
	targets []string
	after   int64
	limit   int
}

func (r *recurring) Recurring(_ context.Context, targets []string, after int64, limit int) ([]*store.Seen, error) {
	r.targets, r.after, r.limit = targets, after, limit
	return r.rows, r.err
}

// recurs is a row with a schedule.
func recurs(status string, plan journal.Plan) *store.Seen {
	return &store.Seen{Row: journal.Row{Job: 5, Target: "mail", Status: status, Plan: &plan}}
}

func TestRecurringRowsAreListed(t *testing.T) {
	t.Parallel()
	berlin := must.Get(time.LoadLocation("Europe/Berlin"))(t)
	code, far := int64(3), time.Now().Add(1000*time.Hour).Unix()
	table := &recurring{rows: []*store.Seen{recurs("delayed", journal.Plan{RunAt: far, PlannedAt: far, Schedule: "daily 02:30"}), recurs("running", journal.Plan{Schedule: "dayly"})}}
	table.rows[0].Finished, table.rows[0].Result, table.rows[0].Code = 7, "fail", &code
	s := newService(&stub{zone: berlin, status: jobexec.Status{Targets: map[string]jobexec.TargetStatus{"mail": {}, "b": {}}}})
	s.Table = table
	got := must.Get(s.Recurring(t.Context(), asked(""), api.RecurringQuery{Most: 2}))(t)
	bad := got.Rows[1].Error
	want := api.RecurringRows{More: true, Rows: []api.RecurringRow{
		{Job: 5, Target: "mail", Status: "delayed", Schedule: "daily 02:30", Zone: "Europe/Berlin", RunAt: far, Planned: far, Next: far, Finished: 7, Result: "fail", Code: &code},
		{Job: 5, Target: "mail", Status: "running", Schedule: "dayly", Zone: "Europe/Berlin", Error: bad},
	}}
	if diff := cmp.Diff(want, got); diff != "" || !strings.Contains(bad, "daily 02:30") {
		t.Errorf("%s (-want +got):\n%s", bad, diff)
	}
	if diff := cmp.Diff([]string{"b", "mail"}, table.targets); diff != "" || table.after != math.MinInt64 || table.limit != 2 {
		t.Errorf("asked for %v, after %d, %d", table.targets, table.after, table.limit)
	}
	for err, want := range map[error]string{store.ErrNoSchedules: "use_columns does not name schedule", errors.New("gone"): "can't be read now: gone"} {
		table.err = err
		if _, err := s.Recurring(t.Context(), asked(""), api.RecurringQuery{Most: 2}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	s.Process.(*stub).away = api.Standing{Error: "connection refused"}
	if _, err := s.Recurring(t.Context(), asked(""), api.RecurringQuery{}); err == nil || !strings.Contains(err.Error(), "the database is away") {
		t.Errorf("%v", err)
	}
}

// What follows is told of rows wherever they stand.
func TestTheNextPlannedStart(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	at := func(day, hour, minute int) int64 {
		return time.Date(2026, 11, day, hour, minute, 0, 0, time.UTC).Unix()
	}
	s := newService(&stub{})
	for name, test := range map[string]struct {
		status string
		plan   journal.Plan
		next   int64
		zone   string
	}{
		"planned":                  {"delayed", journal.Plan{RunAt: at(24, 2, 30), PlannedAt: at(24, 2, 30), Schedule: "daily 02:30"}, at(24, 2, 30), "UTC"},
		"another zone":             {"delayed", journal.Plan{Schedule: "daily 02:30", Zone: "Europe/Berlin"}, at(23, 1, 30), "Europe/Berlin"},
		"due since an hour":        {"delayed", journal.Plan{RunAt: at(22, 11, 0), PlannedAt: at(22, 11, 0), Schedule: "hourly :00"}, at(22, 13, 0), "UTC"},
		"between two attempts":     {"delayed", journal.Plan{RunAt: at(22, 12, 5), PlannedAt: at(22, 11, 0), Attempts: 1, Schedule: "hourly :00"}, at(22, 13, 0), "UTC"},
		"not planned yet":          {"delayed", journal.Plan{Schedule: "daily 13:00"}, at(22, 13, 0), "UTC"},
		"not planned yet, elapsed": {"delayed", journal.Plan{Schedule: "every 2h"}, at(22, 12, 0), "UTC"},
		"waiting":                  {"waiting", journal.Plan{Schedule: "every 2h"}, at(22, 14, 0), "UTC"},
		"running":                  {"running", journal.Plan{PlannedAt: at(22, 11, 30), RunAt: at(22, 11, 30), Schedule: "every 2h"}, at(22, 13, 30), "UTC"},
	} {
		zone, next, err := s.following("mail", test.status, test.plan, now)
		if err != nil || next != test.next || zone != test.zone {
			t.Errorf("%s: %s in %s, %v; want %s", name, time.Unix(next, 0).UTC(), zone, err, time.Unix(test.next, 0).UTC())
		}
	}
	for _, plan := range []journal.Plan{{Schedule: "daily 02:30", Zone: "Berlin"}, {Schedule: "every"}, {Schedule: "every 5m", Zone: "Local"}} {
		if _, _, err := s.following("mail", "delayed", plan, now); err == nil {
			t.Errorf("%+v is read", plan)
		}
	}
}

func TestRowsAreMadeDue(t *testing.T) {
	t.Parallel()
	worker := &stub{ranNow: jobexec.Answer[int64]{Jobs: map[int64]int64{5: 99}, Errors: map[int64]string{6: "status = done"}, Requested: true}}
	s := newService(worker)
	got, err := s.Plan("run-now", board.RunNow)(t.Context(), asked("5 6"), api.PlanRows{IDs: []jobnet.Whole{5, 6}})
	want := api.PlannedRows{Jobs: map[jobnet.Whole]int64{5: 99}, Errors: map[jobnet.Whole]string{6: "status = done"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" || len(worker.events) > 0 {
		t.Errorf("%v, %v (-want +got):\n%s", err, worker.events, diff)
	}
	if diff := cmp.Diff([]string{"run now [5 6] by 10.0.0.5:4711 via master 10.0.0.1:7081"}, worker.did); diff != "" {
		t.Error(diff)
	}
	worker.ranNow.Jobs, worker.ranNow.Requested = nil, false
	if _, err = s.Plan("run-now", board.RunNow)(t.Context(), asked("6"), api.PlanRows{IDs: []jobnet.Whole{6}}); err != nil || len(worker.events) != 1 {
		t.Errorf("%v; a request that changes nothing is journalled as refused: %v", err, worker.events)
	}
	worker.refuses = jobexec.RefusedError("worker is stopping")
	if _, err := s.Plan("run-now", board.RunNow)(t.Context(), asked("6"), api.PlanRows{IDs: []jobnet.Whole{6}}); err == nil || err.Error() != "worker is stopping" {
		t.Errorf("%v", err)
	}
}

// What rows say about time is told with them, and how many are due before one that is.
func TestExplainTellsOfTime(t *testing.T) {
	t.Parallel()
	now := time.Now()
	far := now.Add(1000 * time.Hour).Unix()
	worker := &stub{clock: now, terms: map[string]jobexec.Terms{"mail": {Attempts: 5}}}
	table := &rows{
		details: map[int64]*store.Detail{5: row(5, "delayed", ""), 6: row(6, "delayed", ""), 7: row(7, "delayed", ""), 8: row(8, "waiting", "")},
	}
	for id, plan := range map[int64]*journal.Plan{
		5: {RunAt: far, PlannedAt: far, Schedule: "daily 02:30", MaxAttempts: 2}, 6: {RunAt: 50, PlannedAt: 40, Attempts: 1}, 7: {RunAt: far, Schedule: "x"},
	} {
		table.details[id].Plan = plan
	}
	again := &journal.Again{RunAt: 50, PlannedAt: 40, Attempts: 1, Why: journal.AgainRetry}
	s := newExplainer(
		t, worker, table,
		journal.Draft{Job: 6, Payload: journal.Accepted{Target: "mail", Token: "@aaaa00001", PlannedAt: 40}},
		journal.Draft{Job: 6, Payload: journal.Running{Attempt: 1}},
		journal.Draft{Job: 6, Payload: journal.Done{Result: "fail", Timeout: 60, Again: again}},
		journal.Draft{Job: 7, Payload: journal.Planned{Target: "mail", From: journal.Plan{RunAt: 30}, To: journal.Again{RunAt: far, PlannedAt: far, Why: journal.AgainSchedule}, Reason: "missed"}},
	)
	got := explainOf(t, s, api.ExplainQuery{IDs: []jobnet.Whole{5, 6, 7, 8}})
	wants := []*api.RowPlan{
		{RunAt: far, PlannedAt: far, Schedule: "daily 02:30", MaxAttempts: 2, In: "UTC", Next: far, Now: now.Unix()},
		{RunAt: 50, PlannedAt: 40, Attempts: 1, MaxAttempts: 5, Due: true, Now: now.Unix()},
		{RunAt: far, Schedule: "x", MaxAttempts: 5, In: "UTC", Bad: got.Jobs[2].Row.Plan.Bad, Now: now.Unix()},
		nil,
	}
	for i, want := range wants {
		if diff := cmp.Diff(want, got.Jobs[i].Row.Plan); diff != "" {
			t.Errorf("job %d (-want +got):\n%s", got.Jobs[i].Job, diff)
		}
	}
	if ahead := got.Jobs[1].Ahead; ahead == nil || *ahead != (api.JobsAhead{Rows: 50}) || wants[2].Bad == "" {
		t.Errorf("before the one that is due: %+v; bad: %q", ahead, wants[2].Bad)
	}
	h := got.Jobs[1].Journal
	if h.Timeout != 60 {
		t.Errorf("%+v", h)
	}
	if h := got.Jobs[2].Journal; h.Status != "planned" || h.WasDue != 30 || h.Reason != "missed" {
		t.Errorf("%+v", h)
	}
}

// How long jobs may run, and how often, is told of those that run.
func TestRunningTellsOfTime(t *testing.T) {
	t.Parallel()
	deadline := time.UnixMilli(7000)
	worker := &stub{terms: map[string]jobexec.Terms{"mail": {Attempts: 5}}, running: []jobexec.JobStanding{
		{ID: 1, Standing: board.Standing{Target: "mail", Attempt: 2}, Time: jobexec.RunTime{PlannedAt: 40, Deadline: deadline, Plan: &journal.Plan{Schedule: "every 5m"}}},
		{ID: 2, Standing: board.Standing{Target: "mail"}, Time: jobexec.RunTime{Plan: &journal.Plan{MaxAttempts: 3}}},
		{ID: 3, Standing: board.Standing{Target: "b"}},
	}}
	got := must.Get(newService(worker).Running(t.Context(), asked(""), api.RunningQuery{Most: 10}))(t)
	want := map[jobnet.Whole]api.RunningJob{
		1: {Job: 1, Target: "mail", Attempt: 2, MaxAttempts: 5, Planned: 40, Deadline: 7000, Recurs: true},
		2: {Job: 2, Target: "mail", MaxAttempts: 3}, 3: {Job: 3, Target: "b"},
	}
	for _, job := range got.Jobs {
		if diff := cmp.Diff(want[job.Job], job); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// The queue tells when the next row is due, and how many are.
func TestWhatIsDueIsCounted(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	table := &counter{due: journal.Due{Now: now, Next: map[string]int64{"a": 90, "b": 110}}, ripe: store.Counted{Rows: 3, More: true}}
	told := must.Get(counting(table).Waiting(t.Context(), asked(""), api.WaitingQuery{}))(t)
	want := map[string]api.WaitingTarget{"a": {NextDue: 90, Due: 3, DueMore: true, Now: 100}, "b": {NextDue: 110, Now: 100}, "c": {}}
	if diff := cmp.Diff(want, told.Targets); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
