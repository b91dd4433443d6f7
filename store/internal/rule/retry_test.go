package rule_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

func TestNothingInAColumn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		column string
		is     rule.Column
		want   string
	}{
		{"result", rule.Column{Nullable: true}, "[result] = ? [<nil>]"},
		{"result", rule.Column{Holds: rule.Text}, "[result] = ? []"},
		{"result", rule.Column{Holds: rule.Words}, ""}, // an enum without a word for nothing
		{"return_code", rule.Column{Holds: rule.Number}, "[return_code] = ? [0]"},
		{"stdout", rule.Column{Holds: rule.Text, Nullable: true}, "[stdout] = ? [<nil>]"},
		{"stderr", rule.Column{Holds: rule.Bytes}, "[stderr] = ? []"},
	} {
		verdicts := must.Get(rule.Verdicts([]journal.Row{{Job: 1, Status: "done"}}, []journal.Event{{Job: 1, Payload: journal.Retried{From: "done", To: "manual"}}}))(t)
		s := shape("sig", nil)
		s.Columns = map[string]rule.Column{c.column: c.is}
		got := ""
		for _, one := range verdicts[0].Write(s) {
			if text, args := rule.Set([]rule.Assignment{one}, brackets); strings.HasPrefix(text, "["+c.column+"]") {
				got = fmt.Sprintf("%s %v", text, args)
			}
		}
		if got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// An end that is told again, as after a kill, was shown where the row was set back since: it keeps
// the time of that end.
func TestAnEndThatIsToldAgainToARowThatWasSetBack(t *testing.T) {
	t.Parallel()
	change := store.Change{Status: journal.RowDone, Token: "@t", Finish: time.Unix(7, 0), Done: &journal.Done{Result: "ok"}}
	for name, c := range map[string]struct {
		found rule.Found
		want  store.Fate
	}{
		"waiting":                       {rule.Found{Row: journal.Row{Status: "waiting"}, Finished: 7}, store.Applied},
		"claimed since":                 {rule.Found{Row: journal.Row{Status: "running", Owner: "@u"}, Finished: 7}, store.Applied},
		"set back before it ended":      {rule.Found{Row: journal.Row{Status: "waiting"}}, store.Lost},
		"set back after an earlier end": {rule.Found{Row: journal.Row{Status: "waiting"}, Finished: 6}, store.Lost},
		"done otherwise, at the time":   {rule.Found{Row: journal.Row{Status: "done"}, Finished: 7, Result: "fail"}, store.Lost},
		"another job that got the id":   {rule.Found{Row: journal.Row{Status: "waiting"}, Finished: 7, Created: 9}, store.Lost},
	} {
		change := change
		change.Accepted = time.Unix(5, 0)
		if got := rule.Judge(change, &c.found, nil); got.Fate != c.want {
			t.Errorf("%s: fate %d, want %d", name, got.Fate, c.want)
		}
	}
}

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
			check.Diff(t, c.want, rule.Judge(c.change, c.found, nil), "outcome")
		})
	}
}
