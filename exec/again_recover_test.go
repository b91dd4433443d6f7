package exec_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/store/storetest/must"
)

// A worker is killed at each point of the way of a row that comes at a time: what the next start
// makes of it. The row recurs, was planned for the last full hour, and has failed once.
func TestRecoveryOfRowsThatComeBack(t *testing.T) {
	t.Parallel()
	hour := time.Now().Truncate(time.Hour).Unix()
	plan := journal.Plan{Schedule: "every 30d", RunAt: hour + 1, PlannedAt: hour, Attempts: 1, MaxAttempts: 3}
	accepted := journal.Accepted{Target: "a", Token: "@abcdefghi", From: journal.RowDelayed, Plan: &plan, PlannedAt: hour}
	running := func(attempt int, runner string) journal.Running {
		return journal.Running{Attempt: attempt, Runner: runner, Token: accepted.Token}
	}
	claimed := func(runner string) journal.Running {
		r := running(2, runner)
		r.Claimed = true
		return r
	}
	started := journal.Started{Pid: 4711, StartTime: 1, BootID: "boot"}
	signal := journal.Signal{Signo: 15, By: "somebody", Ends: true}
	cancelled := journal.Cancelled{By: "somebody", Runs: true, Token: accepted.Token}
	forever := journal.Cancelled{By: "somebody", Runs: true, Token: accepted.Token, Schedule: true}
	planned := journal.Planned{Target: "a", From: plan, To: journal.Again{RunAt: hour + 7200, PlannedAt: hour + 7200, Why: journal.AgainSchedule}}

	inState := func(status string) journal.Row {
		row := delayed(1, "a", plan)
		row.Status, row.Owner = status, accepted.Token
		if status == journal.RowRunning {
			row.Plan = replanned(row.Plan, func(p *journal.Plan) { p.Attempts = 2 })
		}
		return row
	}
	failed, killed := journal.Done{Result: "fail"}, journal.Done{Result: "fail", Signal: "SIGTERM"}
	two := &journal.Again{PlannedAt: hour, Attempts: 2, Why: journal.AgainRetry}
	next := &journal.Again{Why: journal.AgainSchedule}
	tests := []struct {
		name    string
		left    []journal.Payload
		row     journal.Row
		recall  *journal.Done // the runner has the newest start, and this outcome
		requeue bool
		ends    int    // the number of the start that the test ends, as failed; 0: none is made
		story   string // how the story goes on
		again   *journal.Again
	}{
		{name: "due", row: delayed(1, "a", plan), ends: 2, story: "accepted running started done", again: two},
		{name: "claimed", left: []journal.Payload{accepted}, row: inState("accepted"), ends: 2, story: "running started done", again: two},
		{name: "the claim was not won", left: []journal.Payload{accepted}, row: delayed(1, "a", plan), ends: 2, story: "released accepted running started done", again: two},
		{name: "started with its claim, which was not won", left: []journal.Payload{accepted, claimed(instance)}, row: delayed(1, "a", plan), ends: 2, story: "released accepted running started done", again: two},
		{name: "started with its claim, which was won", left: []journal.Payload{accepted, claimed(instance)}, row: inState("running"), ends: 2, story: "running started done", again: two},
		{name: "planned anew, not committed", left: []journal.Payload{planned}, row: delayed(1, "a", plan), ends: 2, story: "accepted running started done", again: two},
		{name: "about to be started, never heard of", left: []journal.Payload{accepted, running(2, instance)}, row: inState("running"), ends: 2, story: "running started done", again: two},
		{name: "failed meanwhile", left: []journal.Payload{accepted, running(2, instance), started}, row: inState("running"), recall: &failed, story: "done", again: two},
		{name: "ended well meanwhile", left: []journal.Payload{accepted, running(2, instance), started}, row: inState("running"), recall: &journal.Done{Result: "ok"}, story: "done", again: next},
		{name: "killed by somebody meanwhile", left: []journal.Payload{accepted, running(2, instance), started, signal}, row: inState("running"), recall: &killed, story: "done", again: next},
		{name: "killed meanwhile, by nobody known", left: []journal.Payload{accepted, running(2, instance), started}, row: inState("running"), recall: &killed, story: "done", again: two},
		{name: "cancelled", left: []journal.Payload{accepted, running(2, instance), started, cancelled}, row: inState("running"), recall: &killed, story: "done", again: next},
		{name: "cancelled with its schedule", left: []journal.Payload{accepted, running(2, instance), started, forever}, row: inState("running"), recall: &killed, story: "done"},
		{name: "of unknown outcome", left: []journal.Payload{accepted, running(2, "runner-0"), started}, row: inState("running"), story: "done", again: next},
		{name: "of unknown outcome, with its claim", left: []journal.Payload{accepted, claimed("runner-0")}, row: inState("running"), story: "done", again: next},
		{name: "of unknown outcome, cancelled", left: []journal.Payload{accepted, running(2, "runner-0"), started, cancelled}, row: inState("running"), requeue: true, story: "done", again: next},
		{name: "of unknown outcome, cancelled with its schedule", left: []journal.Payload{accepted, running(2, "runner-0"), started, forever}, row: inState("running"), requeue: true, story: "done"},
		{name: "of unknown outcome, to be started again", left: []journal.Payload{accepted, running(2, "runner-0"), started}, row: inState("running"), requeue: true, ends: 3, story: "requeued running started done", again: next},
		{name: "of unknown outcome, killed by somebody", left: []journal.Payload{accepted, running(2, "runner-0"), started, signal}, row: inState("running"), requeue: true, story: "done", again: next},
		{name: "of unknown outcome, for the last time", left: []journal.Payload{accepted, running(2, "runner-0"), started, journal.Requeued{}, running(3, "runner-0")}, row: inState("running"), requeue: true, story: "done", again: next},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, newTable(test.row), nil)
			f.build(func(c *jobexec.Config) {
				c.Requeue, c.MaxAttempts, c.Again = test.requeue, 9, true
				c.Terms = map[string]jobexec.Terms{"a": {Backoff: jobexec.Backoff{First: time.Minute, Most: time.Minute}}}
			})
			left(t, f.journal, test.left...)
			before := len(f.story(1))
			if test.recall != nil {
				ran := &process{pid: 4711, ended: make(chan struct{}), known: true, done: *test.recall}
				close(ran.ended)
				f.runner.recalled = []jobexec.Recalled{{Job: 1, Token: accepted.Token, Attempt: 2, Process: ran}}
			}
			f.start()
			if test.ends > 0 {
				p := f.next()
				if env := strings.Join(p.spec.Env, " "); p.spec.Attempt != test.ends || strings.Contains(env, "JOBD_RECOVERED") != test.requeue {
					t.Errorf("attempt %d is told %s, want attempt %d", p.spec.Attempt, env, test.ends)
				}
				p.exit(1)
			}
			f.wait("the run is at its end", ended(1))
			if got := words(f.story(1)[before:]); got != test.story {
				t.Errorf("the story goes on with %q, want %q", got, test.story)
			}
			checkAgain(t, f, test.again)
		})
	}
}

// checkAgain checks what follows the first end of job 1, and that its row says so. When that is, is
// the matter of other tests.
func checkAgain(t *testing.T, f *fixture, want *journal.Again) {
	t.Helper()
	var got *journal.Again
	for _, e := range f.events(1) {
		if done, is := e.Payload.(journal.Done); is {
			got = done.Again
			break
		}
	}
	if want == nil || got == nil {
		if (want == nil) != (got == nil) {
			t.Errorf("what follows is %+v, want %+v", got, want)
		}
		return
	}
	same := *want
	if same.RunAt = got.RunAt; same.Why == journal.AgainSchedule {
		same.PlannedAt = got.RunAt
	}
	if diff := cmp.Diff(same, *got); diff != "" || got.RunAt <= time.Now().Add(-time.Minute).Unix() {
		t.Errorf("what follows (-want +got):\n%s", diff)
	}
}

// The journal is lost while a recurring row runs: its schedule goes on.
func TestALostJournalStopsNoSchedule(t *testing.T) {
	t.Parallel()
	ours := tokenPrefix(t)
	hour := time.Now().Truncate(time.Hour).Unix()
	row := func(id int64, plan journal.Plan) journal.Row {
		return journal.Row{Job: id, Target: "a", Status: journal.RowRunning, Owner: ours + "aaaaa", Plan: &plan}
	}
	tab := newTable(
		row(1, journal.Plan{Schedule: "every 30d", PlannedAt: hour, Attempts: 3}),
		row(2, journal.Plan{Schedule: "every 30d", Attempts: 1}), // by hand: nothing was planned
	)
	f := newFixture(t, tab, nil)
	f.build(func(c *jobexec.Config) { c.Again = true })
	f.start()
	f.reach(map[int64]string{1: journal.RowDelayed, 2: journal.RowDone})
	for _, e := range f.events(1) {
		if running, is := e.Payload.(journal.Running); is && running.Attempt != 3 {
			t.Errorf("the lost start is journalled as attempt %d, want 3", running.Attempt)
		}
	}
	if plan := tab.plan(1); plan.RunAt <= time.Now().Unix() || plan.PlannedAt != plan.RunAt || plan.Attempts != 0 {
		t.Errorf("the row comes back as %+v", plan)
	}
}

// A job that is given back reads as before its claim, and its next claim starts the same attempt.
func TestWhatIsGivenBackIsDueAsBefore(t *testing.T) {
	t.Parallel()
	plan := journal.Plan{RunAt: time.Now().Unix() - 5, Attempts: 1, MaxAttempts: 4}
	tab := newTable(waiting(1, "b"), delayed(2, "b", plan))
	f := newFixture(t, tab, nil)
	f.build(func(c *jobexec.Config) { c.Again = true })
	f.start()
	first := f.next()
	f.claimed(2)
	must.Do(t, f.worker.Pause(nil, "me"))
	f.reach(map[int64]string{2: journal.RowDelayed})
	if diff := cmp.Diff(plan, tab.plan(2)); diff != "" {
		t.Errorf("the row says (-want +got):\n%s", diff)
	}
	first.exit(0)
	must.Do(t, f.worker.Continue(nil, "me"))
	if p := f.next(); p.spec.Job != 2 || p.spec.Attempt != 2 {
		t.Errorf("job %d is started, attempt %d", p.spec.Job, p.spec.Attempt)
	}
}
