package metrics

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"jobd/cmd/internal/version"
	"jobd/journal"
	"jobd/master"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/check"
)

// built is of what the daemons of these tests were built.
var built = version.Build{Version: "1.2.3", Commit: "0123456789abcdef"}

// scrape gives the lines of a scrape without comments.
func scrape(t *testing.T, handler http.Handler) (lines []string) {
	t.Helper()
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if answer.Code != http.StatusOK {
		t.Fatalf("%d: %s", answer.Code, answer.Body)
	}
	for line := range strings.Lines(answer.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// has fails the test where lines are missing.
func has(t *testing.T, lines []string, want ...string) {
	t.Helper()
	for _, line := range want {
		if !slices.Contains(lines, line) {
			t.Errorf("missing: %s\namong:\n%s", line, strings.Join(lines, "\n"))
		}
	}
}

// table is what waits, as a test says.
type table struct {
	asked [][]string
	rows  api.WaitingRows
	err   error
}

func (f *table) waiting(_ context.Context, targets []string) (api.WaitingRows, error) {
	f.asked = append(f.asked, targets)
	return f.rows, f.err
}

func stands(targets ...string) func() Now {
	now := Now{Status: api.WorkerStatus{Targets: make(map[string]api.TargetStatus)}}
	for _, target := range targets {
		now.Status.Targets[target] = api.TargetStatus{Running: 1, Concurrency: 2, Prefetched: 3}
	}
	return func() Now { return now }
}

func TestWhatHappensIsCounted(t *testing.T) {
	t.Parallel()
	w := NewWorker(built)
	w.JobEnded("a", journal.Done{Result: "fail", Elapsed: 2_000_000, Timeout: 2, Again: &journal.Again{Why: journal.AgainRetry}})
	w.JobEnded("a", journal.Done{Result: "ok"})
	w.JobStarted("a", 3*time.Second)
	w.Claimed(time.Millisecond, nil)
	w.Claimed(time.Second, errors.New("it is away"))
	w.Committed([]journal.Event{{Payload: journal.Done{}}, {Payload: journal.Conflict{}}}, 100, time.Millisecond)
	handled := w.Count(map[string]jobnet.Handler{"poll": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) { return "done", nil }})
	if answer, _ := handled["poll"](t.Context(), nil, jobnet.Request{}); answer != "done" {
		t.Errorf("a counted request was answered with %v", answer)
	}
	lines := scrape(t, w.Handler(Sources{Now: stands("a", "b"), Waiting: new(table).waiting}))
	last := slices.DeleteFunc(slices.Clone(lines), func(line string) bool {
		return !strings.HasPrefix(line, "jobd_job_last_success_timestamp_seconds{")
	})
	if len(last) != 2 || !strings.HasPrefix(last[0], `jobd_job_last_success_timestamp_seconds{target="a"} 1.`) ||
		last[1] != `jobd_job_last_success_timestamp_seconds{target="b"} 0` {
		t.Errorf("of the last jobs that ended well it tells %q", last)
	}
	has(t, lines,
		`jobd_jobs_finished_total{result="ok",target="a"} 1`, `jobd_jobs_finished_total{result="fail",target="a"} 1`,
		`jobd_jobs_finished_total{result="ok",target="b"} 0`, // from its beginning, so that its rate is known
		`jobd_job_retries_total{target="a"} 1`, `jobd_jobs_timed_out_total{target="a"} 1`, `jobd_jobs_cancelled_total{target="a"} 0`,
		`jobd_job_run_seconds_count{target="a"} 1`, `jobd_job_run_seconds_sum{target="a"} 2`,
		`jobd_job_wait_seconds_bucket{target="a",le="2"} 0`, `jobd_job_wait_seconds_bucket{target="a",le="5"} 1`,
		`jobd_claims_total{result="ok"} 1`, `jobd_claims_total{result="failed"} 1`, `jobd_claim_seconds_count 2`,
		`jobd_journal_commit_seconds_count 1`, `jobd_journal_written_bytes_total 100`,
		`jobd_journal_events_total{kind="done"} 1`, `jobd_journal_events_total{kind="conflict"} 1`,
		`jobd_build_info{commit="0123456789abcdef",goversion="`+runtime.Version()+`",version="1.2.3"} 1`,
		`jobd_requests_total{request="poll"} 1`, `jobd_jobs_running{target="a"} 1`, `jobd_target_slots{target="b"} 2`,
	)
}

// However many targets there are, so many have series, and the others are added up.
func TestTargetsAreBounded(t *testing.T) {
	t.Parallel()
	w := NewWorker(built)
	const more = 5
	var names []string
	for i := range mostTargets + more {
		names = append(names, fmt.Sprintf("t%03d", i))
		w.JobEnded(names[i], journal.Done{Result: "ok"})
	}
	asked := &table{}
	lines := scrape(t, w.Handler(Sources{Now: stands(names...), Waiting: asked.waiting}))
	has(t, lines, `jobd_jobs_finished_total{result="ok",target="(others)"} 5`, `jobd_target_slots{target="(others)"} 10`, `jobd_jobs_queued{target="(others)"} 15`)
	series := 0
	for _, line := range lines {
		if strings.HasPrefix(line, "jobd_jobs_running{") {
			series++
		}
	}
	if series != mostTargets+1 || len(asked.asked) != 1 || len(asked.asked[0]) != mostTargets {
		t.Errorf("%d series, and the table was asked for %d targets", series, len(asked.asked[0]))
	}
}

// A target may be called as the sum of those without series of their own is: it is part of it.
func TestATargetCalledAsTheOthers(t *testing.T) {
	t.Parallel()
	for _, many := range []int{0, mostTargets + 1} {
		w, names := NewWorker(built), []string{otherTargets}
		for i := range many {
			names = append(names, fmt.Sprintf("t%03d", i))
		}
		w.JobEnded(otherTargets, journal.Done{Result: "ok"})
		has(t, scrape(t, w.Handler(Sources{Now: stands(names...), Waiting: new(table).waiting})),
			`jobd_jobs_finished_total{result="ok",target="(others)"} 1`, fmt.Sprintf(`jobd_target_slots{target="(others)"} %d`, 2*max(1, 1+many-mostTargets)))
	}
}

// What could not be counted is not told to be known: not of one target, nor of all of them.
func TestRowsThatAreNotCounted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rows  map[string]api.WaitingTarget
		known string
	}{
		"all":         {map[string]api.WaitingTarget{"a": {}, "b": {}}, "1"},
		"one refused": {map[string]api.WaitingTarget{"a": {}, "b": {Error: "no answer within 2s"}}, "0"},
		"one missing": {map[string]api.WaitingTarget{"a": {}}, "0"},
		"none":        {nil, "0"},
	} {
		w, asked := NewWorker(built), &table{rows: api.WaitingRows{Targets: test.rows}}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			has(t, scrape(t, w.Handler(Sources{Now: stands("a", "b"), Waiting: asked.waiting})), "jobd_jobs_waiting_counted "+test.known)
		})
	}
}

// Who scrapes often makes no work for the table.
func TestTheTableIsAskedSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, asked := NewWorker(built), &table{}
		asked.rows.Targets = map[string]api.WaitingTarget{
			"a": {Count: 7, Oldest: time.Now().Add(-time.Minute).Unix()}, "b": {}, "c": {Error: "it was not counted"},
		}
		handler := w.Handler(Sources{Now: stands("a", "b", "c"), Waiting: asked.waiting})
		lines := scrape(t, handler)
		has(t, lines, `jobd_jobs_waiting{target="a"} 7`, `jobd_jobs_waiting_oldest_seconds{target="a"} 60`,
			`jobd_jobs_waiting{target="b"} 0`, `jobd_jobs_waiting_oldest_seconds{target="b"} 0`, `jobd_jobs_waiting_counted 0`)
		if slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, `jobd_jobs_waiting{target="c"}`) }) {
			t.Error("there is a number of what could not be counted")
		}
		time.Sleep(countAge - time.Second)
		has(t, scrape(t, handler), `jobd_jobs_waiting{target="a"} 7`, `jobd_jobs_waiting_oldest_seconds{target="a"} 69`)
		check.Equal(t, len(asked.asked), 1, "the table was asked … times within %v", countAge)
		asked.rows, asked.err = api.WaitingRows{}, errors.New("it is away")
		time.Sleep(time.Second)
		lines = scrape(t, handler)
		has(t, lines, `jobd_jobs_waiting_counted 0`)
		if len(asked.asked) != 2 || slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, `jobd_jobs_waiting{`) }) {
			t.Errorf("asked %d times; an old number is told while the table is away", len(asked.asked))
		}
	})
}

func TestAMastersNumbers(t *testing.T) {
	t.Parallel()
	m := NewMaster(built)
	now := master.Standing{Workers: 2, Targets: 3, Ended: 4, Poked: 5, Polled: 6, Unserved: 7, UnservedSince: time.Now().Add(-time.Hour)}
	lines := scrape(t, m.Handler(func() master.Standing { return now }, func() []api.NotReady { return []api.NotReady{{What: "journal"}} }))
	has(t, lines, `jobd_master_workers 2`, `jobd_master_targets 3`, `jobd_master_registrations_ended_total 4`, `jobd_master_pokes_total 5`,
		`jobd_master_polls_total 6`, `jobd_master_build_info{commit="0123456789abcdef",goversion="`+runtime.Version()+`",version="1.2.3"} 1`,
		`jobd_master_targets_unserved 7`, `jobd_master_journal_failing 1`)
	if !slices.ContainsFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "jobd_master_targets_unserved_oldest_seconds 3600")
	}) {
		t.Errorf("%s", strings.Join(lines, "\n"))
	}
}

// BenchmarkAJob is what all counting of one job costs: its four events in two commits, a start, an
// end, and a fifth of a claim.
func BenchmarkAJob(b *testing.B) {
	w := NewWorker(built)
	for i := 0; b.Loop(); i++ {
		w.Committed([]journal.Event{{Payload: journal.Accepted{}}, {Payload: journal.Running{}}}, 300, time.Millisecond)
		w.Committed([]journal.Event{{Payload: journal.Started{}}, {Payload: journal.Done{}}}, 300, time.Millisecond)
		w.JobStarted("a", time.Second)
		w.JobEnded("a", journal.Done{Result: "ok", Elapsed: 1000})
		if i%5 == 0 {
			w.Claimed(time.Millisecond, nil)
		}
	}
}

// Executors are told by target and mode; those of targets without series of their own are added up.
func TestExecutors(t *testing.T) {
	t.Parallel()
	all := []api.ExecutorStatus{
		{Target: "mail", Mode: "fork", Processes: 6, Booting: 1, Ready: 2, Busy: 2, Boots: 9, Jobs: 70, Recycled: map[string]int64{"max_jobs": 3, "odd": 1}},
		{Target: "hook", Mode: "http", Sent: "http://h/", Busy: 4, Boots: 2, Jobs: 5, Unready: "refused", Since: 1},
	}
	w := NewWorker(built)
	names := make([]string, mostTargets)
	for i := range names {
		names[i] = fmt.Sprint("t", i)
	}
	for _, name := range append([]string{"mail", "hook"}, names...) {
		w.targets.of(name)
	}
	for _, name := range []string{"x", "y"} {
		all = append(all, api.ExecutorStatus{Target: name, Mode: "pool", Processes: 1, Ready: 1, Jobs: 10})
	}
	all[len(all)-2].Failing = "it ended"
	handler := w.Handler(Sources{
		Now:     func() Now { return Now{Status: api.WorkerStatus{Executors: all}} },
		Waiting: (&table{}).waiting,
	})
	lines := scrape(t, handler)
	has(t, lines,
		`jobd_executor_processes{mode="fork",state="booting",target="mail"} 1`, `jobd_executor_processes{mode="fork",state="ready",target="mail"} 2`,
		`jobd_executor_processes{mode="fork",state="busy",target="mail"} 2`, `jobd_executor_processes{mode="fork",state="ending",target="mail"} 1`,
		`jobd_executor_boots_total{mode="fork",target="mail"} 9`, `jobd_executor_turns_total{mode="fork",target="mail"} 70`,
		`jobd_executor_recycles_total{mode="fork",reason="max_jobs",target="mail"} 3`, `jobd_executor_recycles_total{mode="fork",reason="recycle",target="mail"} 0`,
		`jobd_executor_recycles_total{mode="fork",reason="odd",target="mail"} 1`,
		`jobd_executor_unready{mode="fork",target="mail"} 0`, `jobd_executor_unready{mode="http",target="hook"} 1`,
		`jobd_executor_failing{mode="fork",target="mail"} 0`, `jobd_executor_failing{mode="pool",target="(others)"} 1`,
		`jobd_executor_turns_total{mode="http",target="hook"} 5`,
		`jobd_executor_turns_total{mode="pool",target="(others)"} 20`, `jobd_executor_processes{mode="pool",state="ready",target="(others)"} 2`,
	)
	for _, line := range lines {
		if strings.HasPrefix(line, `jobd_executor_processes{mode="http"`) || strings.HasPrefix(line, `jobd_executor_failing{mode="http"`) {
			t.Errorf("requests have no processes: %s", line)
		}
	}
}
