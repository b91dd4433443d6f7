package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/store"
	"jobd/store/storetest"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// daily and weekly are schedules that rows of these tests have.
const daily, weekly = "daily 02:30", "weekly mon 01:00"

// claimedFrom is a claim of a delayed row with a schedule.
func claimedFrom(id int64, plan journal.Plan) journal.Draft {
	return journal.Draft{Job: id, Payload: journal.Accepted{
		Target: "a", Token: token(id), From: journal.RowDelayed, Plan: &plan, PlannedAt: plan.PlannedAt,
	}}
}

// comesBack is an end after which the row is due again.
func comesBack(id, runAt int64) journal.Draft {
	return journal.Draft{Job: id, Payload: journal.Done{
		Result: "ok", Token: token(id), Again: &journal.Again{RunAt: runAt, PlannedAt: runAt, Why: journal.AgainSchedule},
	}}
}

// recurring makes a table whose rows may come back, with rows that bear their claims and that plan.
func recurring(plan journal.Plan, ids ...int64) *storetest.Memory {
	table := storetest.NewMemory("")
	table.Uses = store.TimeColumns()
	for _, id := range ids {
		*table.Put(id, journal.RowRunning, token(id)).Plan = plan
	}
	return table
}

func againAt(runAt int64) journal.Replanned {
	return journal.Replanned{Again: &journal.Again{RunAt: runAt, PlannedAt: runAt, Why: journal.AgainSchedule}}
}

// replanning is a mirror whose rows are planned anew, each time for the same time.
func replanning(source store.Source, bookmark store.Bookmark, table store.Applier, asked *[]string, runAt int64) *store.Mirror {
	return mirrorOf(source, bookmark, table, func(c *store.Config) {
		c.Replan = func(done journal.Done, claim journal.Accepted, found journal.Plan) journal.Replanned {
			*asked = append(*asked, fmt.Sprintf("%s after %s: %s", found.Schedule, claim.Plan.Schedule, done.Result))
			return againAt(runAt)
		}
	})
}

// expectPlan compares a row's status, owner and plan.
func expectPlan(t *testing.T, table *storetest.Memory, id int64, status string, plan journal.Plan) {
	t.Helper()
	table.Change(func() {
		row := table.Rows[id]
		if diff := cmp.Diff(status, row.Status+" "+row.Owner) + cmp.Diff(plan, *row.Plan); diff != "" {
			t.Errorf("row %d (-want +got):\n%s", id, diff)
		}
	})
}

// A row that comes back is delayed in the update that ends its run, and one that is given back
// reads as before its claim.
func TestARowThatComesBack(t *testing.T) {
	t.Parallel()
	plan := journal.Plan{RunAt: 100, PlannedAt: 90, Attempts: 1, Schedule: daily}
	j, table := openJournal(t), recurring(plan, 1, 2, 3, 4)
	m := newMirror(j, table)
	given := make(chan []string, 10)
	m.OnGivenBack = func(targets []string) { given <- targets }
	run(t, m)
	second := func(id int64) journal.Draft {
		return journal.Draft{Job: id, Payload: journal.Running{Attempt: 2, Token: token(id)}}
	}
	seq := add(t, j, claimedFrom(1, plan), second(1), comesBack(1, 200), claimedFrom(2, plan), second(2),
		journal.Draft{Job: 2, Payload: journal.Released{Token: token(2), From: journal.RowDelayed, Plan: &plan}},
		claimedFrom(3, plan), second(3), journal.Draft{Job: 3, Payload: journal.Done{Result: "fail", Token: token(3)}},
		claimedFrom(4, plan), second(4))
	shown(t, m, seq)
	expectPlan(t, table, 1, "delayed ", journal.Plan{RunAt: 200, PlannedAt: 200, Schedule: daily})
	expectPlan(t, table, 2, "delayed ", plan)
	started := plan
	started.Attempts = 2
	expectPlan(t, table, 3, "done ", started)
	expectPlan(t, table, 4, "running "+token(4), started)
	if got := <-given; !slices.Equal(got, []string{"a"}) {
		t.Errorf("given back: %v", got)
	}
}

// The schedule of a row is edited while it runs, once or again and again: what follows is planned
// from what was found, journalled before the row says it, and once a try.
func TestAnEditedScheduleIsPlannedAnew(t *testing.T) {
	t.Parallel()
	plan := journal.Plan{RunAt: 100, PlannedAt: 100, Schedule: daily}
	j, table := openJournal(t), recurring(plan, 1, 2, 3, 4, 5)
	edit := func(id int64, schedule string) { table.Rows[id].Plan.Schedule = schedule }
	edit(1, weekly)
	edit(2, "garbage")
	edit(3, "")
	edit(4, weekly)
	edit(5, weekly)
	var asked []string
	edits := 0
	table.OnChange = func(c store.Change) { // job 4 is edited each time before the update
		if c.Job == 4 && edits < 4 {
			edits++
			table.Rows[4].Plan.Schedule = fmt.Sprintf("every %dd", edits)
		}
	}
	m := newMirror(j, table)
	m.Replan = func(done journal.Done, claim journal.Accepted, found journal.Plan) journal.Replanned {
		asked = append(asked, fmt.Sprintf("%s after %s: %s", found.Schedule, claim.Plan.Schedule, done.Result))
		switch found.Schedule {
		case "garbage":
			return journal.Replanned{Note: "no such schedule"}
		case "":
			return journal.Replanned{}
		}
		return againAt(700)
	}
	notes := map[int64]string{}
	before := table.OnChange
	table.OnChange = func(c store.Change) {
		before(c)
		notes[c.Job] = c.Done.Note
	}
	drafts := []journal.Draft{}
	for id := int64(1); id <= 4; id++ {
		drafts = append(drafts, claimedFrom(id, plan), running(id), comesBack(id, 200))
	}
	cancelled := journal.Done{Result: "fail", Token: token(5), Reason: "cancelled"}
	seq := add(t, j, append(drafts, claimedFrom(5, plan), running(5), journal.Draft{Job: 5, Payload: cancelled})...)
	run(t, m)
	shown(t, m, seq)
	started := func(schedule string, again int64) journal.Plan {
		return journal.Plan{RunAt: again, PlannedAt: again, Schedule: schedule}
	}
	expectPlan(t, table, 1, "delayed ", started(weekly, 700))
	ended := journal.Plan{RunAt: 100, PlannedAt: 100, Attempts: 1, Schedule: "garbage"}
	expectPlan(t, table, 2, "done ", ended)
	ended.Schedule = ""
	expectPlan(t, table, 3, "done ", ended)
	expectPlan(t, table, 4, "delayed ", started("every 4d", 700))
	ended.Schedule = weekly
	expectPlan(t, table, 5, "done ", ended) // cancelled: it ends, whatever its schedule is
	if notes[2] != "no such schedule" {
		t.Errorf("why it does not come back is told as %q", notes[2])
	}
	planned := map[int64]int{}
	for _, e := range history(t, j) {
		if p, ok := e.Payload.(journal.Replanned); ok {
			planned[e.Job]++
			if p.Token != token(e.Job) {
				t.Errorf("replanned of job %d has token %s", e.Job, p.Token)
			}
		}
	}
	check.Diff(t, map[int64]int{1: 1, 2: 1, 3: 1, 4: 3}, planned, "journalled, by job")
	if want := weekly + " after " + daily + ": ok"; !slices.Contains(asked, want) {
		t.Errorf("asked: %q, want %q among them", asked, want)
	}
	if notices := of[journal.SetAside](t, j); len(notices) != 1 || notices[0].Reason != "its schedule is edited again and again" {
		t.Errorf("quarantined: %v", notices)
	}
}

// Killed after replanned is journalled, before the row says so: the next start makes the same change
// of both, and asks nobody. Edited once more by then, it is planned once more.
func TestWhatWasPlannedAnewIsAppliedAfterAKill(t *testing.T) {
	t.Parallel()
	plan := journal.Plan{RunAt: 100, PlannedAt: 100, Schedule: daily}
	for name, c := range map[string]struct {
		schedule string
		want     int64
		asked    int
	}{"as it was found": {weekly, 700, 0}, "edited once more": {"hourly :15", 800, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, table := openJournal(t), recurring(plan, 1)
			table.Rows[1].Plan.Schedule = c.schedule
			replanned := againAt(700)
			replanned.Token, replanned.Schedule = token(1), weekly
			seq := add(t, j, claimedFrom(1, plan), running(1), comesBack(1, 200), journal.Draft{Job: 1, Payload: replanned})
			var asked []string
			m := replanning(j, j, table, &asked, 800)
			run(t, m)
			shown(t, m, seq)
			expectPlan(t, table, 1, "delayed ", journal.Plan{RunAt: c.want, PlannedAt: c.want, Schedule: c.schedule})
			if len(asked) != c.asked || len(of[journal.Replanned](t, j)) != 1+c.asked {
				t.Errorf("asked %q, journalled %d", asked, len(of[journal.Replanned](t, j)))
			}
		})
	}
}

// A restart that sees only the end knows what the claim had found from the history.
func TestAnEndAloneIsGuardedByItsClaimsSchedule(t *testing.T) {
	t.Parallel()
	plan := journal.Plan{RunAt: 100, PlannedAt: 100, Schedule: daily}
	j, table := openJournal(t), recurring(plan, 1)
	table.Rows[1].Plan.Schedule = weekly
	first := add(t, j, claimedFrom(1, plan), running(1))
	seq := add(t, j, comesBack(1, 200))
	j.SetPosition(first)
	var asked []string
	m := replanning(j, j, table, &asked, 700)
	run(t, m)
	shown(t, m, seq)
	expectPlan(t, table, 1, "delayed ", journal.Plan{RunAt: 700, PlannedAt: 700, Schedule: weekly})
}

// While the disk has no room for what was planned anew, the row stays as it is.
func TestAFullDiskHoldsUpWhatIsPlannedAnew(t *testing.T) {
	t.Parallel()
	plan := journal.Plan{RunAt: 100, PlannedAt: 100, Schedule: daily}
	j := &fullJournal{Log: openJournal(t), rested: make(chan struct{}, 100)}
	table := recurring(plan, 1)
	table.Rows[1].Plan.Schedule = weekly
	seq := add(t, j.Log, claimedFrom(1, plan), running(1), comesBack(1, 200))
	j.appends.Store(3)
	j.rests.Store(1)
	var tries []string
	table.OnChange = func(store.Change) {
		tries = append(tries, fmt.Sprintf("%t %s", j.appends.Load() > 0, table.Rows[1].Status))
	}
	var asked []string
	m := replanning(j, j, table, &asked, 700)
	run(t, m)
	shown(t, m, seq)
	expectPlan(t, table, 1, "delayed ", journal.Plan{RunAt: 700, PlannedAt: 700, Schedule: weekly})
	if len(of[journal.Replanned](t, j.Log)) != 1 || len(tries) != 2 || tries[0] != "true running" {
		t.Errorf("tries: %q", tries)
	}
}

// Changes that are made a second time meet rows that other workers have run since: no conflict. One
// whose claim is under way still, and whose row another has started, is one: it was taken away.
func TestRowsThatWentOnElsewhereAreNoConflict(t *testing.T) {
	t.Parallel()
	plan := journal.Plan{RunAt: 100, PlannedAt: 100}
	j, table := openJournal(t), recurring(plan, 1, 2, 3)
	seq := add(t, j, claimedFrom(1, plan), running(1), comesBack(1, 200), claimedFrom(2, plan), running(2), claimedFrom(3, plan), running(3),
		comesBack(3, 200))
	later := time.Now().Unix() + 60
	for id := range table.Rows {
		table.Rows[id].Owner, table.Rows[id].Started, table.Rows[id].Finished = "@zzzz00001", later, later-1
	}
	table.Rows[3].Finished = 1
	m := newMirror(j, table)
	run(t, m)
	shown(t, m, seq)
	var lost []int64
	for _, e := range history(t, j) {
		if e.Kind() == journal.KindConflict {
			lost = append(lost, e.Job)
		}
	}
	slices.Sort(lost)
	if !slices.Equal(lost, []int64{2, 3}) {
		t.Errorf("conflicts of %v, want of 2, which is under way here, and 3, whose end no row shows", lost)
	}
}

// A failover to a replica that lagged: delayed rows read as before runs that this journal knows.
// They are mirrored again, and not started.
func TestDelayedRowsOfAReplicaThatLaggedAreMended(t *testing.T) {
	t.Parallel()
	f := onServerOne(t)
	f.table.Uses = store.TimeColumns()
	f.runs()
	first, second := journal.Plan{RunAt: 100, PlannedAt: 100}, journal.Plan{RunAt: 200, PlannedAt: 200}
	third := journal.Plan{RunAt: 300, PlannedAt: 300}
	runTwice(t, f.journal, f.table, first, second, 1, 2, 3, 4, 5)
	f.append(journal.Draft{Job: 6, Payload: journal.Ignored{Reason: "x"}})
	others := journal.Plan{RunAt: 150, PlannedAt: 100, Attempts: 1}
	// Row 5 is behind by another worker's run, which that worker brings back while this one waits.
	f.mirror.Together = 50 * time.Millisecond
	looks := 0
	f.goesTo(func() {
		for id, plan := range map[int64]journal.Plan{1: second, 2: first, 3: others, 4: third, 5: others, 6: first} {
			f.put(id, journal.RowDelayed, "").Plan = &plan
		}
		f.table.Rows[4].Finished = time.Now().Unix() + 60 // run elsewhere since
		f.table.OnApply = func() {
			if looks++; looks == 1 {
				*f.table.Rows[5].Plan = second
			}
		}
	})
	for id, plan := range map[int64]journal.Plan{1: third, 2: third, 3: others, 4: third, 5: third} {
		expectPlan(t, f.table, id, "delayed ", plan)
	}
	expectPlan(t, f.table, 6, "ignored ", first)
	f.met(journal.Server{Server: "two", Before: "one", Mended: 4, Left: 1})
}

// runTwice lets jobs run at the times of two plans, and come back at 300.
func runTwice(t *testing.T, j *eventlog.Log, table *storetest.Memory, first, second journal.Plan, ids ...int64) {
	t.Helper()
	for _, id := range ids {
		*table.Put(id, journal.RowRunning, token(id)).Plan = second
		claim := claimedFrom(id, first)
		early := claim.Payload.(journal.Accepted)
		early.Token = token(id + 1000)
		claim.Payload = early
		end := comesBack(id, 200).Payload.(journal.Done)
		end.Token = early.Token
		add(t, j, claim, running(id), journal.Draft{Job: id, Payload: end})
		add(t, j, claimedFrom(id, second), running(id), comesBack(id, 300))
	}
}

// A row that comes back as expected is told to nobody: the worker that ended its run looks for it in
// time. One that was locked meanwhile, and one whose run a former process ended, are told when they
// read so.
func TestRowsThatComeBackLateAreTold(t *testing.T) {
	t.Parallel()
	plan := journal.Plan{RunAt: 100, PlannedAt: 100, Schedule: daily}
	j, table := openJournal(t), recurring(plan, 1, 2, 3)
	add(t, j, claimedFrom(1, plan), journal.Draft{Job: 1, Payload: journal.Running{Attempt: 1, Token: token(1)}}, comesBack(1, 200))
	told := make(chan []string, 10)
	m := newMirror(j, table)
	m.OnGivenBack = func(targets []string) { told <- targets }
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

// replayed is a job by replay of the whole journal.
func replayed(t *testing.T, j *eventlog.Log, id int64) journal.Job {
	t.Helper()
	state := journal.State{KeepEnded: true}
	for _, e := range history(t, j) {
		must.Do(t, state.Apply(e))
	}
	return state.Job(id)
}

// A clock that was set back while a job ran: the row tells the end that the done event names, and
// not the event's own time; a comparison with the journal agrees with it, and a row that was behind
// gets the same end on another server.
func TestTheEndThatADoneEventNamesIsShown(t *testing.T) {
	t.Parallel()
	f := onServerOne(t).runs()
	finish := time.Now().Add(time.Hour)
	for id := int64(1); id <= 2; id++ {
		f.table.Put(id, journal.RowAccepted, token(id))
		done := journal.Done{Result: "ok", Finished: finish.UnixMicro(), Elapsed: 1, Token: token(id)}
		f.append(accepted(id, token(id)), running(id), journal.Draft{Job: id, Payload: done})
	}
	ended := func() {
		t.Helper()
		for id := int64(1); id <= 2; id++ {
			row := f.table.Rows[id]
			check.Equal(t, row.Finished, finish.Unix(), "row %d ended at", id)
			if job := replayed(t, f.journal, id); !store.Agrees(job, row) {
				t.Errorf("row %+v does not agree with %+v", row, job)
			}
		}
	}
	ended()
	f.goesTo(func() { f.put(1, journal.RowRunning, token(1)) }) // row 2 is as it is
	ended()
	f.met(journal.Server{Server: "two", Before: "one", Mended: 1})
}

// A row that should have become ignored, and did not, is left alone on another server too, and counts
// as in agreement.
func TestARowThatCouldNotBeIgnoredIsLeftAlone(t *testing.T) {
	t.Parallel()
	f := onServerOne(t).runs()
	f.table.Put(1, journal.RowManual, "")
	f.table.Put(2, journal.RowManual, "")
	ignored := journal.Ignored{Reason: "target 'c' not found"}
	undone := journal.Conflict{Wanted: journal.RowIgnored, Reason: "a trigger"}
	f.append(journal.Draft{Job: 1, Payload: ignored}, journal.Draft{Job: 2, Payload: ignored}, journal.Draft{Job: 1, Payload: undone})
	f.goesTo(func() {})
	f.rows("mended", map[int64]string{1: "manual ", 2: "ignored "})
	for id, status := range map[int64]journal.Status{1: journal.StatusConflict, 2: journal.StatusIgnored} {
		job := replayed(t, f.journal, id)
		if job.Status != status || !store.Agrees(job, f.table.Rows[id]) {
			t.Errorf("job %+v, want %s, in agreement with %+v", job, status, f.table.Rows[id])
		}
	}
	f.met(journal.Server{Server: "two", Before: "one", Mended: 1})
}
