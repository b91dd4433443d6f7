package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // Berlin, wherever this runs

	"github.com/google/go-cmp/cmp"

	"jobd/cmd/internal/history"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// Each target is asked of one worker that serves it, with few requests; where one can't tell, another is
// asked in its place, and it is no error then.
func TestShare(t *testing.T) {
	t.Parallel()
	fleet := []*Worker{
		{Name: "one", Address: "a:1", Targets: []string{"mail", "video"}},
		{Name: "two", Address: "a:2", Targets: []string{"fax", "mail"}},
		{Name: "three", Address: "a:3", Targets: []string{"mail"}},
	}
	for name, test := range map[string]struct {
		workers []*Worker
		targets []string
		mute    string // who can't tell
		asked   string
		errs    string
	}{
		"all targets":                  {workers: fleet, asked: "one[mail video] two[fax]"},
		"some":                         {workers: fleet, targets: []string{"fax", "mail"}, asked: "two[fax mail]"},
		"one that can't tell":          {workers: fleet, targets: []string{"mail"}, mute: "one", asked: "one[mail] two[mail]"},
		"one that nobody can replace":  {workers: fleet, mute: "one", asked: "one[mail video] two[fax mail]", errs: "worker 'one': no"},
		"a target that nobody serves":  {workers: fleet, targets: []string{"print"}},
		"no workers":                   {},
		"the only one":                 {workers: []*Worker{{}}, targets: []string{"print"}, asked: "[print]"},
		"the only one, which can't":    {workers: []*Worker{{Name: ""}}, mute: "-", asked: "[]", errs: "no"},
		"a worker that serves nothing": {workers: []*Worker{{Name: "idle", Address: "a:1", Targets: []string{}}}},
	} {
		var asked []string
		errs := share(test.workers, test.targets, func(w *Worker, targets []string) error {
			asked = append(asked, fmt.Sprint(w.Name, targets))
			if test.mute != "" && (w.Name == test.mute || test.mute == "-") {
				return errors.New("no")
			}
			return nil
		})
		check.Equal(t, strings.Join(asked, " "), test.asked, "%s: asked", name)
		said := ""
		if err := errors.Join(errs...); err != nil {
			said = err.Error()
		}
		check.Equal(t, said, test.errs, "%s: errors", name)
	}
}

// Whether a request was carried out is open where no answer came of it, to us or to the master; a
// refusal, and what never left, was not.
func TestWhatIsLeftOpen(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		&unanswered{"retry", errors.New("link closed")}:                      true,
		&unanswered{"status", errors.New("link closed")}:                     false,
		&unanswered{"retry", fmt.Errorf("%w: gone", jobnet.ErrUnsent)}:       false,
		&jobnet.RemoteError{Text: "no answer within 30s"}:                    true,
		&jobnet.RemoteError{Text: "connection lost"}:                         true,
		&jobnet.RemoteError{Text: "the database is away"}:                    false,
		&jobnet.RemoteError{Text: "unknown request type: 'retry'", Code: ""}: false,
	} {
		check.Equal(t, open(err, "retry"), want, "%v", err)
	}
}

func TestParseTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	east := time.FixedZone("east", 3600)
	for text, want := range map[string]time.Time{
		"2026-11-20 14:00":          time.Date(2026, 11, 20, 13, 0, 0, 0, time.UTC),
		"2026-11-20 14:00:30":       time.Date(2026, 11, 20, 13, 0, 30, 0, time.UTC),
		"2026-11-20 14:00:30.25":    time.Date(2026, 11, 20, 13, 0, 30, 250_000_000, time.UTC),
		"2026-11-20T14:00":          time.Date(2026, 11, 20, 13, 0, 0, 0, time.UTC),
		"2026-11-20":                time.Date(2026, 11, 19, 23, 0, 0, 0, time.UTC),
		"2026-11-20T14:00:00Z":      time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC),
		"2026-11-20T14:00:00.5Z":    time.Date(2026, 11, 20, 14, 0, 0, 500_000_000, time.UTC),
		"2026-11-20T14:00:00+02:00": time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC),
		"12:59":                     now.Add(-time.Minute),
		"13:00:00":                  now,
		"13:00:01":                  now.Add(time.Second - 24*time.Hour),
		"14:00":                     now.Add(-23 * time.Hour),
		"2h":                        now.Add(-2 * time.Hour),
		"1.5h":                      now.Add(-90 * time.Minute),
		"30d":                       now.AddDate(0, 0, -30),
		"0s":                        now,
		"1763640000":                time.Unix(1763640000, 0),
		"1795299125.2":              time.Unix(1795299125, 200_000_000),
		"1795299125.123456789":      time.Unix(1795299125, 123_456_789),
		"1795299125.":               time.Unix(1795299125, 0),
		"1000000000":                time.Unix(1000000000, 0),
		"9999999999":                time.Unix(9999999999, 0),
	} {
		if got, err := ParseTime(text, now, east); err != nil || !got.Equal(want) {
			t.Errorf("ParseTime(%s) = %v, %v, want %v", text, got, err, want)
		}
	}
	for text, says := range map[string]string{
		"": "allowed: a time such as", "then": "allowed: a time such as", "-2h": "allowed:", "24:00": "allowed:", "14": "how long ago has a unit", "2026-13-01": "allowed:",
		"2026-02-30": "allowed:", "2026-11": "allowed:", "1M": "allowed:", "0x6ad0": "allowed:", "1_763_640_000": "allowed:", " 2h": "allowed:",
		"20261121":            "how long ago has a unit",
		"20261121140000":      "how long ago has a unit",
		"202611211400":        "how long ago has a unit",
		"1795299125200":       "how long ago has a unit",
		"1795299125200.5":     "how long ago has a unit",
		"1795299125200000":    "how long ago has a unit",
		"1795299125200000000": "how long ago has a unit",
		"0":                   "how long ago has a unit", "5": "how long ago has a unit", "2026": "how long ago has a unit", "90.5": "how long ago has a unit",
		"999999999": "unix time in seconds, of ten digits", "10000000000": "unix time in seconds, of ten digits",
		"-1763640000": "unix time", "+1763640000": "unix time", "1.7e9": "unix time", "1.5e400": "unix time", "1763640000e1": "unix time", ".5": "unix time",
		"1795299125.1234567891": "unix time", "1795299125.2.3": "allowed:", "٢٠٢٦١١٢١": "allowed:", "1795299125,2": "allowed:", "inf": "allowed:", "NaN": "allowed:",
	} {
		if got, err := ParseTime(text, now, east); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("ParseTime(%q) = %v, %v, want an error with %q", text, got, err, says)
		}
	}
}

// Where there is no socket, the address is asked as ever; where nobody is there either, both are named.
func TestASocketIsTriedFirst(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := jobnet.NewServer(jobnet.ServerConfig{Handlers: map[string]jobnet.Handler{
		"status": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
			return map[string]any{"targets": nil}, nil
		},
	}})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	address, first := listener.Addr().String(), filepath.Join(t.TempDir(), "s")
	d := New(Config{Address: address, First: first})
	if _, err := d.Ask(t.Context(), "status", nil); err != nil || d.Where() != address || d.First != "" {
		t.Errorf("%v, at %s", err, d.Where())
	}
	d.Close()
	stop()
	<-served
	_ = server.Shutdown(t.Context())
	d = New(Config{Address: address, First: first})
	want := "no connection to " + first + " (no such file or directory), nor to " + address + ": connection refused"
	if _, err := d.Ask(t.Context(), "status", nil); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// Every kind that there is is described, in one line.
func TestDescribe(t *testing.T) {
	t.Parallel()
	zero := 0
	described := make(map[journal.Kind]bool)
	defer func() {
		for _, kind := range journal.Kinds() {
			if !described[kind] {
				t.Errorf("%s is not among them", kind)
			}
		}
	}()
	for want, payload := range map[string]journal.Payload{
		`target=a manual=yes token=@t`: journal.Accepted{Target: "a", Token: "@t", Manual: true},
		`reason="two lines\nof text"`:  journal.Ignored{Reason: "two lines\nof text"},
		`reason=why`:                   journal.Released{Reason: "why"},
		`attempt=2`:                    journal.Running{Attempt: 2},
		`pid=7`:                        journal.Started{Pid: 7},
		`result=fail stdout=0 stderr=0 final=yes retry_after=7s`: journal.Done{Result: "fail", Final: true, RetryAfter: 7},
		`attempt=2 executor=http`:                                journal.Running{Attempt: 2, Executor: "http"},
		`address=http://127.0.0.1:80`:                            journal.Started{Address: "http://127.0.0.1:80"},
		`signo=SIGKILL by="the worker"`:                          journal.Signal{Signo: 9, By: "the worker"},
		`result=ok code=0 stdout=0 stderr=0 reason="no outcome"`: journal.Done{Result: "ok", Code: &zero, Reason: "no outcome"},
		`found="no row" wanted=done`:                             journal.Conflict{Wanted: "done"},
		`found.status=waiting reason="too long"`:                 journal.Conflict{Found: &journal.Row{Status: "waiting"}, Reason: "too long"},
		`name="a b" version=1.0.0 pid=1 targets=x/y:2 launcher="/x {id}" launchers="a: /srv/a; b: /b 1"`: journal.Opened{
			Name: "a b", Version: "1.0.0", Pid: 1, Targets: map[string]int{"x/y": 2}, Launcher: []string{"/x", "{id}"}, Launchers: map[string][]string{"b": {"/b", "1"}, "a": {"/srv/a"}},
		},
		`reason=SIGTERM`:                                       journal.Closed{Reason: "SIGTERM"},
		`targets=a,b by=c`:                                     journal.Paused{Targets: []string{"a", "b"}, By: "c"},
		`targets=a by=c`:                                       journal.Continued{Targets: []string{"a"}, By: "c"},
		`target=a concurrency=2 by=c`:                          journal.TargetAdded{Target: "a", Concurrency: 2, By: "c"},
		`target=a by=c`:                                        journal.TargetRemoved{Target: "a", By: "c"},
		`wanted=done reason="it is locked"`:                    journal.SetAside{Wanted: "done", Reason: "it is locked", Token: "@t"},
		`mark=k3f9x`:                                           journal.Marked{Mark: "k3f9x"},
		`server=s2 before=s1 mended=3`:                         journal.Server{Server: "s2", Before: "s1", Mended: 3},
		`instance=r2 before=r1`:                                journal.Runner{Instance: "r2", Before: "r1"},
		`result=fail stdout=0 stderr=0 elapsed=1.5s`:           journal.Done{Result: "fail", Elapsed: 1_500_000},
		`target=a concurrency=4 by=c`:                          journal.ConcurrencySet{Target: "a", Concurrency: 4, By: "c"},
		`from=done to=waiting result=fail by=c`:                journal.Retried{From: "done", Result: "fail", To: "waiting", By: "c"},
		`reason="the runner is gone" by=on_crash`:              journal.Requeued{Reason: "the runner is gone", By: "on_crash"},
		`runs=yes grace=10s by=c`:                              journal.Cancelled{By: "c", Runs: true, Grace: 10_000_000, Token: "@t"},
		`request=pause about="targets=[\"a\"]" by=c`:           journal.Requested{Request: "pause", About: `targets=["a"]`, By: "c"},
		`worker=w targets=a,b more=3 times=2 by="w (cert, d)"`: journal.Registered{Worker: "w", Targets: []string{"a", "b"}, More: 3, By: "w (cert, d)", Times: 2},
		`worker=w reason="it stops" by=c`:                      journal.Left{Worker: "w", Reason: "it stops", By: "c"},
		`jobs=1,2 by=c`:                                        journal.Requested{Jobs: []int64{1, 2}, By: "c"},
		`jobs="1,2,3,4,5,6,7,8 and 1 more" by=c`:               journal.Requested{Jobs: []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}, By: "c"},
		`request=add-target about=a reason=no by=c`:            journal.Refused{Request: "add-target", About: "a", Reason: "no", By: "c"},
		`file=/f digest=00 changed=a,b by=SIGHUP`:              journal.Reloaded{File: "/f", Digest: "00", Changed: []string{"a", "b"}, By: "SIGHUP"},
		`rows=2 ended=yes by=c`:                                journal.Reapplied{Rows: 2, By: "c", Ended: true},
		`target=a token=@t from=delayed plan.run_at=1970-01-01T00:00:08Z plan.attempts=2 plan.schedule="every 5m" plan.time_zone=UTC planned_at=1970-01-01T00:00:05Z`: journal.Accepted{
			Target: "a", Token: "@t", From: "delayed", PlannedAt: 5, Plan: &journal.Plan{RunAt: 8, Attempts: 2, Schedule: "every 5m", Zone: "UTC"},
		},
		`target=a token=@t`:           journal.Accepted{Target: "a", Token: "@t", Plan: &journal.Plan{}},
		`attempt=3 timeout=10m0s`:     journal.Running{Attempt: 3, Timeout: 600, KillAfter: 10},
		`signo=SIGTERM ends=yes by=c`: journal.Signal{Signo: 15, By: "c", Ends: true},
		`result=fail code=0 stdout=0 stderr=0 timeout=1m0s again.run_at=1970-01-01T00:00:09Z again.planned_at=1970-01-01T00:00:05Z again.attempts=2 again.why=retry`: journal.Done{
			Result: "fail", Code: &zero, Timeout: 60, Again: &journal.Again{RunAt: 9, PlannedAt: 5, Attempts: 2, Why: journal.AgainRetry},
		},
		`target=a from.run_at=1970-01-01T00:00:08Z to.run_at=1970-01-01T00:00:09Z to.planned_at=1970-01-01T00:00:09Z to.why=schedule reason=missed by=c`: journal.Planned{
			Target: "a", From: journal.Plan{RunAt: 8}, To: journal.Again{RunAt: 9, PlannedAt: 9, Why: journal.AgainSchedule}, Reason: "missed", By: "c",
		},
		`schedule="every 1m" again.run_at=1970-01-01T00:00:09Z again.planned_at=1970-01-01T00:00:09Z again.why=schedule`: journal.Replanned{
			Token: "@t", Schedule: "every 1m", Again: &journal.Again{RunAt: 9, PlannedAt: 9, Why: journal.AgainSchedule},
		},
		`note="it is empty"`:              journal.Replanned{Token: "@t", Note: "it is empty"},
		`first=1 last=2 seq=9 reason=old`: journal.Retention{First: 1, Last: 2, Seq: 9, Reason: "old"},
	} {
		described[payload.Kind()] = true
		if got := Describe(payload); got != want {
			t.Errorf("%s: %s, want %s", payload.Kind(), got, want)
		}
	}
}

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
	check.Equal(t, cmp.Diff(want, got), "", "(-want +got)")
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
