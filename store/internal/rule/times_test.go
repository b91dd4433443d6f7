package rule_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
	"jobd/store/storetest/must"
)

func brackets(name string) string { return "[" + name + "]" }

// all uses all optional columns.
var all = store.Uses(store.TimeColumns())

// What a change says of time is set where the column is jobd's, and nowhere else.
func TestWriteSetsTheColumnsThatAreUsed(t *testing.T) {
	t.Parallel()
	at := time.Unix(5, 0)
	plan := &journal.Plan{RunAt: 11, PlannedAt: 12, Attempts: 2}
	end := &journal.Done{Result: "fail"}
	again := &journal.Done{Result: "fail", Again: &journal.Again{RunAt: 21, PlannedAt: 22, Attempts: 3, Why: journal.AgainRetry}}
	const ended = "[status] = ?, [time_finished] = ?, [result] = ?, [return_code] = ?, [sig] = ?, [stdout] = ?, [stderr] = ?"
	values := func(status string, more ...any) []any {
		return append([]any{status, int64(7), "fail", nil, nil, "", ""}, more...)
	}
	const times = ", [run_at] = ?, [planned_at] = ?, [attempts] = ?"
	for _, c := range []struct {
		name   string
		uses   store.Uses
		change store.Change
		want   string
		args   []any
	}{
		{"running", all, store.Change{Status: "running", Start: at, Attempts: 3}, "[status] = ?, [time_started] = ?, [attempts] = ?", []any{"running", int64(5), int64(3)}},
		{"running, who knows for which time", all, store.Change{Status: "running", Start: at}, "[status] = ?, [time_started] = ?", []any{"running", int64(5)}},
		{"running, unused", nil, store.Change{Status: "running", Start: at, Attempts: 3}, "[status] = ?, [time_started] = ?", []any{"running", int64(5)}},
		{"done", all, store.Change{Status: "done", Finish: time.Unix(7, 0), Attempts: 3, Plan: plan, Done: end}, ended + ", [attempts] = ?, [unique_key] = ?", values("done", int64(3), nil)},
		{"done, unused", nil, store.Change{Status: "done", Finish: time.Unix(7, 0), Attempts: 3, Plan: plan, Done: end}, ended, values("done")},
		{"coming back", all, store.Change{Status: "delayed", Finish: time.Unix(7, 0), Attempts: 9, Plan: plan, Done: again}, ended + times, values("delayed", int64(21), int64(22), int64(3))},
		{
			"given back", all,
			store.Change{Status: "delayed", Plan: plan},
			"[status] = ?, [sig] = ?, [time_started] = ?" + times,
			[]any{"delayed", nil, int64(0), int64(11), int64(12), int64(2)},
		},
		{
			"given back, only run_at is used",
			store.Uses{"run_at"},
			store.Change{Status: "waiting", Plan: plan},
			"[status] = ?, [sig] = ?, [time_started] = ?, [run_at] = ?",
			[]any{"waiting", nil, int64(0), int64(11)},
		},
		{"given back, unused", nil, store.Change{Status: "waiting", Plan: plan}, "[status] = ?, [sig] = ?, [time_started] = ?", []any{"waiting", nil, int64(0)}},
		{
			"cancelled", all,
			store.Change{Status: "ignored", Plan: plan, Done: &journal.Done{}},
			"[status] = ?, [sig] = ?, [time_started] = ?, [stderr] = ?, [unique_key] = ?",
			[]any{"ignored", nil, int64(0), "", nil},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, args := rule.Set(shape("sig", c.uses).Write(c.change, false), brackets)
			if diff := cmp.Diff(c.want, got) + cmp.Diff(c.args, args); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What a claim makes of rows, with the guard, and what of that is set where nothing is used.
func TestVerdictsOfTime(t *testing.T) {
	t.Parallel()
	waiting := journal.Row{Job: 1, Status: "waiting", Plan: &journal.Plan{}}
	delayed := journal.Row{Job: 1, Status: "delayed", Plan: &journal.Plan{RunAt: 11, PlannedAt: 12, Attempts: 1}}
	const free, late = "status IN ('waiting','manual')", "status = 'delayed'"
	for _, c := range []struct {
		name     string
		row      journal.Row
		payloads []journal.Payload
		guard    string
		want     string
		args     []any
		unused   string
	}{
		{
			"waiting, planned for now", waiting,
			[]journal.Payload{journal.Accepted{Token: "@t", PlannedAt: 9}},
			free,
			"[status] = ?, [sig] = ?, [planned_at] = ?",
			[]any{"accepted", "@t", int64(9)},
			"[status] = ?, [sig] = ?",
		},
		{
			"delayed, and planned_at stays", delayed,
			[]journal.Payload{journal.Accepted{Token: "@t", PlannedAt: 12}},
			late,
			"[status] = ?, [sig] = ?",
			[]any{"accepted", "@t"},
			"[status] = ?, [sig] = ?",
		},
		{
			"delayed, and started", delayed,
			[]journal.Payload{journal.Accepted{Token: "@t", PlannedAt: 11}, journal.Running{Attempt: 2}},
			late,
			"[status] = ?, [sig] = ?, [time_started] = ?, [planned_at] = ?, [attempts] = ?",
			[]any{"running", "@t", int64(5), int64(11), int64(2)},
			"[status] = ?, [sig] = ?, [time_started] = ?",
		},
		{
			"planned anew", delayed,
			[]journal.Payload{journal.Planned{To: journal.Again{RunAt: 31, PlannedAt: 32}}},
			late,
			"[status] = ?, [run_at] = ?, [planned_at] = ?, [attempts] = ?",
			[]any{"delayed", int64(31), int64(32), int64(0)},
			"[status] = ?",
		},
		{
			"not to be understood", delayed,
			[]journal.Payload{journal.Ignored{Reason: "why", Told: true}},
			late,
			"[status] = ?, [stderr] = ?, [unique_key] = ?",
			[]any{"ignored", "", nil},
			"[status] = ?, [stderr] = ?",
		},
		{
			"ignored", waiting,
			[]journal.Payload{journal.Ignored{Reason: "why"}},
			free,
			"[status] = ?, [unique_key] = ?",
			[]any{"ignored", nil},
			"[status] = ?",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var events []journal.Event
			for _, payload := range c.payloads {
				events = append(events, journal.Event{Job: 1, Time: time.Unix(5, 0), Payload: payload})
			}
			verdicts, err := rule.Verdicts([]journal.Row{c.row}, events)
			if err != nil || len(verdicts) != 1 {
				t.Fatalf("%v, %v", verdicts, err)
			}
			got, args := rule.Set(verdicts[0].Write(shape("sig", all)), brackets)
			unused, _ := rule.Set(verdicts[0].Write(shape("sig", nil)), brackets)
			if diff := cmp.Diff(c.guard, verdicts[0].Guard()) + cmp.Diff(c.want, got) + cmp.Diff(c.args, args) + cmp.Diff(c.unused, unused); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for want, row := range map[string]journal.Row{
		"claim job 1: planned, but its row is waiting: only delayed rows are planned":                     waiting,
		"claim job 1: planned, but its row is delayed: only waiting, manual and delayed rows are claimed": {Job: 1, Status: "delayed"},
	} {
		if _, err := rule.Verdicts([]journal.Row{row}, []journal.Event{{Job: 1, Payload: journal.Planned{}}}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A retry begins a new run.
func TestARetryForgetsThePlan(t *testing.T) {
	t.Parallel()
	row := journal.Row{Job: 1, Status: "done", Finished: 7, Plan: &journal.Plan{RunAt: 1, PlannedAt: 2, Attempts: 3}}
	const cleared = "[status] = ?, [sig] = ?, [time_started] = ?, [result] = ?, [return_code] = ?, [stdout] = ?, [stderr] = ?"
	for to, want := range map[string]string{
		"waiting": cleared + ", [run_at] = ?, [planned_at] = ?, [attempts] = ?",
		"manual":  cleared + ", [planned_at] = ?, [attempts] = ?",
	} {
		verdicts := must.Get(rule.Verdicts([]journal.Row{row}, []journal.Event{{Job: 1, Payload: journal.Retried{From: "done", To: to, Finished: 7}}}))(t)
		if got, _ := rule.Set(verdicts[0].Write(shape("sig", all)), brackets); got != want {
			t.Errorf("%s: SET %s, want %s", to, got, want)
		}
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
