package board

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
)

// weighed is what a claim at noon makes of a row of target a.
func weighed(t *testing.T, row journal.Row, timing Timing) (payload journal.Payload) {
	t.Helper()
	b := New(Config{Targets: map[string]int{"a": 1}, Again: true, Timing: timing})
	row.Job, row.Target = 1, "a"
	drafts := b.Accept(&Claim{}, row, "@abcdefghi", "", noon)
	if len(drafts) != 1 {
		t.Fatalf("journalled: %+v", drafts)
	}
	return drafts[0].Payload
}

func TestWhatAClaimMakesOfAPlan(t *testing.T) {
	t.Parallel()
	at := noon.Unix()
	run := func(from string, plannedAt int64, plan journal.Plan) journal.Payload {
		return journal.Accepted{Target: "a", Token: "@abcdefghi", From: from, Plan: &plan, PlannedAt: plannedAt}
	}
	anew := func(from journal.Plan, next int64, reason string) journal.Payload {
		return journal.Planned{
			Target: "a", From: from, To: journal.Again{RunAt: next, PlannedAt: next, Why: journal.AgainSchedule}, Reason: reason,
		}
	}
	const planned = "its schedule is planned"
	late := func(seconds int64) string {
		return "it was missed: planned for " + utc(at-seconds) + ", met " + (time.Duration(seconds) * time.Second).String() + " later"
	}
	plan := func(schedule string, at int64) journal.Plan {
		return journal.Plan{Schedule: schedule, RunAt: at, PlannedAt: at}
	}
	retried := journal.Plan{Schedule: "hourly :00", RunAt: at - 9000, PlannedAt: at - 9999, Attempts: 1}
	byHand := journal.Plan{Schedule: "daily 02:00", RunAt: at - 10, PlannedAt: at - 36000}
	early := journal.Plan{Schedule: "daily 02:00", RunAt: at - 10, PlannedAt: at + 36000}
	tests := []struct {
		name   string
		status string
		plan   journal.Plan
		skip   bool
		want   journal.Payload
	}{
		{"waits", journal.RowWaiting, journal.Plan{}, false, run("", at, journal.Plan{})},
		{"waits, recurs", journal.RowWaiting, plan("daily 02:00", 0), true, run("", at, plan("daily 02:00", 0))},
		{"waits, was planned long ago", journal.RowWaiting, plan("daily 02:00", at-9e6), true, run("", at-9e6, plan("daily 02:00", at-9e6))},
		{"is due", journal.RowDelayed, journal.Plan{RunAt: at - 5}, false, run("delayed", at-5, journal.Plan{RunAt: at - 5})},
		{"is long due", journal.RowDelayed, journal.Plan{RunAt: 5}, true, run("delayed", 5, journal.Plan{RunAt: 5})},
		{"is due whenever", journal.RowDelayed, journal.Plan{}, true, run("delayed", at, journal.Plan{})},
		{"first run of an interval", journal.RowDelayed, plan("every 15m", 0), true, run("delayed", at, plan("every 15m", 0))},
		{"first run of a calendar", journal.RowDelayed, plan("daily 14:00", 0), false, anew(plan("daily 14:00", 0), at+7200, planned)},
		{"first run at this very time", journal.RowDelayed, plan("daily 12:00", 0), false, anew(plan("daily 12:00", 0), at+86400, planned)},
		{"its run is due", journal.RowDelayed, plan("daily 12:00", at), true, run("delayed", at, plan("daily 12:00", at))},
		{"five minutes late", journal.RowDelayed, plan("daily 11:55", at-300), true, run("delayed", at-300, plan("daily 11:55", at-300))},
		{"missed", journal.RowDelayed, plan("daily 11:54", at-360), true, anew(plan("daily 11:54", at-360), at+86040, late(360))},
		{"missed, and made up for", journal.RowDelayed, plan("daily 11:54", at-360), false, run("delayed", at-360, plan("daily 11:54", at-360))},
		{"the next one is due", journal.RowDelayed, plan("every 30s", at-30), true, run("delayed", at-30, plan("every 30s", at-30))},
		{"behind the next one", journal.RowDelayed, plan("every 30s", at-31), true, anew(plan("every 30s", at-31), at+29, late(31))},
		{"a retry is never missed", journal.RowDelayed, retried, true, run("delayed", at-9999, retried)},
		{"missed, but wanted by hand", journal.RowDelayed, byHand, true, run("delayed", at-36000, byHand)},
		{"wanted by hand before its time", journal.RowDelayed, early, true, run("delayed", at+36000, early)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := weighed(t, journal.Row{Status: test.status, Plan: &test.plan}, Timing{SkipMissed: test.skip})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("journalled (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARowThatSaysWhatCannotBeIsIgnoredAndTold(t *testing.T) {
	t.Parallel()
	tests := []struct {
		plan journal.Plan
		want string
	}{
		{journal.Plan{RunAt: noon.UnixMilli()}, "run_at = 1772452800000: it is seconds since 1970, not milliseconds"},
		{journal.Plan{RunAt: century}, "run_at = 4102444800: it is "},
		{journal.Plan{RunAt: 1, PlannedAt: -1}, "planned_at = -1: it is "},
		{journal.Plan{Attempts: -3}, "attempts = -3: it is how many starts there were"},
		{journal.Plan{MaxAttempts: -1}, "max_attempts = -1: it is how many starts there may be"},
		{journal.Plan{Timeout: -600}, "timeout = -600: it is seconds"},
		{journal.Plan{Timeout: 1 << 40}, "timeout = 1099511627776: it is seconds, up to a hundred years"},
		{journal.Plan{Schedule: "now and then"}, `schedule "now and then": `},
		{journal.Plan{Schedule: "daily 02:30", Zone: "Europe/Berlyn"}, `time zone "Europe/Berlyn" is not known`},
		{journal.Plan{Schedule: "daily 02:30", Zone: "+02:00"}, `time zone "+02:00" is not known`},
		{journal.Plan{Schedule: "every 36500d", RunAt: 1, PlannedAt: 1}, ""},
	}
	for _, test := range tests {
		got := weighed(t, journal.Row{Status: journal.RowDelayed, Plan: &test.plan}, Timing{})
		ignored, is := got.(journal.Ignored)
		if is != (test.want != "") || !strings.HasPrefix(ignored.Reason, test.want) || is && !ignored.Told {
			t.Errorf("%+v: %+v, want %q", test.plan, got, test.want)
		}
	}
}

// What the table says of a row whose ignoring is in doubt counts for its target: the worker claims
// for that again.
func TestABadRowWhoseCommitIsInDoubt(t *testing.T) {
	t.Parallel()
	b := New(Config{Targets: map[string]int{"a": 1}, Delays: true})
	row := journal.Row{Job: 1, Target: "a", Status: journal.RowDelayed, Plan: &journal.Plan{Attempts: -1}}
	var c Claim
	drafts := b.Accept(&c, row, "@abcdefghi", "", noon)
	b.Decided(&c, []journal.Event{{Seq: 1, Job: 1, Payload: drafts[0].Payload}})
	b.Doubt(&c, nil)
	if skipped := b.Skipped(func(target string) bool { return target == "a" }); len(skipped) != 1 {
		t.Fatalf("left out of claims: %v", skipped)
	}
	b.Judge([]int64{1}, []journal.Row{row}, nil, true, noon)
	lost := b.LostDoubts()
	if len(lost) != 1 || lost[0].Payload.Kind() != journal.KindConflict {
		t.Fatalf("of a row that is delayed still is journalled: %+v", lost)
	}
	if e := b.GivenUp(lost); !cmp.Equal(e.Poll, []string{"a"}) {
		t.Errorf("targets that are looked at: %v", e.Poll)
	}
}
