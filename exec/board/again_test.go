package board

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// noon is 2026-03-02 12:00:00 UTC, a Monday.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// The table "Ends" of docs/time.md.
func TestWhatFollowsTheEndOfARun(t *testing.T) {
	t.Parallel()
	at := noon.Unix()
	hourly := journal.Plan{Schedule: "hourly :00", PlannedAt: at}
	next := &journal.Again{RunAt: at + 3600, PlannedAt: at + 3600, Why: journal.AgainSchedule}
	retry := func(attempt int) *journal.Again {
		return &journal.Again{RunAt: at + 70, PlannedAt: at, Attempts: int64(attempt), Why: journal.AgainRetry}
	}
	tests := []struct {
		name string
		plan *journal.Plan
		end  runEnd // of a run that was planned for noon, and ended a minute later; a retry waits ten seconds
		want *journal.Again
	}{
		{"well", &journal.Plan{}, runEnd{}, nil},
		{"well, and recurs", &hourly, runEnd{}, next},
		{"failed", &journal.Plan{}, runEnd{failed: true}, nil},
		{"failed, attempts left", &journal.Plan{}, runEnd{failed: true, attempts: 3}, retry(1)},
		{"failed, the last attempt", &journal.Plan{}, runEnd{failed: true, attempt: 3, attempts: 3}, nil},
		{"failed, beyond the last attempt", &journal.Plan{}, runEnd{failed: true, attempt: 9, attempts: 3}, nil},
		{"failed, recurs", &hourly, runEnd{failed: true}, next},
		{"failed, recurs, attempts left", &hourly, runEnd{failed: true, attempts: 2}, retry(1)},
		{"failed, recurs, second attempt of three", &hourly, runEnd{failed: true, attempt: 2, attempts: 3}, retry(2)},
		{"failed, recurs, the last attempt", &hourly, runEnd{failed: true, attempt: 2, attempts: 2}, next},
		{"failed, the next run comes before the retry", &hourly, runEnd{failed: true, attempts: 2, retry: at + 3660}, next},
		{"failed, the next run comes with the retry", &hourly, runEnd{failed: true, attempts: 2, retry: at + 3600}, next},
		{"failed for ever, attempts left", &journal.Plan{}, runEnd{failed: true, attempts: 3, final: true}, nil},
		{"failed for ever, recurs, attempts left", &hourly, runEnd{failed: true, attempts: 3, final: true}, next},
		{"by hand, failed, attempts left", &journal.Plan{}, runEnd{claim: journal.Accepted{Manual: true}, failed: true, attempts: 3}, nil},
		{"by hand, would recur", &hourly, runEnd{claim: journal.Accepted{Manual: true}}, nil},
		{"the table says nothing of time", nil, runEnd{failed: true, attempts: 3}, nil},
		{"intervals go on from the plan", &journal.Plan{Schedule: "every 50s"}, runEnd{}, &journal.Again{RunAt: at + 100, PlannedAt: at + 100, Why: journal.AgainSchedule}},
		{
			"what passes while it runs is dropped", &hourly,
			runEnd{now: at + 3*3600 + 5},
			&journal.Again{RunAt: at + 4*3600, PlannedAt: at + 4*3600, Why: journal.AgainSchedule},
		},
		{
			"the zone of the row", &journal.Plan{Schedule: "daily 14:00", Zone: "Europe/Berlin"},
			runEnd{},
			&journal.Again{RunAt: at + 3600, PlannedAt: at + 3600, Why: journal.AgainSchedule},
		},
		{"a clock that is behind does not repeat a run", &hourly, runEnd{now: at - 1}, next},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := test.end
			e.claim.Plan, e.claim.PlannedAt, e.attempt = test.plan, at, max(e.attempt, 1)
			if e.now == 0 {
				e.now = at + 60
			}
			if e.retry == 0 {
				e.retry = at + 70
			}
			got, note := e.again()
			if diff := cmp.Diff(test.want, got); diff != "" || note != "" {
				t.Errorf("what follows, and %q (-want +got):\n%s", note, diff)
			}
		})
	}
}

func TestAScheduleThatEndsSaysWhy(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		schedule string
		note     string
	}{
		"no time is left":     {"every 36500d", `it recurs no more: schedule "every 36500d" has no further time before the year 2100`},
		"it can't be read":    {"sometimes", `it recurs no more: schedule "sometimes": `},
		"its zone is unknown": {"daily 12:00", `it recurs no more: time zone "Nowhere"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := journal.Plan{Schedule: test.schedule}
			if test.schedule == "daily 12:00" {
				plan.Zone = "Nowhere"
			}
			again, note := runEnd{claim: journal.Accepted{Plan: &plan, PlannedAt: noon.Unix()}, now: noon.Unix()}.again()
			if again != nil || len(note) < len(test.note) || note[:len(test.note)] != test.note {
				t.Errorf("%+v, %q; want nothing, and %q", again, note, test.note)
			}
		})
	}
}

func TestRetriesWaitEverLonger(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		terms   Terms
		attempt int64
		luck    float64
		want    int64
	}{
		{"first", Terms{First: 10 * time.Second, Most: time.Hour}, 1, 0.5, 10},
		{"second", Terms{First: 10 * time.Second, Most: time.Hour}, 2, 0.5, 20},
		{"fifth", Terms{First: 10 * time.Second, Most: time.Hour}, 5, 0.5, 160},
		{"shortest", Terms{First: 100 * time.Second, Most: time.Hour}, 1, 0, 80},
		{"longest", Terms{First: 100 * time.Second, Most: time.Hour}, 1, 1, 120},
		{"never beyond the most", Terms{First: 10 * time.Second, Most: time.Hour}, 60_000, 1, 3600},
		{"shorter than the most", Terms{First: 10 * time.Second, Most: time.Hour}, 60_000, 0, 2880},
		{"one value", Terms{First: time.Minute, Most: time.Minute}, 7, 1, 60},
		{"a short one", Terms{First: time.Second, Most: time.Hour}, 1, 0, 1},
		{"nothing said", Terms{}, 1, 0.5, 10},
		{"nothing said, at most", Terms{}, 100, 1, 3600},
	}
	for _, test := range tests {
		check.Equal(t, test.terms.retry(noon, test.attempt, test.luck)-noon.Unix(), test.want, "%s: … s", test.name)
	}
}

// A wait of a second was anything from 0.08 to 0.99 s: the end of the run was cut to whole seconds.
func TestARetryIsDueWithinAFifthOfItsWait(t *testing.T) {
	t.Parallel()
	for first, latest := range map[time.Duration]time.Duration{ // where there may be no full second within the fifth: the next one
		time.Second: 1800 * time.Millisecond, 2 * time.Second: 2600 * time.Millisecond, 10 * time.Second: 12 * time.Second, time.Hour: 72 * time.Minute,
	} {
		b := New(Config{Again: true})
		b.SetAhead(300 * time.Millisecond)
		b.SetTiming(Timing{Terms: map[string]Terms{"a": {Attempts: 2, First: first, Most: 24 * time.Hour}}})
		j := &Job{target: &Target{name: "a"}, attempt: 1}
		for _, millis := range []int{0, 1, 300, 699, 700, 701, 999} {
			ended := noon.Add(time.Duration(millis) * time.Millisecond)
			for range 100 {
				wait := time.Unix(b.nextTry(j, journal.Done{}, ended), 0).Sub(ended.Add(300 * time.Millisecond))
				if wait < first*8/10 || wait > latest {
					t.Fatalf("a run that ended at .%03d s is tried again after %s, not %s", millis, wait, first)
				}
			}
		}
	}
}

func TestAnEditedScheduleIsPlannedAnew(t *testing.T) {
	t.Parallel()
	at := noon.Unix()
	claim := journal.Accepted{Token: "@abcdefghi", PlannedAt: at, Plan: &journal.Plan{Schedule: "hourly :00", MaxAttempts: 3}}
	recurs := journal.Done{Result: "ok", Again: &journal.Again{RunAt: at + 3600, PlannedAt: at + 3600, Why: journal.AgainSchedule}}
	retried := journal.Done{Result: "fail", Again: &journal.Again{RunAt: at + 100, PlannedAt: at, Attempts: 2, Why: journal.AgainRetry}}
	cancelled := cancelledDone(journal.Done{Result: "ok"}, "10.0.0.1:99")
	tests := []struct {
		name  string
		done  journal.Done
		claim journal.Accepted
		found journal.Plan
		want  journal.Replanned
	}{
		{
			"another one", recurs, claim,
			journal.Plan{Schedule: "every 7m"},
			journal.Replanned{Again: &journal.Again{RunAt: at + 420, PlannedAt: at + 420, Why: journal.AgainSchedule}},
		},
		{
			"another zone", recurs, claim,
			journal.Plan{Schedule: "daily 00:00", Zone: "Asia/Tokyo"},
			journal.Replanned{Again: &journal.Again{RunAt: at + 3*3600, PlannedAt: at + 3*3600, Why: journal.AgainSchedule}},
		},
		{"emptied", recurs, claim, journal.Plan{}, journal.Replanned{}},
		{"emptied before a retry", retried, claim, journal.Plan{}, journal.Replanned{}},
		{"a retry stays where it comes first", retried, claim, journal.Plan{Schedule: "every 7m"}, journal.Replanned{Again: retried.Again}},
		{
			"a retry goes where the next run comes first", retried, claim,
			journal.Plan{Schedule: "every 75s"},
			journal.Replanned{Again: &journal.Again{RunAt: at + 75, PlannedAt: at + 75, Why: journal.AgainSchedule}},
		},
		{"cancelled", cancelled, claim, journal.Plan{Schedule: "every 7m"}, journal.Replanned{}},
		{"by hand", recurs, journal.Accepted{Token: claim.Token, Manual: true}, journal.Plan{Schedule: "every 7m"}, journal.Replanned{}},
		{
			"it recurs from now on",
			journal.Done{Result: "ok"},
			journal.Accepted{Token: claim.Token, PlannedAt: at, Plan: &journal.Plan{}},
			journal.Plan{Schedule: "every 7m"},
			journal.Replanned{Again: &journal.Again{RunAt: at + 420, PlannedAt: at + 420, Why: journal.AgainSchedule}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.want.Token, test.want.Schedule, test.want.Zone = claim.Token, test.found.Schedule, test.found.Zone
			got := New(Config{}).Replan(test.done, test.claim, test.found, at+60)
			check.Equal(t, cmp.Diff(test.want, got), "", "planned anew (-want +got)")
		})
	}
	r := New(Config{}).Replan(recurs, claim, journal.Plan{Schedule: "sometimes"}, at)
	if r.Again != nil || r.Note == "" {
		t.Errorf("one that can't be read: %+v", r)
	}
}

// Run-now takes the coming run, be it that no claim has planned it yet: the run was made again at its time.
func TestRunNowTakesTheComingRun(t *testing.T) {
	t.Parallel()
	now, tomorrow := noon.Unix(), noon.Add(12*time.Hour).Unix()
	for name, test := range map[string]struct {
		said journal.Plan
		want int64 // the planned start of the run
		next int64 // of the one behind it
	}{
		"planned":                      {journal.Plan{Schedule: "daily 00:00", RunAt: tomorrow, PlannedAt: tomorrow}, tomorrow, tomorrow + 86400},
		"given, and not planned":       {journal.Plan{Schedule: "daily 00:00", RunAt: tomorrow}, tomorrow, tomorrow + 86400},
		"neither given nor planned":    {journal.Plan{Schedule: "daily 00:00"}, tomorrow, tomorrow + 86400},
		"intervals, given":             {journal.Plan{Schedule: "every 1h", RunAt: now + 600}, now + 600, now + 600 + 3600},
		"intervals, which run at once": {journal.Plan{Schedule: "every 1h"}, 0, now + 3600},
		"it does not recur":            {journal.Plan{RunAt: tomorrow}, tomorrow, 0},
	} {
		b := New(Config{Again: true, Delays: true})
		row := journal.Row{Job: 1, Target: "a", Status: journal.RowDelayed, Plan: &test.said}
		drafts, refusal := b.PlanRow(RunNow, row, "somebody", noon)
		must.Equal(t, refusal, "", "%s", name)
		to := drafts[0].Payload.(journal.Planned).To
		if to.RunAt != now || to.PlannedAt != test.want {
			t.Errorf("%s: it is planned as %+v, want for %d", name, to, test.want)
		}
		claimed := test.said
		claimed.RunAt, claimed.PlannedAt = to.RunAt, to.PlannedAt
		row.Plan = &claimed
		p := b.weigh(row, now)
		again, _ := runEnd{claim: journal.Accepted{Plan: &claimed, PlannedAt: p.plannedAt}, now: now + 1}.again()
		if got := nextOf(again); p.again != nil || got != test.next {
			t.Errorf("%s: it runs next at %d, want %d", name, got, test.next)
		}
	}
}

// A schedule that is paused is due when nobody looks any more, and goes on with the next run that is still
// to come; nothing is made up for.
func TestSchedulesArePausedAndContinued(t *testing.T) {
	t.Parallel()
	now, tomorrow := noon.Unix(), noon.Add(12*time.Hour).Unix()
	later := noon.Add(36 * time.Hour) // after the run of tomorrow, which did not take place
	for name, test := range map[string]struct {
		said   journal.Plan
		paused journal.Plan
		soon   int64 // when it is due that is continued at once
		late   int64 // and a day and a half later
	}{
		"planned": {
			journal.Plan{Schedule: "daily 00:00", RunAt: tomorrow, PlannedAt: tomorrow},
			journal.Plan{Schedule: "daily 00:00", RunAt: journal.PausedAt, PlannedAt: tomorrow},
			tomorrow, tomorrow + 86400 + 86400,
		},
		"between two attempts": {
			journal.Plan{Schedule: "daily 00:00", RunAt: now + 10, PlannedAt: now - 43200, Attempts: 2},
			journal.Plan{Schedule: "daily 00:00", RunAt: journal.PausedAt, PlannedAt: now - 43200, Attempts: 2},
			tomorrow, tomorrow + 86400 + 86400,
		},
		"intervals": {
			journal.Plan{Schedule: "every 1h", RunAt: now + 600, PlannedAt: now + 600},
			journal.Plan{Schedule: "every 1h", RunAt: journal.PausedAt, PlannedAt: now + 600},
			now + 600, now + 600 + 36*3600,
		},
		"not planned yet": {journal.Plan{Schedule: "daily 00:00"}, journal.Plan{Schedule: "daily 00:00", RunAt: journal.PausedAt}, 0, 0},
	} {
		b := New(Config{Again: true, Delays: true})
		hand := func(hand Hand, said journal.Plan, at time.Time) journal.Plan {
			drafts, refusal := b.PlanRow(hand, journal.Row{Job: 1, Target: "a", Status: journal.RowDelayed, Plan: &said}, "somebody", at)
			must.Equal(t, refusal, "", "%s", name)
			to := drafts[0].Payload.(journal.Planned).To
			said.RunAt, said.PlannedAt, said.Attempts = to.RunAt, to.PlannedAt, to.Attempts
			return said
		}
		paused := hand(Pause, test.said, noon)
		check.Equal(t, cmp.Diff(test.paused, paused), "", "%s: paused it says (-want +got)", name)
		for at, want := range map[time.Time]int64{noon: test.soon, later: test.late} {
			if got := hand(Continue, paused, at); got.RunAt != want || got.PlannedAt != want || got.Attempts != 0 {
				t.Errorf("%s: continued at %s it is due at %+v, want %d", name, at, got, want)
			}
		}
	}
}

// What can't be done by hand changes nothing, and is told why.
func TestPlansThatAreLeft(t *testing.T) {
	t.Parallel()
	daily := journal.Plan{Schedule: "daily 00:00", RunAt: 10, PlannedAt: 10}
	paused := journal.Plan{Schedule: "daily 00:00", RunAt: journal.PausedAt, PlannedAt: 10}
	for want, test := range map[string]struct {
		hand   Hand
		status string
		said   journal.Plan
	}{
		"its schedule is paused: jobctl schedule continue ends that": {RunNow, journal.RowDelayed, paused},
		"its schedule is paused already":                             {Pause, journal.RowDelayed, paused},
		"its schedule is not paused":                                 {Continue, journal.RowDelayed, daily},
		"it does not recur":                                          {Pause, journal.RowDelayed, journal.Plan{RunAt: 10}},
		"status = running: a schedule can be paused or continued only while its row is delayed": {Pause, journal.RowRunning, daily},
	} {
		b := New(Config{Again: true, Delays: true})
		drafts, refusal := b.PlanRow(test.hand, journal.Row{Job: 1, Target: "a", Status: test.status, Plan: &test.said}, "somebody", noon)
		if refusal != want || len(drafts) > 0 {
			t.Errorf("refused with %q, want %q", refusal, want)
		}
	}
	b := New(Config{Again: true, Delays: true})
	p := b.weigh(journal.Row{Job: 1, Target: "a", Status: journal.RowDelayed, Plan: &paused}, journal.PausedAt-1)
	check.Equal(t, p.bad, "", "a paused row is taken for a mistake")
}

func nextOf(again *journal.Again) int64 {
	if again == nil {
		return 0
	}
	return again.RunAt
}

func TestABackoffGrowsUpToItsBound(t *testing.T) {
	t.Parallel()
	var b Backoff
	for _, most := range []time.Duration{50, 100, 200, 400, 800, 1000, 1000} {
		now := time.Now()
		b.Grow(now, 50*time.Millisecond, time.Second)
		if least := most * 6 / 10; b.Due.Before(now.Add(least*time.Millisecond)) || b.Due.After(now.Add(most*time.Millisecond)) {
			t.Errorf("due after %s, want %d to %d ms", b.Due.Sub(now), least, most)
		}
	}
	if b.Passed(b.Due.Add(-1)) || !b.Passed(b.Due) || b.Passed(time.Now().Add(time.Hour)) {
		t.Error("a try is due once, at its time")
	}
}
