package store_test

import (
	"slices"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store"
)

// A row that comes back as expected is told to nobody: the worker that ended its run looks for it in
// time. One that was locked meanwhile, and one whose run a former process ended, are told when they
// read so.
func TestRowsThatComeBackLateAreTold(t *testing.T) {
	t.Parallel()
	plan := journal.Plan{RunAt: 100, PlannedAt: 100, Schedule: daily}
	j, table := openJournal(t), recurring(plan, 1, 2, 3)
	add(t, j, claimedFrom(1, plan), journal.Draft{Job: 1, Payload: journal.Running{Attempt: 1, Token: token(1)}}, comesBack(1, 200))
	told := make(chan []string, 10)
	m := store.NewMirror(store.Config{Source: j, Bookmark: j, Table: table, Logger: discard(), OnGivenBack: func(targets []string) { told <- targets }})
	table.Locked = map[int64]bool{3: true}
	run(t, m)
	expect := func(what string) {
		t.Helper()
		select {
		case got := <-told:
			if !slices.Equal(got, []string{"a"}) {
				t.Errorf("%s: told of %q", what, got)
			}
		case <-time.After(hung):
			t.Fatalf("%s: nobody was told", what)
		}
	}
	expect("ended by a former process")

	starts := func(id int64) []journal.Draft {
		return []journal.Draft{claimedFrom(id, plan), {Job: id, Payload: journal.Running{Attempt: 1, Token: token(id)}}, comesBack(id, 200)}
	}
	shown(t, m, add(t, j, starts(2)...))
	if len(told) > 0 {
		t.Errorf("told of %q, which came back in time", <-told)
	}
	await(t, "the locked row to be tried", m.Tried(add(t, j, starts(3)...)))
	if len(told) > 0 {
		t.Errorf("told of %q, which is locked", <-told)
	}
	table.Change(func() { table.Locked = nil })
	expect("locked at its end")
	expectPlan(t, table, 3, "delayed ", journal.Plan{RunAt: 200, PlannedAt: 200, Schedule: daily})
}
