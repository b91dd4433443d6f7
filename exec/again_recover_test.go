package exec_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	jobexec "jobd/exec"
	"jobd/journal"
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
	tests := []recovery{
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
			test.run(t, f)
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

// left journals what a run of the worker that was killed has left behind.
func left(t *testing.T, j *memory, payloads ...journal.Payload) {
	t.Helper()
	for _, payload := range payloads {
		if _, err := j.Append(journal.Draft{Job: 1, Payload: payload}); err != nil {
			t.Fatal(err)
		}
	}
}

// recovery is what the next start makes of a job that a worker which was killed has left behind.
type recovery struct {
	name    string
	left    []journal.Payload
	row     journal.Row
	alive   bool          // the process
	recall  *journal.Done // the runner has the newest start, and this outcome
	requeue bool
	ends    int    // the number of the start that the test ends, as failed; 0: none is made
	story   string // how the story goes on
	again   *journal.Again
}

// run has the worker start, and waits for the job's end. It gives how many events there were before.
func (r recovery) run(t *testing.T, f *fixture) (before int) {
	t.Helper()
	left(t, f.journal, r.left...)
	before = len(f.story(1))
	old := &process{pid: 4711, ended: make(chan struct{}), signals: make(chan int, 1), done: journal.Done{Elapsed: 3_000_000}}
	if r.alive {
		f.runner.alive[4711] = old
	}
	if r.recall != nil {
		ran := &process{pid: 4711, ended: make(chan struct{}), known: true, done: *r.recall}
		close(ran.ended)
		attempt := 0
		f.journal.View(func(s *journal.State) { attempt = s.Job(1).Attempt })
		f.runner.recalled = []jobexec.Recalled{{Job: 1, Attempt: attempt, Process: ran}, {Job: 99, Attempt: 1, Process: ran}}
	}
	f.start()
	if r.alive {
		if got := f.worker.Status().Targets["a"].Length; got != 1 {
			t.Errorf("length %d while the process runs on, want 1", got)
		}
		if !f.worker.SendSignal(map[int64]int{1: 15}, "me")[1] {
			t.Error("a process that runs on can't be signalled")
		}
		r.story = "signal " + r.story
		close(old.ended)
	}
	if r.ends > 0 { // one that is started again is told so
		p := f.next()
		env, again := strings.Join(p.spec.Env, " "), fmt.Sprintf("JOBD_ATTEMPT=%d JOBD_RECOVERED=1", r.ends)
		if p.spec.Attempt != r.ends || strings.Contains(env, again) != r.requeue {
			t.Errorf("attempt %d is told %s, want attempt %d", p.spec.Attempt, env, r.ends)
		}
		p.exit(1)
	}
	f.wait("the job is at its end", ended(1))
	if got := words(f.story(1)[before:]); got != r.story {
		t.Errorf("the story goes on with %q, want %q", got, r.story)
	}
	return before
}

func TestRecovery(t *testing.T) {
	t.Parallel()
	accepted := journal.Accepted{Target: "a", Token: "@abcdefghi"}
	running := journal.Running{Attempt: 1, Runner: "runner-0"}
	runningHere := journal.Running{Attempt: 1, Runner: instance}
	runningEnded := journal.Running{Attempt: 1, Runner: endedInstance}
	code := 3
	outcome := &journal.Done{Result: "fail", Code: &code}
	claimedHere := journal.Running{Attempt: 1, Runner: instance, Claimed: true}
	claimedThere := journal.Running{Attempt: 1, Runner: "runner-0", Claimed: true}
	started := journal.Started{Pid: 4711, StartTime: 1, BootID: "boot"}
	asking := journal.Running{Attempt: 1, Runner: "runner-0", Executor: "http"}
	askingClaimed := journal.Running{Attempt: 1, Runner: "runner-0", Executor: "http", Claimed: true}
	sending := journal.Started{Address: serviceAddress}
	ours := journal.Row{Job: 1, Target: "a", Status: journal.RowAccepted, Owner: accepted.Token}
	theirs := journal.Row{Job: 1, Target: "a", Status: journal.RowAccepted, Owner: "@abcdother"}
	runs := journal.Row{Job: 1, Target: "a", Status: journal.RowRunning, Owner: accepted.Token}
	tests := []recovery{
		{name: "claim that was won", left: []journal.Payload{accepted}, row: ours, ends: 1, story: "running started done"},
		{name: "claim that another worker won", left: []journal.Payload{accepted}, row: theirs, story: "released"},
		{name: "claim of a row that is gone", left: []journal.Payload{accepted}, row: journal.Row{Job: 2}, story: "released"},
		{name: "killed around the start", left: []journal.Payload{accepted, running}, row: runs, story: "done"},
		{name: "process that is gone", left: []journal.Payload{accepted, running, started}, row: runs, story: "done"},
		{name: "process that runs on", left: []journal.Payload{accepted, running, started}, row: runs, alive: true, story: "done"},
		{name: "the runner lives and never heard of it", left: []journal.Payload{accepted, runningHere}, row: runs, ends: 1, story: "running started done"},
		{name: "the runner ended and never heard of it", left: []journal.Payload{accepted, runningEnded}, row: runs, ends: 1, story: "running started done"},
		{name: "the runner has its outcome", left: []journal.Payload{accepted, runningHere, started}, row: runs, recall: outcome, story: "done"},
		{name: "the runner has its outcome, the start was not journalled", left: []journal.Payload{accepted, runningHere}, row: runs, recall: outcome, story: "started done"},
		{name: "started with its claim, which was won", left: []journal.Payload{accepted, claimedHere}, row: runs, ends: 1, story: "running started done"},
		{name: "started with its claim, which was not won", left: []journal.Payload{accepted, claimedHere}, row: theirs, story: "released"},
		{name: "started with its claim, the runner has it", left: []journal.Payload{accepted, claimedHere}, row: runs, recall: outcome, story: "started done"},
		{name: "started with its claim, which was won, the runner is gone", left: []journal.Payload{accepted, claimedThere}, row: runs, story: "done"},
		{name: "started with its claim, which was not won, the runner is gone", left: []journal.Payload{accepted, claimedThere}, row: theirs, story: "released"},
		{
			name: "started with its claim, which was won, to be started again",
			left: []journal.Payload{accepted, claimedThere}, row: runs, requeue: true, ends: 2, story: "requeued running started done",
		},
		{name: "request that had no connection", left: []journal.Payload{accepted, asking}, row: runs, ends: 1, story: "running started done"},
		{name: "request that may have been sent", left: []journal.Payload{accepted, asking, sending}, row: runs, story: "done"},
		{
			name: "request that may have been sent, to be sent again",
			left: []journal.Payload{accepted, asking, sending}, row: runs, requeue: true, ends: 2, story: "requeued running started done",
		},
		{name: "request of a claim that was won", left: []journal.Payload{accepted, askingClaimed}, row: runs, ends: 1, story: "running started done"},
		{name: "request of a claim that was not won", left: []journal.Payload{accepted, askingClaimed}, row: theirs, story: "released"},
		{
			name: "request that was announced once more", left: []journal.Payload{accepted, asking, sending, asking},
			row: runs, ends: 1, story: "running started done",
		},
		{
			name: "process that is gone, for the last time",
			left: []journal.Payload{accepted, running, started, journal.Running{Attempt: 2}}, row: runs, requeue: true, story: "done",
		},
		{
			name: "process that is gone, to be started again",
			left: []journal.Payload{accepted, running, started}, row: runs, requeue: true, ends: 2, story: "requeued running started done",
		},
		{
			name: "killed around the start, to be started again",
			left: []journal.Payload{accepted, running}, row: runs, requeue: true, ends: 2, story: "requeued running started done",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, newTable(test.row), func(c *jobexec.Config) { c.Requeue = test.requeue })
			before := test.run(t, f)
			f.none()
			if done := f.outcome(1); test.alive && (done.Elapsed != 3_000_000 || !strings.HasPrefix(done.Reason, "outcome unknown")) {
				t.Errorf("nobody saw its end, but how long it ran is known: %+v", done)
			}
			if test.recall != nil {
				checkOutcome(t, f, *test.recall)
			}
			if test.requeue && test.ends > 0 { // why is told before it is started once more
				why := "the worker and its runner were killed, or the machine lost power, while it ran"
				if strings.HasPrefix(test.name, "request") {
					why = "the worker was killed, or the machine lost power, while its request was with " + serviceAddress
				}
				want := journal.Requeued{Reason: why, By: "on_crash = requeue", Token: accepted.Token}
				if diff := cmp.Diff(journal.Payload(want), f.events(1)[before].Payload); diff != "" {
					t.Errorf("requeued (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// checkOutcome checks that the outcome is the one that the runner had, and that the runner was told
// to forget this start and the one of job 99 that nobody waits for.
func checkOutcome(t *testing.T, f *fixture, want journal.Done) {
	t.Helper()
	forgotten := map[int64]bool{(<-f.runner.forgotten)[0]: true, (<-f.runner.forgotten)[0]: true}
	if !forgotten[1] || !forgotten[99] {
		t.Errorf("the runner was told to forget %v", forgotten)
	}
	want.Token = "@abcdefghi" // of the claim in the journal
	if diff := cmp.Diff(want, f.outcome(1)); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

func words(kinds []journal.Kind) string {
	var all []string
	for _, kind := range kinds {
		all = append(all, string(kind))
	}
	return strings.Join(all, " ")
}

func TestAnUnknownOutcomeSaysSo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(), nil)
	left(t, f.journal, journal.Accepted{Target: "gone", Token: "@abcdefghi"}, journal.Running{Attempt: 1})
	f.start()
	f.wait("the job is at its end", ended(1))
	done := f.outcome(1)
	if done.Result != "fail" || done.Code != nil || !strings.HasPrefix(string(done.Stderr.Kept), "jobd: outcome unknown: ") {
		t.Errorf("the job ended with %+v", done)
	}
}

// A runner in whose place another one is, and that did not end in order, is an event of its own.
func TestARunnerThatWasReplacedIsJournalled(t *testing.T) {
	t.Parallel()
	for before, want := range map[string][]journal.Runner{
		"":            nil,
		instance:      nil,
		endedInstance: nil,
		"runner-0":    {{Instance: instance, Before: "runner-0"}},
	} {
		t.Run(before, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, newTable(waiting(1, "a")), nil)
			f.build(func(c *jobexec.Config) { c.Displaced = before })
			f.start()
			f.next().exit(0)
			f.wait("the job is done", ended(1))
			var got []journal.Runner
			for _, e := range f.events(0) {
				if replaced, is := e.Payload.(journal.Runner); is {
					got = append(got, replaced)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Regression: a worker was cut off from its database, and so from its advisory locks, while its
// jobs ran. A fresh worker whose name has the same hash, or the same name, took them for its own
// lost ones, and ended or started them again.
func TestRowsOfAWorkerThatMayLiveAreLeftAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		holder string
		after  time.Duration
	}{
		{"its lock is free, but not for long", "", time.Hour},
		{"it has its lock again", "connection 7 from 10.0.0.5", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			theirs := tokenPrefix(t)
			row := journal.Row{Job: 1, Target: "a", Status: journal.RowRunning, Owner: theirs + "aaaaa"}
			f := newFixture(t, newTable(row, waiting(2, "a")), nil)
			f.build(func(config *jobexec.Config) { config.LostAfter = c.after })
			if c.holder != "" {
				f.table.holders["mark:"+theirs[1:]] = c.holder
			}
			f.start()
			p := f.next()
			f.journal.View(func(s *journal.State) {
				if token := s.Job(2).Token; strings.HasPrefix(token, theirs) {
					t.Errorf("a job is claimed with %s, under the mark of others", token)
				}
			})
			p.exit(0)
			f.wait("the other job is done", ended(2))
			if got := words(f.story(1)); got != "" {
				t.Errorf("the journal tells of the other worker's job: %s", got)
			}
		})
	}
}

// Where nobody has held the worker id for long enough, the journal is taken for lost, and what it knew
// for unknown.
func TestRowsOfAMarkThatNobodyHoldsAreLost(t *testing.T) {
	t.Parallel()
	theirs := tokenPrefix(t)
	row := journal.Row{Job: 1, Target: "a", Status: journal.RowRunning, Owner: theirs + "aaaaa"}
	f := newFixture(t, newTable(row), nil)
	f.table.holders["mark:"+theirs[1:]] = "connection 7 from 10.0.0.5"
	f.start()
	f.wait("another mark is taken", func(s *journal.State) bool { return s.Mark != "" && "@"+s.Mark != theirs })
	f.table.change(func() { clear(f.table.holders) })
	f.wait("the job is ended", func(s *journal.State) bool { return s.Seq >= 5 && len(s.Jobs) == 0 })
	if got := words(f.story(1)); got != "accepted running done" {
		t.Errorf("the story is %q", got)
	}
}
