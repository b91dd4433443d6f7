package service

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/net/api"
	"jobd/store"
	"jobd/store/storetest/must"
)

// later is a table that answers as the test says.
type later struct {
	Table // whose other methods nobody calls here

	rows    []*store.Seen
	err     error
	targets []string
	limit   int
}

func (l *later) Delayed(_ context.Context, targets []string, limit int) ([]*store.Seen, error) {
	l.targets, l.limit = targets, limit
	return l.rows, l.err
}

func TestDelayedRowsAreListed(t *testing.T) {
	t.Parallel()
	code, soon := int64(3), time.Now().Add(time.Hour).Unix()
	retried := recurs("delayed", journal.Plan{RunAt: soon, PlannedAt: 60, Attempts: 1, MaxAttempts: 4})
	retried.Finished, retried.Result, retried.Code = 7, "fail", &code
	table := &later{rows: []*store.Seen{recurs("delayed", journal.Plan{RunAt: 50}), retried, recurs("delayed", journal.Plan{RunAt: soon, Schedule: "dayly"})}}
	now := time.Now()
	s := newService(&stub{clock: now, status: jobexec.Status{Targets: map[string]jobexec.TargetStatus{"mail": {}, "b": {}}}})
	s.Table = table
	got := must.Get(s.Delayed(t.Context(), asked(""), api.DelayedQuery{Most: 3}))(t)
	bad := got.Rows[2].Bad
	want := api.DelayedRows{More: true, Rows: []api.DelayedRow{
		{Job: 5, Target: "mail", RowPlan: api.RowPlan{RunAt: 50, Due: true, Now: now.Unix()}},
		{Job: 5, Target: "mail", RowPlan: api.RowPlan{RunAt: soon, PlannedAt: 60, Attempts: 1, MaxAttempts: 4, Now: now.Unix()}, Finished: 7, Result: "fail", Code: &code},
		{Job: 5, Target: "mail", RowPlan: api.RowPlan{RunAt: soon, Schedule: "dayly", In: "UTC", Bad: bad, Now: now.Unix()}},
	}}
	if diff := cmp.Diff(want, got); diff != "" || !strings.Contains(bad, "daily 02:30") {
		t.Errorf("%s (-want +got):\n%s", bad, diff)
	}
	if diff := cmp.Diff([]string{"b", "mail"}, table.targets); diff != "" || table.limit != 3 {
		t.Errorf("asked for %v, %d", table.targets, table.limit)
	}
	for err, want := range map[error]string{store.ErrNoDelays: "use_columns does not name run_at", errors.New("gone"): "can't be read now: gone"} {
		table.err = err
		if _, err := s.Delayed(t.Context(), asked(""), api.DelayedQuery{Most: 2}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	s.Process.(*stub).away = api.Standing{Error: "connection refused"}
	if _, err := s.Delayed(t.Context(), asked(""), api.DelayedQuery{}); err == nil || !strings.Contains(err.Error(), "the database is away") {
		t.Errorf("%v", err)
	}
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
		listed, err := s.Delayed(t.Context(), asked(""), api.DelayedQuery{Targets: []string{"mail"}, Most: 1})
		if err != nil || listed.Rows[0].Due != due || listed.Rows[0].Now != server.Unix() {
			t.Errorf("%s: delayed: %+v, %v", after, listed, err)
		}
		if got := s.recurringRow(row, s.Worker.ServerTime()); got.Due != due {
			t.Errorf("%s: recurring: %+v", after, got)
		}
	}
}
