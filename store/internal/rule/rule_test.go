package rule_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// acceptedAt is a change of a claim that was accepted at another time.
func acceptedAt(change store.Change, accepted int64) store.Change {
	change.Accepted = time.Unix(accepted, 0)
	return change
}

// Regression: a job that got an old id again, after a failover to a replica that lagged, read as
// the old job's end.
func TestJudge(t *testing.T) {
	t.Parallel()
	finish := time.Unix(1700000000, 999)
	done := store.Change{Job: 5, Status: journal.RowDone, Finish: finish, Done: &journal.Done{Result: "ok"}}
	running := store.Change{Job: 5, Status: journal.RowRunning, Start: finish}
	row := journal.Row{Job: 5, Target: "a", Status: journal.RowDone, Owner: "SIGTERM"}
	lost := store.Outcome{Fate: store.Lost, Found: &row}
	another := lost
	another.Newer = true
	ours := journal.Row{Job: 5, Target: "a", Status: journal.RowRunning, Owner: "@abcd01234"}
	unmet := done
	unmet.Token = ours.Owner
	cases := []struct {
		name   string
		change store.Change
		found  *rule.Found
		want   store.Outcome
	}{
		{"a release of a row that is gone", store.Change{Status: journal.RowWaiting}, nil, store.Outcome{}},
		{"a release of a row that another has", store.Change{Status: journal.RowManual}, &rule.Found{Row: row}, store.Outcome{}},
		{"the row is gone", done, nil, store.Outcome{Fate: store.Lost}},
		{"done before", done, &rule.Found{Row: row, Finished: finish.Unix(), Result: "ok"}, store.Outcome{}},
		{"done by another at another time", done, &rule.Found{Row: row, Finished: 1, Result: "ok"}, lost},
		{"done by another with another result", done, &rule.Found{Row: row, Finished: finish.Unix(), Result: "fail"}, lost},
		{"running, and done since", running, &rule.Found{Row: row, Started: finish.Unix()}, store.Outcome{}},
		{"the same end, but a row created since", acceptedAt(done, 1699999999), &rule.Found{Row: row, Created: 1700000000, Finished: finish.Unix(), Result: "ok"}, another},
		{"the same start, but a row created since", acceptedAt(running, 1699999999), &rule.Found{Row: row, Created: 1700000000, Started: finish.Unix()}, another},
		{"created in the second of the claim", acceptedAt(done, 1700000000), &rule.Found{Row: row, Created: 1700000000, Finished: finish.Unix(), Result: "ok"}, store.Outcome{}},
		{"created who knows when", acceptedAt(done, 1699999999), &rule.Found{Row: row, Finished: finish.Unix(), Result: "ok"}, store.Outcome{}},
		{"ours, though the update did not meet it", unmet, &rule.Found{Row: ours}, store.Outcome{Fate: store.Held, Note: "the update met no row, though the row is as the worker left it"}},
		{"running, but another ran it", running, &rule.Found{Row: row, Started: finish.Unix() + 1}, lost},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, rule.Judge(c.change, c.found, nil)); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}
