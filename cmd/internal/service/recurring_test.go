package service

import (
	"context"
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	jobexec "jobd/exec"
	"jobd/exec/board"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store"
	"jobd/store/storetest/check"
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
	check.Equal(t, cmp.Diff([]string{"run now [5 6] by 10.0.0.5:4711 via master 10.0.0.1:7081"}, worker.did), "")
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
	check.Equal(t, h.Timeout, 60, "%+v", h)
	if h := got.Jobs[2].Journal; h.Status != "planned" || h.WasDue != 30 || h.Reason != "missed" {
		t.Errorf("%+v", h)
	}
}

// The queue tells when the next row is due, and how many are.
func TestWhatIsDueIsCounted(t *testing.T) {
	t.Parallel()
	now := time.Unix(100, 0)
	table := &counter{due: journal.Due{Now: now, Next: map[string]int64{"a": 90, "b": 110}}, ripe: store.Counted{Rows: 3, More: true}}
	told := must.Get(counting(table).Waiting(t.Context(), asked(""), api.WaitingQuery{}))(t)
	want := map[string]api.WaitingTarget{"a": {NextDue: 90, Due: 3, DueMore: true, Now: 100}, "b": {NextDue: 110, Now: 100}, "c": {}}
	check.Equal(t, cmp.Diff(want, told.Targets), "", "-want +")
}

// later is a table that answers as the test says.
type later struct {
	Table // whose other methods nobody calls here

	rows []*store.Seen
}

// Rows are due by the clock of the table's server, whatever that of the worker's host says.
func TestRowsAreDueByTheServersClock(t *testing.T) {
	t.Parallel()
	server := time.Now().Add(-time.Hour).Truncate(time.Second)
	for after, due := range map[time.Duration]bool{-time.Second: true, 0: true, time.Minute: false} {
		at := server.Add(after).Unix()
		row := recurs("delayed", journal.Plan{RunAt: at, PlannedAt: at, Schedule: "hourly :00"})
		s := newService(&stub{clock: server})
		s.Table = &later{rows: []*store.Seen{row}}
		if plan := s.rowPlan(row.Status, row.Target, row.Plan, server); plan.Due != due || plan.Now != server.Unix() {
			t.Errorf("%s: delayed: %+v", after, plan)
		}
		got := s.recurringRow(row, s.Worker.ServerTime())
		check.Equal(t, got.Due, due, "%s: recurring: %+v", after, got)
	}
}

// Who cancels jobs is told what became of each, and the worker is told who it is.
func TestCancel(t *testing.T) {
	t.Parallel()
	at, grace := time.UnixMilli(1_700_000_000_000), int64(2000)
	worker := &stub{cancelled: jobexec.Cancelled{
		Answer: jobexec.Answer[jobexec.CancelledJob]{
			Jobs: map[int64]jobexec.CancelledJob{
				1: {Did: board.NotRun, Target: "a", At: at, By: "me"},
				2: {Did: board.Signals, Target: "a", At: at, Grace: 2 * time.Second, By: "me"},
				3: {Did: board.Already, Target: "a", At: at, Grace: time.Second, By: "other"},
				4: {Did: board.GivenUp, Target: "b", At: at, By: "me"},
			},
			Errors:    map[int64]string{5: "job 5 is done already"},
			Requested: true,
		},
		Elsewhere: map[int64]journal.Row{6: {Job: 6, Target: "c", Status: "running", Owner: "@ab"}},
	}}
	query := api.CancelQuery{IDs: []jobnet.Whole{1, 2, 3, 4, 5, 6}, Targets: map[jobnet.Whole]string{1: "a"}, Grace: &grace, Rows: true}
	got := must.Get(newService(worker).Cancel(t.Context(), asked("x"), query))(t)
	want := api.CancelAnswer{
		Jobs: map[jobnet.Whole]api.CancelledJob{
			1: {State: "ignored", Target: "a", By: "me"},
			2: {State: "cancelling", Target: "a", By: "me", Grace: 2000, Kill: at.UnixMilli() + 2000},
			3: {State: "cancelling", Target: "a", By: "other", Before: true, Grace: 1000, Kill: at.UnixMilli() + 1000},
			4: {State: "done", Target: "b", By: "me"},
		},
		Errors:    map[jobnet.Whole]string{5: "job 5 is done already"},
		Elsewhere: map[jobnet.Whole]api.ClaimedRow{6: {Status: "running", Owner: "@ab", Target: "c"}},
	}
	check.Equal(t, cmp.Diff(want, got), "", "answer (-want +got)")
	if did := []string{"cancel [1 2 3 4 5 6] of map[1:a] within 2s, rows true, by " + caller}; !cmp.Equal(worker.did, did) {
		t.Errorf("the worker was asked for %q, want %q", worker.did, did)
	}
}

// A cancel that changed nothing is part of the history.
func TestCancelInVainIsJournalled(t *testing.T) {
	t.Parallel()
	worker := &stub{cancelled: jobexec.Cancelled{Answer: jobexec.Answer[jobexec.CancelledJob]{Errors: map[int64]string{5: "job 5 is done already"}}}}
	must.Get(newService(worker).Cancel(t.Context(), asked("ids=[5]"), api.CancelQuery{IDs: []jobnet.Whole{5}}))(t)
	want := []journal.Payload{journal.Refused{Request: "cancel", About: "ids=[5]", Reason: "job 5 is done already", By: caller}}
	check.Equal(t, cmp.Diff(want, worker.events), "", "journal (-want +got)")
	worker = &stub{refuses: jobexec.RefusedError("nothing was cancelled: there is no room for the journal")}
	if _, err := newService(worker).Cancel(t.Context(), asked("ids=[5]"), api.CancelQuery{IDs: []jobnet.Whole{5}}); err == nil || len(worker.events) != 1 {
		t.Errorf("error %v, journal %v", err, worker.events)
	}
}

// counter is a table that answers as the test says.
type counter struct {
	Table // whose other methods nobody calls here

	rows   map[string]store.Counted
	errs   map[string]error
	due    journal.Due
	ripe   store.Counted
	hangs  string // the target of which the answer never comes
	counts []string
}

func (c *counter) CountWaiting(ctx context.Context, target string, most int) (store.Counted, error) {
	c.counts = append(c.counts, target)
	if target == c.hangs {
		<-ctx.Done()
		return store.Counted{}, &store.Unreachable{Op: "count waiting jobs", Err: ctx.Err()}
	}
	if most != api.MostCounted {
		return store.Counted{}, errors.New("the limit is another one")
	}
	return c.rows[target], c.errs[target]
}

func (c *counter) WaitingTargets(context.Context, int) ([]string, error) {
	return slices.Sorted(maps.Keys(c.rows)), nil
}

func (c *counter) NextDue(context.Context, []string, []int64) (journal.Due, error) { return c.due, nil }

func (c *counter) CountDue(_ context.Context, target string, before int64, most int) (store.Counted, error) {
	if before != 0 || most != api.MostCounted {
		return store.Counted{}, errors.New("the limits are others")
	}
	c.counts = append(c.counts, "due "+target)
	return c.ripe, nil
}

// counting is a service whose worker serves three targets.
func counting(c *counter) *Service {
	s := newService(&stub{status: jobexec.Status{Targets: map[string]jobexec.TargetStatus{"c": {}, "a": {}, "b": {}}}})
	s.Table = c
	return s
}

func (s *stub) Database() api.Standing {
	if s.away.Error == "" {
		return api.Standing{Reachable: true}
	}
	return s.away
}

func TestWaitingRowsAreCountedByTarget(t *testing.T) {
	t.Parallel()
	table := &counter{
		rows: map[string]store.Counted{"a": {Rows: 10_000, More: true, Oldest: 7}, "x": {Rows: 1}},
		errs: map[string]error{"b": errors.New("illegal mix of collations")},
	}
	s := counting(table)
	told, err := s.Waiting(t.Context(), asked(""), api.WaitingQuery{})
	want := map[string]api.WaitingTarget{
		"a": {Count: 10_000, More: true, Oldest: 7}, "b": {Error: "illegal mix of collations"}, "c": {},
	}
	if err != nil || !reflect.DeepEqual(told.Targets, want) {
		t.Errorf("all that it serves: %+v, %v, want %+v", told.Targets, err, want)
	}
	told, err = s.Waiting(t.Context(), asked(""), api.WaitingQuery{Targets: []string{"x"}})
	if want := map[string]api.WaitingTarget{"x": {Count: 1}}; err != nil || !reflect.DeepEqual(told.Targets, want) {
		t.Errorf("one that was asked for: %+v, %v, want %+v", told.Targets, err, want)
	}
	told, err = s.Waiting(t.Context(), asked(""), api.WaitingQuery{Targets: []string{"A"}, Others: true})
	if want := map[string]api.WaitingTarget{"A": {}, "x": {Count: 1}}; err != nil || !reflect.DeepEqual(told.Targets, want) {
		t.Errorf("and others: %+v, %v, want %+v", told.Targets, err, want)
	}
}

// A table that is known to be away is not asked, and one that goes away is asked once.
func TestATableThatIsAwayIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	table := &counter{errs: map[string]error{"a": &store.Unreachable{Op: "count waiting jobs", Err: errors.New("connection refused")}}}
	s := counting(table)
	told, err := s.Waiting(t.Context(), asked(""), api.WaitingQuery{})
	if err != nil || len(told.Targets) != 3 || len(table.counts) != 1 || !strings.HasSuffix(told.Targets["c"].Error, "connection refused") {
		t.Errorf("%+v, %v; counted of %q", told.Targets, err, table.counts)
	}
	check.DeepEqual(t, s.Worker.(*stub).did, []string{"look at the table"}, "the worker did")
	s.Worker.(*stub).away = api.Standing{Since: time.Unix(1_700_000_000, 0), Error: "no route to host"}
	_, err = s.Waiting(t.Context(), asked(""), api.WaitingQuery{})
	if want := "the database is away since 2023-11-14T22:13:20Z: no route to host"; err == nil || err.Error() != want || len(table.counts) != 1 {
		t.Errorf("%v, want %s; counted of %q", err, want, table.counts)
	}
}

// All targets of a request have a few seconds together.
func TestCountingEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := &counter{rows: map[string]store.Counted{"a": {Rows: 3}}, hangs: "b"}
		begun := time.Now()
		told, err := counting(table).Waiting(t.Context(), asked(""), api.WaitingQuery{})
		late := api.WaitingTarget{Error: "it was not counted: counting took longer than 5s"}
		if want := map[string]api.WaitingTarget{"a": {Count: 3}, "b": late, "c": late}; err != nil || !reflect.DeepEqual(told.Targets, want) {
			t.Errorf("%+v, %v, want %+v", told.Targets, err, want)
		}
		if took := time.Since(begun); took != listTimeout || len(table.counts) != 2 {
			t.Errorf("it took %v, for %q", took, table.counts)
		}
	})
}
