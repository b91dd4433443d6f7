package rule_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// Workers share a row over time: what an update that met no row means where rows come back. Where
// they don't, it is a conflict, as ever.
func TestJudgeWhereRowsComeBack(t *testing.T) {
	t.Parallel()
	const token = "@abcd01234"
	plan := &journal.Plan{Schedule: "every 1d"}
	at := time.Unix(100, 0)
	done := store.Change{Job: 5, Token: token, Status: "done", Finish: at, Plan: plan, Done: &journal.Done{Result: "ok"}}
	again := store.Change{Job: 5, Token: token, Status: "delayed", Finish: at, Plan: plan, Done: &journal.Done{Result: "ok", Again: &journal.Again{}}}
	running := store.Change{Job: 5, Token: token, Status: "running", Start: at}
	row := func(status, owner string, started, finished int64) *rule.Found {
		return &rule.Found{Row: journal.Row{Job: 5, Status: status, Owner: owner, Plan: plan}, Started: started, Finished: finished, Result: "ok"}
	}
	edited := row("running", token, 90, 50)
	edited.Plan = &journal.Plan{Schedule: "every 2d"}
	moved := row("running", token, 90, 50)
	moved.Plan = &journal.Plan{Schedule: "every 1d", Zone: "Asia/Tokyo"}
	unplanned := again
	unplanned.Plan = nil
	reset := row("delayed", token, 90, 150)
	const applied, lost, passed = "applied", "lost", "passed"
	for _, c := range []struct {
		name         string
		change       store.Change
		found        *rule.Found
		want, unused string
	}{
		{"came back before", again, row("delayed", "", 90, 100), applied, applied},
		{"came back, and is claimed since", again, row("accepted", "@other0000", 90, 100), applied, applied},
		{"came back, and has ended elsewhere since", again, row("delayed", "", 110, 120), applied, lost},
		{"came back, and is done elsewhere since", again, row("done", "", 110, 120), applied, lost},
		{"done, and the row shows a newer end", done, row("delayed", "", 110, 120), applied, lost},
		{"an older end", again, row("delayed", "", 60, 99), lost, lost},
		{"a newer end, and our token", again, reset, lost, lost},
		{"started before, and came back since", running, row("delayed", "", 100, 120), applied, lost},
		{"a newer start", running, row("running", "@other0000", 110, 100), passed, lost},
		{"an older start", running, row("running", "@other0000", 90, 50), lost, lost},
		{"edited", again, edited, "edited", "held"},
		{"its zone was edited", done, moved, "edited", "held"},
		{"edited, but its end is the last", unplanned, edited, "held", "held"},
		{"as the worker left it", again, row("running", token, 90, 50), "held", "held"},
		{"gone", again, nil, lost, lost},
		{"a release", store.Change{Status: "delayed", Token: token, Plan: plan}, edited, applied, applied},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := []string{word(rule.Judge(c.change, c.found, all)), word(rule.Judge(c.change, c.found, nil))}
			if diff := cmp.Diff([]string{c.want, c.unused}, got); diff != "" {
				t.Errorf("with and without columns (-want +got):\n%s", diff)
			}
		})
	}
	late := row("delayed", "", 110, 120)
	late.Created = 95
	again.Accepted = time.Unix(90, 0)
	if got := rule.Judge(again, late, all); got.Fate != store.Lost || !got.Newer {
		t.Errorf("another job with the same id: %+v", got)
	}
}

func word(o store.Outcome) string {
	switch {
	case o.Passed:
		return "passed"
	case o.Fate == store.Applied:
		return "applied"
	case o.Fate == store.Lost:
		return "lost"
	case o.Fate == store.Edited:
		return "edited"
	}
	return "held"
}
