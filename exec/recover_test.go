package exec_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/journal/eventlog"
)

// left journals what a run of the worker that was killed has left behind.
func left(t *testing.T, j *eventlog.Log, payloads ...journal.Payload) {
	t.Helper()
	for _, payload := range payloads {
		if _, err := j.Append(journal.Draft{Job: 1, Payload: payload}); err != nil {
			t.Fatal(err)
		}
	}
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
	tests := []struct {
		name    string
		left    []journal.Payload
		row     journal.Row
		alive   bool          // the process
		recall  *journal.Done // the runner has the start, and this outcome
		requeue bool
		starts  bool   // the job is started, again or for the first time
		story   string // how the story goes on
	}{
		{name: "claim that was won", left: []journal.Payload{accepted}, row: ours, starts: true, story: "running started done"},
		{name: "claim that another worker won", left: []journal.Payload{accepted}, row: theirs, story: "released"},
		{name: "claim of a row that is gone", left: []journal.Payload{accepted}, row: journal.Row{Job: 2}, story: "released"},
		{name: "killed around the start", left: []journal.Payload{accepted, running}, row: runs, story: "done"},
		{name: "process that is gone", left: []journal.Payload{accepted, running, started}, row: runs, story: "done"},
		{name: "process that runs on", left: []journal.Payload{accepted, running, started}, row: runs, alive: true, story: "done"},
		{name: "the runner lives and never heard of it", left: []journal.Payload{accepted, runningHere}, row: runs, starts: true, story: "running started done"},
		{name: "the runner ended and never heard of it", left: []journal.Payload{accepted, runningEnded}, row: runs, starts: true, story: "running started done"},
		{name: "the runner has its outcome", left: []journal.Payload{accepted, runningHere, started}, row: runs, recall: outcome, story: "done"},
		{name: "the runner has its outcome, the start was not journalled", left: []journal.Payload{accepted, runningHere}, row: runs, recall: outcome, story: "started done"},
		{name: "started with its claim, which was won", left: []journal.Payload{accepted, claimedHere}, row: runs, starts: true, story: "running started done"},
		{name: "started with its claim, which was not won", left: []journal.Payload{accepted, claimedHere}, row: theirs, story: "released"},
		{name: "started with its claim, the runner has it", left: []journal.Payload{accepted, claimedHere}, row: runs, recall: outcome, story: "started done"},
		{name: "started with its claim, which was won, the runner is gone", left: []journal.Payload{accepted, claimedThere}, row: runs, story: "done"},
		{name: "started with its claim, which was not won, the runner is gone", left: []journal.Payload{accepted, claimedThere}, row: theirs, story: "released"},
		{
			name: "started with its claim, which was won, to be started again",
			left: []journal.Payload{accepted, claimedThere}, row: runs, requeue: true, starts: true, story: "requeued running started done",
		},
		{name: "request that had no connection", left: []journal.Payload{accepted, asking}, row: runs, starts: true, story: "running started done"},
		{name: "request that may have been sent", left: []journal.Payload{accepted, asking, sending}, row: runs, story: "done"},
		{
			name: "request that may have been sent, to be sent again",
			left: []journal.Payload{accepted, asking, sending}, row: runs, requeue: true, starts: true, story: "requeued running started done",
		},
		{name: "request of a claim that was won", left: []journal.Payload{accepted, askingClaimed}, row: runs, starts: true, story: "running started done"},
		{name: "request of a claim that was not won", left: []journal.Payload{accepted, askingClaimed}, row: theirs, story: "released"},
		{
			name: "request that was announced once more", left: []journal.Payload{accepted, asking, sending, asking},
			row: runs, starts: true, story: "running started done",
		},
		{
			name: "process that is gone, for the last time",
			left: []journal.Payload{accepted, running, started, journal.Running{Attempt: 2}}, row: runs, requeue: true, story: "done",
		},
		{
			name: "process that is gone, to be started again",
			left: []journal.Payload{accepted, running, started}, row: runs, requeue: true, starts: true, story: "requeued running started done",
		},
		{
			name: "killed around the start, to be started again",
			left: []journal.Payload{accepted, running}, row: runs, requeue: true, starts: true, story: "requeued running started done",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, newTable(test.row), func(c *jobexec.Config) { c.Requeue = test.requeue })
			left(t, f.journal, test.left...)
			before := len(f.story(1))
			old := &process{pid: 4711, ended: make(chan struct{}), signals: make(chan int, 1)}
			if test.alive {
				f.runner.alive[4711] = old
			}
			if test.recall != nil {
				ran := &process{pid: 4711, ended: make(chan struct{}), known: true, done: *test.recall}
				close(ran.ended)
				f.runner.recalled = []jobexec.Recalled{{Job: 1, Attempt: 1, Process: ran}, {Job: 99, Attempt: 1, Process: ran}}
			}
			f.start()
			if test.alive {
				if got := f.worker.Status().Targets["a"].Length; got != 1 {
					t.Errorf("length %d while the process runs on, want 1", got)
				}
				if !f.worker.SendSignal(map[int64]int{1: 15}, "me")[1] {
					t.Error("a process that runs on can't be signalled")
				}
				test.story = "signal " + test.story
				close(old.ended)
			}
			if test.starts {
				p := f.next()
				checkAttempt(t, p, test.requeue)
				p.exit(0)
			}
			f.wait("the job is at its end", ended(1))
			f.none()
			if test.recall != nil {
				checkOutcome(t, f, *test.recall)
			}
			if got := words(f.story(1)[before:]); got != test.story {
				t.Errorf("the story goes on with %q, want %q", got, test.story)
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

// checkAttempt checks that a job which is started again is told so.
func checkAttempt(t *testing.T, p *process, again bool) {
	t.Helper()
	env := strings.Join(p.spec.Env, " ")
	if told := strings.Contains(env, "JOBD_ATTEMPT=2 JOBD_RECOVERED=1"); told != again {
		t.Errorf("environment of the start: %s", env)
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
