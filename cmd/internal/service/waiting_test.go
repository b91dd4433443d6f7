package service

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/net/api"
	"jobd/store"
)

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
