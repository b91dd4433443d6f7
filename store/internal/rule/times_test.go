package rule_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

func brackets(name string) string { return "[" + name + "]" }

// all uses all optional columns.
var all = store.Uses(store.TimeColumns())

// Waiting rows of which nobody knows when they were created, and due ones, don't hold up each other.
func TestRowsThatWereCreatedWhoKnowsWhen(t *testing.T) {
	t.Parallel()
	found := []rule.Line{
		{Row: journal.Row{Job: 1, Status: journal.RowWaiting}}, {Row: journal.Row{Job: 2, Status: journal.RowDelayed, Plan: &journal.Plan{RunAt: 5}}},
	}
	seen := map[int64]bool{}
	for range 1000 {
		seen[rule.InOrder(found, 1)[0].Job] = true
	}
	if len(seen) != 2 {
		t.Errorf("in 1000 claims only these came first: %v", seen)
	}
}

func TestUnedited(t *testing.T) {
	t.Parallel()
	plan := &journal.Plan{Schedule: "every 1d", Zone: "Asia/Tokyo"}
	end := store.Change{Status: "done", Plan: plan, Done: &journal.Done{}}
	const schedule, zone = " AND COALESCE(CAST(schedule AS CHAR), '') = ?", " AND COALESCE(CAST(time_zone AS CHAR), '') = ?"
	if got, args := rule.Unedited(end, all); got != schedule+zone || !cmp.Equal(args, []any{"every 1d", "Asia/Tokyo"}) {
		t.Errorf("%s with %v", got, args)
	}
	if got, args := rule.Unedited(end, store.Uses{"schedule"}); got != schedule || len(args) != 1 {
		t.Errorf("without zones: %s with %v", got, args)
	}
	unplanned := end
	unplanned.Plan = nil
	for name, got := range map[string]string{
		"no schedules": first(rule.Unedited(end, store.Uses{"run_at"})), "a manual row": first(rule.Unedited(unplanned, all)),
		"a start": first(rule.Unedited(store.Change{Status: "running", Plan: plan}, all)), "a release": first(rule.Unedited(store.Change{Status: "delayed", Plan: plan}, all)),
	} {
		if got != "" {
			t.Errorf("%s: guarded by %s", name, got)
		}
	}
}

func first(text string, _ []any) string { return text }
