package board

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// beginClaim claims what there is room for, up to the COMMIT.
func (w *world) beginClaim(runner *rapid.Generator[bool]) bool {
	if w.claim != nil || w.stopped {
		return false
	}
	c, name, token := &Claim{}, "", w.token()
	room, drafts := make(map[string]int), []journal.Draft(nil)
	for target, t := range w.b.targets {
		room[target] = t.Room(-1)
	}
	except := w.b.Skipped(func(string) bool { return true })
	for _, id := range slices.Sorted(maps.Keys(w.rows)) {
		row := w.rows[id]
		if !w.isDue(row) || room[row.Target] <= 0 || slices.Contains(except, id) || w.locked(id) {
			continue
		}
		if room[row.Target]--; drafts == nil && runner.Draw(w.T, "a runner is there") {
			name = instance
		}
		if w.b.Holds(id) {
			w.skips[id] = row.Target
		}
		drafts = append(drafts, w.b.Accept(c, row, token, name, w.now)...)
	}
	for target, t := range w.b.targets {
		t.Claimed(room[target] <= 0, w.now)
		t.pace.ahead = rapid.IntRange(0, 5).Draw(w.T, "jobs ahead")
		t.pace.takes = rapid.SampledFrom([]time.Duration{0, shortTime, shortTime, lateTime}).Draw(w.T, "jobs take")
	}
	return w.decided(&w.claim, c, drafts)
}

// giveBackLate has a moment pass, and jobs given back that were not reached. None is while the table is away.
// Else those that the worker has seen waiting a moment before all leave, and it claims nothing ahead then.
func (w *world) giveBackLate(away *rapid.Generator[bool]) bool {
	w.now = w.now.Add(lateTime)
	isAway, seen, leaving := away.Draw(w.T, "the table is away"), make(map[*Target]bool), make(map[*Target]int)
	for _, t := range w.b.targets {
		seen[t], leaving[t] = !t.pace.waits.IsZero() && slices.ContainsFunc(t.queue, ahead), t.in[Leaving]
	}
	w.after(w.b.GiveBackLate(w.now, isAway))
	for _, t := range w.b.targets {
		gone := t.in[Leaving] > leaving[t]
		if gone != (seen[t] && !isAway) || gone && slices.ContainsFunc(t.queue, ahead) {
			w.Fatalf("target %s: %d jobs leave, %d before, and %d wait; seen %t, away %t", t.name, t.in[Leaving], leaving[t], len(t.queue), seen[t], isAway)
		}
		if free := max(t.concurrency-t.active, 0); gone && t.Room(-1) > free {
			w.Fatalf("target %s: behind that there is room for %d, in %d free slots", t.name, t.Room(-1), free)
		}
	}
	return true
}

// decided journals what a claim has decided.
func (w *world) decided(open **Claim, c *Claim, drafts []journal.Draft) bool {
	if len(drafts) == 0 {
		return false
	}
	w.checkAble(drafts)
	events, err := w.append(drafts...)
	if err != nil {
		w.after(w.b.Withdraw(c))
		return false
	}
	w.b.Decided(c, events)
	*open = c
	return true
}

// locked tells whether a claim holds a row: its transaction does so until its COMMIT has come to an
// end.
func (w *world) locked(id int64) bool {
	for _, c := range []*Claim{w.claim, w.manual} {
		if c != nil && slices.ContainsFunc(c.Events, func(e journal.Event) bool { return e.Job == id }) {
			return true
		}
	}
	return false
}

// commits are how the COMMIT of a claim may end: it is won, undone, or the link was lost before it or
// behind it.
var commits = rapid.SampledFrom([]string{"won", "won", "won", "undone", "doubt, won", "doubt, lost"})

// endClaim ends the COMMIT of a claim.
func (w *world) endClaim(how *rapid.Generator[string]) bool {
	c, open := w.claim, &w.claim
	if c == nil || w.manual != nil && rapid.Bool().Draw(w.T, "the manual one") {
		c, open = w.manual, &w.manual
	}
	if c == nil {
		return false
	}
	*open = nil
	end := how.Draw(w.T, "commit")
	if end == "won" || end == "doubt, won" {
		w.commit(c)
	}
	why := func(int64) string { return "another claim was faster" }
	switch end {
	case "won":
		w.after(w.b.Won(c))
	case "undone":
		if _, err := w.append(c.Undo(why)...); err == nil {
			w.after(w.b.Withdraw(c))
			for _, e := range c.Events {
				if client := w.clients[e.Job]; client != nil {
					client.told = true // by the claim
				}
			}
		} else {
			w.after(w.b.Doubt(c, why))
		}
	default:
		w.after(w.b.Doubt(c, nil))
	}
	for _, e := range c.Events {
		if _, ignored := e.Payload.(journal.Ignored); ignored && w.clients[e.Job] != nil {
			w.clients[e.Job].told = true
		}
	}
	return true
}

// runManual has a client ask for a job.
func (w *world) runManual(id int64) bool {
	waits := &client{}
	if _, ok := w.b.Wait([]int64{id}, map[int64]Client{id: waits}); !ok {
		return true
	}
	w.clients[id] = waits
	row, there := w.rows[id]
	if !there || w.locked(id) {
		waits.told = true
		return true
	}
	c := &Claim{}
	drafts, refusal := w.b.AcceptManual(c, row, w.token(), instance)
	if !w.decided(&w.manual, c, drafts) || refusal != "" {
		waits.told = true
	}
	return true
}

// judge asks the table about claims in doubt, and gives up those that were not won.
func (w *world) judge() bool {
	w.now = w.now.Add(time.Minute)
	ids := w.b.DueDoubts(w.now)
	var rows []journal.Row
	for _, id := range ids {
		if row, there := w.rows[id]; there {
			rows = append(rows, row)
		}
	}
	w.after(w.b.Judge(ids, rows, nil, true, w.now))
	drafts := w.b.LostDoubts()
	for _, d := range drafts {
		_, err := w.append(d)
		if errors.Is(err, journal.ErrFull) {
			return len(ids) > 0
		}
		w.after(w.b.GivenUp([]journal.Draft{d}))
	}
	return len(ids)+len(drafts) > 0
}

// A row waits since it could have been claimed, whatever it did before.
func TestReadySinceTheLastReason(t *testing.T) {
	t.Parallel()
	due := &journal.Plan{RunAt: 300}
	for name, test := range map[string]struct {
		job  Job
		want int64
	}{
		"made":                           {Job{claim: journal.Accepted{Created: 100}}, 100},
		"set back":                       {Job{claim: journal.Accepted{Created: 100}, setBack: 200}, 200},
		"delayed":                        {Job{claim: journal.Accepted{Created: 100, Plan: due, From: journal.RowDelayed}, setBack: 200}, 300},
		"a time that was not waited for": {Job{claim: journal.Accepted{Created: 100, Plan: due}}, 100},
		"made behind its time":           {Job{claim: journal.Accepted{Created: 400, Plan: due, From: journal.RowDelayed}}, 400},
		"by hand":                        {Job{claim: journal.Accepted{Created: 100, Manual: true}}, 0},
		"started before":                 {Job{claim: journal.Accepted{Created: 100}, recovered: true}, 0},
		"not said":                       {Job{setBack: 200}, 0},
	} {
		check.Equal(t, test.job.Ready(), test.want, "%s", name)
	}
}

// A job of a former run goes on where its target is not served any more. When somebody adds the target
// it holds a slot of it.
func TestATargetThatIsAddedHasTheJobsOfAFormerRun(t *testing.T) {
	t.Parallel()
	b, now := New(Config{Targets: map[string]int{"b": 1}}), time.Unix(1_000_000, 0)
	old := journal.Job{ID: 1, Target: "a", Token: "@abcd00000", Status: journal.StatusRunning, Attempt: 1}
	runs := b.Adopt(old, "its process")
	if added := b.Add("a", 1); added.Running() != 1 || runs.target != added {
		t.Fatalf("%d slots in use", added.Running())
	}
	b.Won(accepts(b, now, journal.RowWaiting, 2))
	check.Equal(t, b.Job(2).phase, Queued, "the next job is")
	b.Ended(runs, journal.Started{}, Outcome{Fate: Over, Done: journal.Done{Result: "ok"}})
	b.Turn(now, instance)
	check.Equal(t, b.Job(2).phase, Announcing, "the next job is … when the one before has ended")
	b.Won(accepts(b, now, journal.RowWaiting, 3))
	b.SetConcurrency(b.Target("a"), 2)
	check.Equal(t, b.Job(3).phase, Due, "the job behind it is … when there are more slots")
}

// What a former run has announced of a target that is not served now is not started: the row of a first
// attempt is given back, and where an attempt before has run, the job ends as one of unknown outcome.
func TestAFormerJobOfATargetThatIsNotServed(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	ways := map[string]func(b *Board, old journal.Job){
		"it was announced": func(b *Board, old journal.Job) { b.TakeUp(old, true) },
		"it could not be started": func(b *Board, old journal.Job) {
			b.Ended(b.Adopt(old, "its process"), journal.Started{}, Outcome{Fate: NotStarted, Cause: errors.New("no memory"), Short: true})
		},
		"its runner was replaced": func(b *Board, old journal.Job) {
			b.Ended(b.Adopt(old, "its process"), journal.Started{}, Outcome{Fate: NotAsked, Cause: errors.New("another one")})
		},
	}
	for way, take := range ways {
		for _, attempt := range []int{1, 2} {
			b := New(Config{Targets: map[string]int{"a": 1}, Requeue: true, MaxAttempts: 3})
			take(b, journal.Job{ID: 1, Target: "b", Token: "@abcd00000", Status: journal.StatusStarting, Attempt: attempt})
			turn, e := b.Turn(now, instance)
			if len(turn.Steps) != 1 || len(turn.Steps[0].Drafts) != 1 || len(e.Renewed) != 0 {
				t.Errorf("%s, attempt %d: %d steps, effects %+v", way, attempt, len(turn.Steps), e)
				continue
			}
			switch p := turn.Steps[0].Drafts[0].Payload.(type) {
			case journal.Released:
				if attempt != 1 || p.Reason != notServed {
					t.Errorf("%s, attempt %d: %+v", way, attempt, p)
				}
			case journal.Done:
				if attempt != 2 || p.Reason != "outcome unknown: "+notServed+"; attempt 2 of 3" {
					t.Errorf("%s, attempt %d: %+v", way, attempt, p)
				}
			default:
				t.Errorf("%s, attempt %d: %+v", way, attempt, p)
			}
		}
	}
}

// weighed is what a claim at noon makes of a row of target a.
func weighed(t *testing.T, row journal.Row, timing Timing) (payload journal.Payload) {
	t.Helper()
	b := New(Config{Targets: map[string]int{"a": 1}, Again: true, Timing: timing})
	row.Job, row.Target = 1, "a"
	drafts := b.Accept(&Claim{}, row, "@abcdefghi", "", noon)
	must.Equal(t, len(drafts), 1, "journalled: %+v", drafts)
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
		return "it was missed: planned for " + utc(at-seconds) + ", found " + (time.Duration(seconds) * time.Second).String() + " later"
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
			check.Equal(t, cmp.Diff(test.want, got), "", "journalled (-want +got)")
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
		{journal.Plan{RunAt: journal.Century}, "run_at = 4102444800: it is "},
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
	skipped := b.Skipped(func(target string) bool { return target == "a" })
	must.Equal(t, len(skipped), 1, "left out of claims: %v", skipped)
	b.Judge([]int64{1}, []journal.Row{row}, nil, true, noon)
	lost := b.LostDoubts()
	if len(lost) != 1 || lost[0].Payload.Kind() != journal.KindConflict {
		t.Fatalf("of a row that is delayed still is journalled: %+v", lost)
	}
	if e := b.GivenUp(lost); !cmp.Equal(e.Poll, []string{"a"}) {
		t.Errorf("targets that are looked at: %v", e.Poll)
	}
}

// The row tells what became of a COMMIT whose answer was lost, be it of this run of the worker or of the one
// before. What did not happen is given up, with the reason; a row that somebody holds tells later.
func TestTheRowTellsWhatBecameOfACommit(t *testing.T) {
	t.Parallel()
	claim := journal.Accepted{Target: "a", Token: "@abcdefghi"}
	retried := journal.Retried{Target: "a", From: journal.RowDone, To: journal.RowWaiting, Result: "fail", Finished: 7}
	row := func(status, owner string) journal.Row {
		return journal.Row{Job: 1, Target: "a", Status: status, Owner: owner}
	}
	ended := journal.Row{Job: 1, Target: "a", Status: journal.RowDone, Result: "fail", Finished: 7}
	later := ended
	later.Finished++
	for name, test := range map[string]struct {
		of      journal.Payload
		former  bool
		started bool
		row     journal.Row // without a job: it is gone
		locked  bool
		lost    string // why it is given up
		phase   Phase  // of its job, where it has one
		free    bool   // others are told of the row
	}{
		"a claim that was won":          {of: claim, row: row(journal.RowAccepted, claim.Token), phase: Queued},
		"which may have been started":   {of: claim, former: true, started: true, row: row(journal.RowRunning, claim.Token), phase: Ended},
		"a claim of another one's row":  {of: claim, row: row(journal.RowAccepted, "@otherxxxx"), lost: "the claim was not won"},
		"of a row that waits":           {of: claim, row: row(journal.RowWaiting, claim.Token), lost: "the claim was not won"},
		"of a row that is gone":         {of: claim, lost: "the claim was not won"},
		"of a row that is locked":       {of: claim, row: row(journal.RowAccepted, claim.Token), locked: true},
		"ignored":                       {of: journal.Ignored{}, row: row(journal.RowIgnored, "")},
		"not ignored":                   {of: journal.Ignored{}, row: row(journal.RowManual, ""), lost: "the update was not committed: the row is manual"},
		"not ignored, and gone":         {of: journal.Ignored{}, lost: "the update was not committed: the row is gone"},
		"not ignored before the start":  {of: journal.Ignored{}, former: true, row: row(journal.RowManual, ""), lost: "when the worker was started again the row was manual"},
		"ignored, and deleted since":    {of: journal.Ignored{}, former: true},
		"set back":                      {of: retried, row: row(journal.RowWaiting, ""), free: true},
		"set back, and has run again":   {of: retried, row: later},
		"set back, and deleted":         {of: retried},
		"not set back":                  {of: retried, row: ended, lost: "the update was not committed: the row is done"},
		"not set back before the start": {of: retried, former: true, row: ended, lost: "when the worker was started again the row was done"},
		"set back, as far as is known":  {of: retried, row: ended, locked: true},
		"ignored, as far as is known":   {of: journal.Ignored{}, row: row(journal.RowManual, ""), locked: true},
	} {
		b := New(Config{Targets: map[string]int{"a": 0}})
		client := "who set it back"
		if test.former {
			b.DoubtFormer(1, test.of, test.started)
		} else {
			b.Doubt(&Claim{Events: []journal.Event{{Seq: 1, Job: 1, Payload: test.of}}, Clients: map[int64]Client{1: client}}, nil)
		}
		rows, locked := []journal.Row{test.row}, []int64(nil)
		if test.locked {
			locked = []int64{1}
		}
		e := b.Judge([]int64{1}, rows, locked, true, noon)
		lost := ""
		for _, d := range b.LostDoubts() {
			switch p := d.Payload.(type) {
			case journal.Released:
				lost = p.Reason
			case journal.Conflict:
				lost = p.Reason
			}
		}
		phase := unborn
		if j := b.Job(1); j != nil {
			phase = j.phase
		}
		check.Equal(t, lost, test.lost, "%s: it is given up, since", name)
		check.Equal(t, phase, test.phase, "%s: its job is", name)
		check.Equal(t, len(e.Free) > 0, test.free, "%s: others are told", name)
		check.Equal(t, b.Doubts() > 0, test.locked || test.lost != "", "%s: it is in doubt still", name)
		_, set := test.of.(journal.Retried)
		told := set && !test.locked && test.lost == "" && !test.former
		check.Equal(t, len(e.Told) == 1 && e.Told[0].Client == client, told, "%s: its client is told", name)
	}
}
