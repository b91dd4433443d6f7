package rule_test

import (
	"testing"

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
