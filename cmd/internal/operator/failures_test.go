package operator

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/cmd/internal/history"
	"jobd/journal"
	jobnet "jobd/net"
)

// Failures that differ by the numbers of jobs and processes only are one group.
func TestFailuresThatAreAlike(t *testing.T) {
	t.Parallel()
	var all []*Failure
	fail := func(job int64, code int, line string, done journal.Done) {
		done.Result, done.Code = "fail", &code
		all = append(all, &Failure{Job: jobnet.Whole(job), Line: line, Code: &code, Reason: done.Reason, done: done, At: time.Unix(1e9-job, 0)})
	}
	for job := int64(1); job <= 3; job++ {
		fail(job, 3, fmt.Sprintf("job %d: there is no order 77", job), journal.Done{})
		fail(10+job, 3, fmt.Sprintf("there is no order %d", job), journal.Done{}) // of three different orders
		why := fmt.Sprintf("process %d was asked for the job, and ended", 4000+job)
		fail(20+job, 1, why, journal.Done{Reason: journal.UnknownOutcome + why})
	}
	got := map[string]int{}
	for _, g := range (Failures{All: all}).Groups() {
		got[g.Line] = g.Count
	}
	want := map[string]int{
		"job 1: there is no order 77": 3, "process 4001 was asked for the job, and ended": 3,
		"there is no order 1": 1, "there is no order 2": 1, "there is no order 3": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A failed attempt of a job that is tried again is no failure yet; a failed run of one that recurs is.
func TestFailedTellsOfTime(t *testing.T) {
	t.Parallel()
	ended := time.Date(2026, 11, 20, 11, 0, 0, 0, time.UTC)
	three := 3
	done := func(job int64, again *journal.Again, token string) history.Event {
		return history.Event{Event: journal.Event{Seq: uint64(job), Job: job, Time: ended, Payload: journal.Done{Result: "fail", Code: &three, Again: again, Token: token}}}
	}
	soon := ended.Unix() + 3900
	list := func(f *Failure, row history.Row) (bool, string, int64) {
		in := f.isIn(row)
		f.comesBack(row)
		return in, f.Row, f.Again / 1000
	}
	for name, test := range map[string]struct {
		again *journal.Again
		row   history.Row
		in    bool
		word  string
		due   int64
	}{
		"used up":             {nil, history.Row{Status: "done", Result: "fail", Finished: ended.Unix(), Plan: &journal.Plan{Attempts: 5}}, true, "", 0},
		"tried again":         {&journal.Again{RunAt: soon, Why: "retry"}, history.Row{Status: "delayed", Result: "fail", Finished: ended.Unix(), Plan: &journal.Plan{RunAt: soon}}, true, rowRetry, soon},
		"recurs":              {&journal.Again{RunAt: soon, Why: "schedule"}, history.Row{Status: "delayed", Result: "fail", Finished: ended.Unix(), Plan: &journal.Plan{RunAt: soon}}, true, rowRecurs, soon},
		"recurs, and runs":    {&journal.Again{RunAt: soon, Why: "schedule"}, history.Row{Status: "running", Owner: "@2", Result: "fail", Finished: ended.Unix()}, true, rowRecurs, 0},
		"ran well since":      {&journal.Again{RunAt: soon, Why: "schedule"}, history.Row{Status: "delayed", Result: "ok", Finished: ended.Unix() + 9}, false, rowRecurs, 0},
		"set back by hand":    {nil, history.Row{Status: "waiting", Result: "fail", Finished: ended.Unix()}, false, "", 0},
		"its row is owed yet": {nil, history.Row{Status: "running", Owner: "@1"}, true, "", 0},
	} {
		payload := done(5, test.again, "@1").Payload.(journal.Done)
		in, word, due := list(&Failure{Job: 5, At: ended, done: payload}, test.row)
		if in != test.in || in && (word != test.word || due != test.due) {
			t.Errorf("%s: %v, %q, %d", name, in, word, due)
		}
	}
}
