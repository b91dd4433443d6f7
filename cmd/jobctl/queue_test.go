package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"jobd/cmd/internal/operator"
	"jobd/net/api"
)

func TestQueueOfAWorker(t *testing.T) {
	t.Parallel()
	worker := standingWorker(t)
	jobctl{terminal: true}.expect(t, worker, output{out: `TARGET      | WAITING | OLDEST | RUNNING | SLOTS | STARTED | ENDED | EMPTY IN
------------+---------+--------+---------+-------+---------+-------+---------
a/long:name | 0       |        | 0       | 10    | 0       | 0     | -
mail        | 10000+  | 3h0m   | 4       | 5     | 30      | 20    | >8h20m
`}, "queue")
	got := jobctl{}.run(t, "--port", worker.port, "queue", "mail", "--output=json")
	const want = `{"targets": [{"target": "mail", "workers": 1, "paused": 0, "waiting": 10000, "waitingMore": true, "oldest": 1795165200000, "running": 4, "slots": 5,
		"prefetched": 2, "startedLastMinute": 30, "endedLastMinute": 20, "failedLastMinute": 1, "emptyInSeconds": 30006}]}`
	if got.code != 0 || got.err != "" || !sameJSON(t, got.out, want) {
		t.Errorf("%+v", got)
	}
}

// Of workers that don't answer, or can't tell, that is said, and the others' numbers are there.
func TestQueueOfAMaster(t *testing.T) {
	t.Parallel()
	master := standingFleet(t, map[string]string{"10.0.0.1:40000": fleetRows})
	jobctl{}.expect(t, master, output{code: 1, out: `TARGET       WAITING  OLDEST  RUNNING  SLOTS  STARTED  ENDED  EMPTY IN
a/long:name  0        -       0        20     0        0      -
mail         40       10m0s   5        10     60       40     1m6s
mial         3        10m0s   0        0      0        0      never
other        ?        ?       ?        2      ?        ?      ?
`, err: `jobctl: worker 'node-3': no answer within 5s
jobctl: worker 'old': it can't tell what runs and waits, because it is an older jobd, or the original
`}, "--master", "queue")
	jobctl{}.expect(t, master, output{
		code: 1, err: "jobctl: nobody serves target 'mal'; the nearest that is served is 'mail'\njobctl: worker 'node-3': no answer within 5s\n",
	}, "--master", "queue", "mail", "mal")
	got := jobctl{}.run(t, "--master", "--port", master.port, "queue", "other", "--output=json")
	const want = `{"targets": [{"target": "other", "workers": 1, "paused": 0, "waiting": null, "waitingMore": false, "oldest": null, "running": null, "slots": 2,
		"prefetched": null, "startedLastMinute": null, "endedLastMinute": null, "failedLastMinute": null, "emptyInSeconds": null}]}`
	if got.code != 1 || !sameJSON(t, got.out, want) {
		t.Errorf("%+v", got)
	}
}

// What nobody starts is not empty in any time, whatever has ended in the last minute.
func TestQueueOfAPausedTarget(t *testing.T) {
	t.Parallel()
	worker := startDaemon(t, "", map[string]any{
		"status":  json.RawMessage(`{"targets": {"mail": {"concurrency": 5, "paused": true, "endedLastMinute": 20}, "video": {"concurrency": 1, "paused": true}}, "database": {"reachable": true}, "pid": 1}`),
		"waiting": json.RawMessage(`{"targets": {"mail": {"count": 7}, "video": {"count": 0}}}`),
	})
	got := jobctl{}.run(t, "--port", worker.port, "queue")
	if got.code != 0 || !strings.Contains(got.out, " paused\n") || !strings.HasSuffix(got.out, " -\n") {
		t.Errorf("%+v", got)
	}
	got = jobctl{}.run(t, "--port", worker.port, "queue", "mail", "--output=json")
	if !strings.Contains(got.out, `"emptyInSeconds":null`) {
		t.Errorf("%+v", got)
	}
}

// A target whose jobs can't be started is never empty either. One whose worker claims nothing for now,
// as its rate is used up, is well, and is empty some time.
func TestQueueOfATargetThatCannotStart(t *testing.T) {
	t.Parallel()
	for name, test := range standings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			worker := startDaemon(t, "", map[string]any{
				"status":  json.RawMessage(`{"targets": {"mail": {"concurrency": 5, "endedLastMinute": 20` + test.target + `}}, "database": {"reachable": true}, "pid": 1` + test.worker + `}`),
				"waiting": json.RawMessage(`{"targets": {"mail": {"count": 7}}}`),
			})
			want, seconds := " never\n", `"emptyInSeconds":null`
			if !test.stuck {
				want, seconds = " 21s\n", `"emptyInSeconds":21`
			}
			if got := (jobctl{}).run(t, "--port", worker.port, "queue"); got.code != 0 || !strings.HasSuffix(got.out, want) {
				t.Errorf("%+v, want %q", got, want)
			}
			if got := (jobctl{}).run(t, "--port", worker.port, "queue", "--output=json"); !strings.Contains(got.out, seconds) {
				t.Errorf("%+v, want %s", got, seconds)
			}
		})
	}
}

// standings are what a worker says of itself, and of its target mail, for which it claims nothing.
var standings = map[string]struct {
	target, worker string // members, after others
	stuck          bool   // it can start no job of the target
}{
	"no process gets ready":    {`, "why": "no process gets ready"`, `, "executors": [{"target": "mail", "mode": "pool", "unready": "no process gets ready"}]`, true},
	"its launcher is gone":     {`, "why": "the launcher is gone"`, `, "launcher": {"broken": "the launcher is gone"}`, true},
	"the rate is used up":      {`, "why": "its rate of 20/m is used up"`, "", false},
	"rows are locked":          {`, "why": "somebody else has locked the rows that wait"`, `, "executors": [{"target": "mail", "mode": "pool"}]`, false},
	"another target is unable": {`, "why": "its rate of 20/m is used up"`, `, "executors": [{"target": "mail", "mode": "pool"}, {"target": "video", "mode": "pool", "unready": "no"}]`, false},
}

// Health says why a target stands, and of one that does not, that its oldest row waits, and no more.
func TestHealthOfATargetThatCannotStart(t *testing.T) {
	t.Parallel()
	for name, test := range standings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := healthDaemon(t, healthAnswer("node-1", `,"targets": {"mail": {"concurrency": 5`+test.target+`}}`+test.worker), fmt.Sprintf(waitingRows, jobctlNow.Unix()-1200))
			got := jobctl{}.run(t, "--port", d.port, "health")
			want := "the oldest row of target mail waits for 20m0s,"
			if test.stuck {
				want = "the oldest row of target mail, whose jobs can't be started, waits for 20m0s,"
			}
			if !strings.Contains(got.out, want) || strings.Contains(got.out, "paused") {
				t.Errorf("\n got %s\nwant %s", got.out, want)
			}
		})
	}
}

func TestQueueWhereNothingCanBeCounted(t *testing.T) {
	t.Parallel()
	worker := startDaemon(t, "", map[string]any{
		"status": json.RawMessage(standingAnswer("node-1", 4)), "waiting": json.RawMessage(`{"targets": {"mail": {"count": 0, "error": "it was not counted"}}}`),
	})
	got := jobctl{}.run(t, "--port", worker.port, "queue", "mail")
	if got.code != 6 || !strings.Contains(got.out, "mail    ?        ?       4        5      30       20     ?\n") || got.err != "jobctl: rows of target mail: it was not counted\n" {
		t.Errorf("%+v", got)
	}
}

// When a target is empty depends on what is left and on what has ended within the last minute.
func TestWhenATargetIsEmpty(t *testing.T) {
	t.Parallel()
	for want, test := range map[string]struct {
		waiting api.WaitingTarget
		tally   operator.Tally
	}{
		"-":       {api.WaitingTarget{}, operator.Tally{Ended: 5}},
		"never":   {api.WaitingTarget{Count: 1}, operator.Tally{}},
		"never ":  {api.WaitingTarget{Count: 1}, operator.Tally{Ended: 5, Workers: 2, Paused: 1, Unable: 1}}, // nobody can start it
		"12s":     {api.WaitingTarget{Count: 1}, operator.Tally{Ended: 5, Workers: 2, Unable: 1}},
		"1s":      {api.WaitingTarget{Count: 1}, operator.Tally{Ended: 600}},
		"1m30s":   {api.WaitingTarget{Count: 2}, operator.Tally{Ended: 2, Prefetched: 1}},
		">16h40m": {api.WaitingTarget{Count: 10_000, More: true}, operator.Tally{Ended: 10}},
		"?":       {api.WaitingTarget{Count: 1}, operator.Tally{Ended: 1, Untold: 1}},
	} {
		test.tally.Target = "a"
		if got := queuedOf(test.tally, map[string]api.WaitingTarget{"a": test.waiting}).emptyText(); got != strings.TrimSpace(want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What would be on stderr is in the page where that is watched; a target that nobody serves ends it.
func TestAQueueThatIsWatchedSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	master := standingFleet(t, map[string]string{"10.0.0.1:40000": fleetRows})
	got := watching(t, false, "EMPTY IN", "--master", "--port", master.port, "queue", "--watch")
	if got.code != 0 || got.err != "" || strings.Count(got.out, "\n\nworker 'node-3': no answer within 5s\nworker 'old': it can't tell") != 2 {
		t.Errorf("%+v", got)
	}
	if got := watching(t, false, "never", "--master", "--port", master.port, "queue", "--watch", "mal"); got.code != 1 || got.out != "" || !strings.Contains(got.err, "'mal'") {
		t.Errorf("%+v", got)
	}
}
