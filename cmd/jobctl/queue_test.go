package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/cmd/internal/operator"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
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

// A target that no worker serves is in the queue as soon as a row waits for it: its name may be misspelt.
func TestQueueHasTargetsThatNobodyServes(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{
		"status":  json.RawMessage(`{"targets": {"mail": {"concurrency": 2}}, "database": {"reachable": true}}`),
		"waiting": json.RawMessage(`{"targets": {"mail": {"count": 0}, "mial": {"count": 3, "oldest": 1795175900}}}`),
	})
	jobctl{}.expect(t, d, output{out: `TARGET  WAITING  OLDEST  RUNNING  SLOTS  STARTED  ENDED  EMPTY IN
mail    0        -       0        2      0        0      -
mial    3        1m40s   0        0      0        0      never
`}, "queue")
	jobctl{}.run(t, "--port", d.port, "queue", "mail")
	if asked := d.asked(); asked[1] != `waiting {"targets":["mail"],"others":true}` || asked[3] != `waiting {"targets":["mail"]}` {
		t.Errorf("asked %q", asked)
	}
}

// Of workers that don't answer, or can't tell, that is said, and the others' numbers are there.
func TestQueueOfAMaster(t *testing.T) {
	t.Parallel()
	master := standingFleet(t, map[string]string{"10.0.0.1:40000": fleetRows})
	jobctl{}.expect(t, master, output{code: 1, out: `TARGET       WAITING  OLDEST  RUNNING  SLOTS  STARTED  ENDED  EMPTY IN
a            ?        ?       0        0      0        0      ?
a/long:name  0        -       0        20     0        0      -
b            ?        ?       0        0      0        0      ?
c            ?        ?       0        0      0        0      ?
d            ?        ?       0        0      0        0      ?
e            ?        ?       0        0      0        0      ?
f            ?        ?       0        0      0        0      ?
mail         40       10m0s   5        10     60       40     1m6s
mial         3        10m0s   0        0      0        0      never
other        ?        ?       ?        2      ?        ?      ?
`, err: `jobctl: worker 'node-3': no answer within 5s
jobctl: worker 'w9': it is down since 2026-11-20T11:00:00Z
jobctl: worker 'old': it can't report what runs and waits, because it is an older jobd, or the original
`}, "--master", "queue")
	jobctl{}.expect(t, master, output{
		code: 1, err: "jobctl: no worker serves target 'mal'; the nearest that is served is 'mail'\njobctl: worker 'node-3': no answer within 5s\n" +
			"jobctl: worker 'w9': it is down since 2026-11-20T11:00:00Z\n",
	}, "--master", "queue", "mail", "mal")
	got := jobctl{}.run(t, "--master", "--port", master.port, "queue", "other", "--output=json")
	const want = `{"targets": [{"target": "other", "workers": 1, "paused": 0, "waiting": null, "waitingMore": false, "oldest": null, "running": null, "slots": 2,
		"prefetched": null, "startedLastMinute": null, "endedLastMinute": null, "failedLastMinute": null, "emptyInSeconds": null}]}`
	if got.code != 1 || !sameJSON(t, got.out, want) {
		t.Errorf("%+v", got)
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
			want := "the oldest row of target mail waits for 20m0s;"
			if test.stuck {
				want = "the oldest row of target mail, whose jobs can't be started, waits for 20m0s;"
			}
			if !strings.Contains(got.out, want) || strings.Contains(got.out, "paused") {
				t.Errorf("\n got %s\nwant %s", got.out, want)
			}
		})
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
		if got := queuedOf(test.tally, map[string]api.WaitingTarget{"a": test.waiting}).empty; got != strings.TrimSpace(want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What was set by hand and is undone by a start is told.
func TestWhatARestartUndoes(t *testing.T) {
	t.Parallel()
	before := map[string]api.TargetStatus{"a": {Concurrency: 5, Paused: true}, "b": {Concurrency: 1}, "c": {Concurrency: 2, Paused: true}, "d": {}}
	after := map[string]api.TargetStatus{"a": {Concurrency: 2}, "b": {Concurrency: 1}, "c": {Concurrency: 2, Paused: true}, "e": {Concurrency: 1}}
	want := []string{"target a: 5 slots → 2, as the file says", "target a was paused, it is not now", "target d is not served any more: the file does not have it", "target e is served now: 1 slot, as the file says"}
	check.Elements(t, undone(before, after), want)
}

// silentDaemon answers the requests that are named, and others never; with asked it tells what it was asked.
func silentDaemon(t *testing.T, answers map[string]any, asked chan<- string) (port string) {
	t.Helper()
	handlers, over := map[string]jobnet.Handler{}, make(chan struct{})
	for _, typ := range []string{"status", "poll", "pause", "run-manual", "restart", "journal-anchor", "journal-events", "journal-next"} {
		handlers[typ] = func(ctx context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			if answer, known := answers[typ]; known && (typ != "status" || !request.Fields().Flag("hang")) {
				return answer, nil
			}
			request.Proceed()
			if asked != nil {
				asked <- typ
			}
			select {
			case <-ctx.Done():
			case <-over:
			}
			return nil, context.Canceled
		}
	}
	port = listen(t, jobnet.ServerConfig{Handlers: handlers})
	t.Cleanup(func() { close(over) })
	return port
}

// patiently tries something with more and more patience until nothing is wrong with it: on a busy
// machine a little may be too little for what is to come within it.
func patiently(t *testing.T, try func(patience time.Duration) (wrong string), patience ...time.Duration) {
	t.Helper()
	for _, p := range patience {
		wrong := try(p)
		if wrong == "" {
			return
		}
		if p == patience[len(patience)-1] {
			t.Error(wrong)
		}
	}
}

// A daemon that hangs is named after a while, whatever it was asked; what waits for jobs waits.
func TestAnAnswerThatDoesNotCome(t *testing.T) {
	t.Parallel()
	status := map[string]any{"status": json.RawMessage(workerAnswer)}
	for args, answers := range map[string]map[string]any{
		"status": nil, "list-targets": nil, "poll": status, "pause": status, "run-manual 5": nil, "restart": nil, "journal log": status,
		"journal log --follow": status, "journal show 5": {"status": status["status"], "journal-events": map[string]string{"cursor": "c"}},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			port := silentDaemon(t, answers, nil)
			patiently(t, func(patience time.Duration) string {
				got := jobctl{patience: patience}.run(t, append([]string{"--port", port}, strings.Fields(args)...)...)
				if got.code != 1 || !strings.HasPrefix(got.err, "jobctl: 127.0.0.1:"+port+": no answer within ") {
					return fmt.Sprintf("%+v", got)
				}
				return ""
			}, time.Second, 10*time.Second)
		})
	}
	check.Equal(t, queryTimeout, 10*time.Second, "the default is …, and the documentation says 10 s")
}

// --timeout is for the whole run, and takes the place of the default, also where it is longer, or 0.
func TestTimeoutTakesThePlaceOfTheDefault(t *testing.T) {
	t.Parallel()
	slow := startSlow(t, 100*time.Millisecond)
	for _, timeout := range []string{"0", "1h"} {
		if got := (jobctl{patience: time.Millisecond}).run(t, "--port", slow, "--timeout", timeout, "status"); got.code != 0 {
			t.Errorf("--timeout %s: %+v", timeout, got)
		}
	}
	patiently(t, func(timeout time.Duration) string {
		slower := startSlow(t, 10*timeout)
		got := jobctl{patience: time.Hour}.run(t, "--port", slower, "--timeout", timeout.String(), "status")
		if got.code != 5 || !strings.Contains(got.err, "no answer within "+timeout.String()) {
			return fmt.Sprintf("--timeout %s: %+v", timeout, got)
		}
		return ""
	}, 10*time.Millisecond, time.Second, 10*time.Second)
}

// startSlow starts a worker that takes so long for an answer.
func startSlow(t *testing.T, takes time.Duration) (port string) {
	t.Helper()
	return listen(t, jobnet.ServerConfig{Handlers: map[string]jobnet.Handler{
		"status": func(ctx context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			request.Proceed()
			select {
			case <-time.After(takes):
			case <-ctx.Done():
			}
			return json.RawMessage(workerAnswer), nil
		},
	}})
}

// Ctrl-C ends jobctl, not the jobs, and says so.
func TestInterruptedRuns(t *testing.T) {
	t.Parallel()
	status := map[string]any{"status": json.RawMessage(workerAnswer)}
	for name, test := range map[string]struct {
		signal syscall.Signal
		args   string
		asked  string
		code   int
		want   string
	}{
		"one job":     {syscall.SIGINT, "run-manual 5", "run-manual", 130, "jobctl: interrupted; the job goes on without jobctl: 'jobctl journal show 5' shows how it ends\n"},
		"two jobs":    {syscall.SIGTERM, "run-manual 5 6", "run-manual", 143, "jobctl: terminated; the jobs go on without jobctl: 'jobctl journal show 5' shows how it ends\n"},
		"a change":    {syscall.SIGINT, "pause", "pause", 130, "jobctl: interrupted; the request (pause) may have been carried out\n"},
		"a question":  {syscall.SIGINT, "list-targets", "status", 130, "jobctl: interrupted\n"},
		"before that": {syscall.SIGINT, "run-manual 5", "status", 130, "jobctl: interrupted\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked, answers := make(chan string, 1), status
			if test.asked == "status" {
				answers = nil
			}
			port := silentDaemon(t, answers, asked)
			cmd := ownProcess(t, append([]string{"--port", port}, strings.Fields(test.args)...)...)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			must.Do(t, cmd.Start())
			must.Equal(t, <-asked, test.asked, "asked")
			must.Do(t, cmd.Process.Signal(test.signal))
			_ = cmd.Wait()
			if cmd.ProcessState.ExitCode() != test.code || errs.String() != test.want {
				t.Errorf("%v, stderr %q, want exit code %d and %q", cmd.ProcessState, errs.String(), test.code, test.want)
			}
		})
	}
}
