package reason

import (
	"crypto/sha256"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// now is 2026-11-20 12:00 UTC; at gives milliseconds of that day.
var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func at(clock string) int64 {
	of, err := time.Parse("2006-01-02 15:04:05", "2026-11-20 "+clock)
	if err != nil {
		panic(err)
	}
	return of.UnixMilli()
}

type (
	job     = api.ExplainedJob
	row     = api.JobRow
	target  = api.TargetStanding
	here    = api.JobStanding
	history = api.JobHistory
	aside   = api.QuarantinedJob
	ahead   = api.JobsAhead
)

// of is the answer of a worker about job 5.
func of(name string, j job) Answer {
	j.Job = 5
	marks := map[string]string{"node-1": "aaaa", "node-2": "bbbb", "node-3": "cccc"}
	return Answer{Name: name, Explained: api.Explained{Name: name, Mark: marks[name], Targets: []string{"mail"}, Jobs: []job{j}}}
}

// silent is a worker that has not answered.
func silent(name, text string) Answer {
	return Answer{Name: name, Err: &jobnet.RemoteError{Text: text}}
}

// cannot is a worker that does not know the question.
func cannot(name string) Answer {
	return Answer{Name: name, Err: jobnet.Refusal("unknown request type: 'explain'").With(jobnet.CodeUnknown)}
}

// serves is a worker that has told nothing, and of which its master knows what it serves.
func serves(a Answer, targets ...string) Answer {
	a.Targets = targets
	return a
}

// tokenOf is a token of a worker of that name.
func tokenOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	const letters = "abcdefghijklmnopqrstuvwxyz234567"
	token := []byte("@____abcde")
	for i := range 4 {
		token[i+1] = letters[sum[i]%32]
	}
	return string(token)
}

// waits is a row of target mail that waits, and how that stands on a worker.
func waits(t *target) job {
	return job{Row: &row{Target: "mail", Status: "waiting"}, Target: t, Ahead: &ahead{}}
}

// under is a row under way that nobody who answers has.
func under(status, owner string, h *history) job {
	return job{Row: &row{Target: "mail", Status: status, Owner: owner, Started: at("10:02:00") / 1000}, Journal: h}
}

func done(r row, h *history) job {
	r.Target, r.Status, r.Started, r.Finished = "mail", "done", at("10:02:00")/1000, at("10:02:03")/1000
	return job{Row: &r, Journal: h}
}

var (
	idle   = &target{Name: "mail", Concurrency: 4, Room: 4}
	looks  = &target{Name: "mail", Concurrency: 4, Room: 4, Looks: true}
	busy   = &target{Name: "mail", Concurrency: 4}
	single = &target{Name: "mail", Concurrency: 1}
	paused = &target{Name: "mail", Concurrency: 4, Paused: true, PausedSince: at("10:02:00"), PausedBy: "10.0.0.5:4711 via master 10.0.0.1:7081"}
)

func hindered(word, why string) *target {
	return &target{Name: "mail", Concurrency: 4, Hindered: word, Why: why, Since: at("10:02:00")}
}

func code(n int) *int { return &n }

// with has so many rows wait before the job.
func with(a Answer, rows int, more bool) Answer {
	a.Jobs[0].Ahead = &ahead{Rows: rows, More: more}
	return a
}

// A worker whose table is away tells so, with what its journal knows.
func TestTheTableCannotBeRead(t *testing.T) {
	t.Parallel()
	a := of("node-1", job{Journal: &history{Status: "done", Result: "fail", Code: code(3), At: at("10:05:00")}})
	a.Table = "connection refused"
	a.Database = &api.Standing{Since: now.Add(-time.Hour)}
	got := Of(Question{Job: 5, Now: now, Location: time.UTC}, []Answer{a, silent("node-2", "no answer")})
	want := "job 5 ended at 10:05 on node-1 (exit code 3), as the journal there says; its row's present state is unknown: " +
		"node-1 can't read the table since 11:00: connection refused"
	if got.Sentence != want || got.Reason != Unreadable {
		t.Errorf("%+v", got)
	}
	a.Jobs[0].Here = &here{Phase: "in doubt", Since: at("10:02:00")}
	got = Of(Question{Job: 5, Now: now, Location: time.UTC}, []Answer{a})
	want = "job 5 was claimed by node-1 at 10:02, perhaps: it is not known yet whether that was committed, because it can't be read since 11:00"
	check.Equal(t, got.Sentence, want)
	got = Of(Question{Job: 5, Now: now, Location: time.UTC}, []Answer{a, of("node-2", waits(busy))})
	if got.Reason != InDoubt { // what a worker has in its hands comes first
		t.Errorf("%+v", got)
	}
}

// A target that is named must be the row's, or one that its table takes for it.
func TestTheTargetThatWasNamed(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Code{"mail": Next, "MAIL": Next, "pics": OtherTarget, "": Next} {
		as := of("node-1", job{Row: &row{Target: "mail", Status: "waiting"}, Ahead: &ahead{}, Target: &target{Name: "MAIL", Concurrency: 1, Room: 1, Looks: true}})
		got := Of(Question{Job: 5, Target: name, Now: now, Location: time.UTC}, []Answer{as})
		check.Equal(t, got.Reason, want, "%q: %+v", name, got)
	}
}

// Whatever texts others have put in, a sentence is one line, and not too long.
func TestTextsOfOthers(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 1000)
	got := Of(Question{Job: 5, Now: now, Location: time.UTC}, []Answer{of("node-1", done(row{Result: "fail", Code: rowCode(3), Stderr: api.JobText{Tail: "x\n" + long + "\n"}}, nil))})
	if len(got.Sentence) > 400 || strings.Contains(got.Sentence, "\n") || !strings.HasSuffix(got.Sentence, "ü…") {
		t.Errorf("%d bytes: %s", len(got.Sentence), got.Sentence)
	}
	text := errors.New("a\nb").Error()
	check.Equal(t, cut(text), "a b")
}

var constant = regexp.MustCompile(`(?m)^\t\w+ +Code = "([a-z-]+)"`)

// allCodes are the codes as the source has them.
func allCodes(t *testing.T) (all []Code) {
	t.Helper()
	source := must.Get(os.ReadFile("reason.go"))(t)
	for _, match := range constant.FindAllStringSubmatch(string(source), -1) {
		all = append(all, Code(match[1]))
	}
	if len(all) < 30 {
		t.Fatalf("only %d codes were found", len(all))
	}
	return all
}

func rowCode(code int64) *int64 { return &code }

type rowPlan = api.RowPlan

// delayed is a delayed row of target mail, and how that stands on a worker.
func delayed(t *target, p rowPlan, h *history) job {
	return job{Row: &row{Target: "mail", Status: "delayed", Plan: &p}, Target: t, Journal: h, Ahead: &ahead{}}
}

// unplanned is a delayed row as a worker has it that does not use its columns about time.
func unplanned(t *target) job { return job{Row: &row{Target: "mail", Status: "delayed"}, Target: t} }

// failedOnce is a delayed row a row whose run, or attempt, has failed.
func failedOnce(j job, result string, exit int64) job {
	j.Row.Result, j.Row.Code, j.Row.Finished = result, rowCode(exit), at("11:40:00")/1000
	return j
}

// clockSeconds is a moment of the tests' day, in seconds.
func clockSeconds(clock string) int64 { return at(clock) / 1000 }

// Each reason that is about time, in its words. It is 12:00.
func TestSentencesAboutTime(t *testing.T) {
	t.Parallel()
	soon, before, night := clockSeconds("12:04:00"), clockSeconds("11:58:00"), clockSeconds("02:30:00")+24*3600
	daily := rowPlan{RunAt: night, PlannedAt: night, Schedule: "daily 02:30", In: "Europe/Berlin", Next: night}
	for _, test := range casesAboutTime(soon, before, night, daily) {
		got := Of(Question{Job: 5, Now: now, Location: time.UTC}, test.answers)
		if want := "job 5 " + test.sentence; got.Sentence != want || got.Reason != test.code {
			t.Errorf("%s: %s\nwant %s: %s", got.Reason, got.Sentence, test.code, want)
		}
	}
}

type caseAboutTime struct {
	code     Code
	sentence string
	answers  []Answer
}

func casesAboutTime(soon, before, night int64, daily rowPlan) []caseAboutTime {
	bad := `schedule "dayly": it has none of the known forms`
	asleep := daily
	asleep.RunAt = journal.PausedAt
	return []caseAboutTime{
		{Delayed, "is delayed until 12:04 (in 4m)", []Answer{of("node-1", delayed(idle, rowPlan{RunAt: soon}, nil))}},
		{Delayed, "is delayed until 12:04 (in 4m); node-1 does not serve its target mail (served are video)", []Answer{
			served(of("node-1", delayed(nil, rowPlan{RunAt: soon}, nil)), "video"),
		}},
		{Retrying, "is delayed until 12:04 (in 4m), attempt 2 of 5 after exit code 3", []Answer{
			of("node-1", failedOnce(delayed(idle, rowPlan{RunAt: soon, Attempts: 1, MaxAttempts: 5}, &history{Status: "done"}), "fail", 3)),
		}},
		{Retrying, "is delayed until 12:04 (in 4m), attempt 3 after its time limit of 10m was over; it recurs hourly :00", []Answer{
			of("node-1", failedOnce(delayed(idle, rowPlan{RunAt: soon, Attempts: 2, Schedule: "hourly :00", In: "UTC"}, &history{Status: "done", Timeout: 600}), "fail", 0)),
		}},
		{Recurring, "recurs daily 02:30 (Europe/Berlin), next run 2026-11-21 02:30 UTC (in 14h30m)", []Answer{of("node-1", delayed(idle, daily, nil))}},
		{Recurring, "recurs daily 02:30 (Europe/Berlin), next run 2026-11-21 02:30 UTC (in 14h30m); the last one ended at 11:40: exit code 3", []Answer{
			of("node-1", failedOnce(delayed(idle, daily, nil), "fail", 3)),
		}},
		{Recurring, "recurs daily 02:30 (Europe/Berlin), next run 2026-11-21 02:30 UTC (in 14h30m); planned at 11:40 on node-1", []Answer{
			of("node-1", delayed(idle, daily, &history{Status: "planned", Last: "planned", At: at("11:40:00"), Reason: "its schedule is planned"})),
		}},
		{Recurring, "recurs every 5m, next run 12:04 (in 4m)", []Answer{of("node-1", delayed(idle, rowPlan{Schedule: "every 5m", In: "Europe/Berlin", RunAt: soon}, nil))}},
		{Delayed, "is delayed until 2026-11-22 14:32 (in 2d2h)", []Answer{of("node-1", delayed(idle, rowPlan{RunAt: soon + 50*3600 + 28*60 + 59}, nil))}},
		{Recurring, "recurs daily 02:30, and is not planned yet: the next claim plans it, for 2026-11-21 02:30 (in 14h30m)", []Answer{
			of("node-1", delayed(idle, rowPlan{Schedule: "daily 02:30", In: "UTC", Next: night, Due: true}, nil)),
		}},
		{Recurring, "recurs daily 02:30 (Europe/Berlin), next run 2026-11-21 02:30 UTC (in 14h30m); planned anew at 11:40 on node-1 (it was due at 11:58): it was missed", []Answer{
			of("node-1", delayed(idle, daily, &history{Status: "planned", Last: "planned", At: at("11:40:00"), WasDue: before, Reason: "it was missed"})),
		}},
		{Recurring, "recurs daily 02:30 (Europe/Berlin), and does not run: its schedule is paused; jobctl schedule continue 5 goes on; planned anew at 11:40 on node-1 by 10.0.0.5 (it was due at 2026-11-21 02:30): its schedule is paused", []Answer{
			of("node-1", delayed(idle, asleep, &history{Status: "planned", Last: "planned", At: at("11:40:00"), By: "10.0.0.5:7", WasDue: night, Reason: "its schedule is paused"})),
		}},
		{Recurring, "recurs daily 02:30 (Europe/Berlin), and does not run: its schedule is paused; jobctl schedule continue 5 goes on", []Answer{of("node-1", delayed(idle, asleep, nil))}},
		{Recurring, "recurs daily 02:30 (Europe/Berlin), next run 2026-11-21 02:30 UTC (in 14h30m); planned anew at 11:40 on node-1 by 10.0.0.5: its schedule goes on", []Answer{
			of("node-1", delayed(idle, daily, &history{Status: "planned", Last: "planned", At: at("11:40:00"), By: "10.0.0.5:7", WasDue: journal.PausedAt, Reason: "its schedule goes on"})),
		}},
		{BadSchedule, "is delayed, and the next claim ignores it: " + bad, []Answer{of("node-1", delayed(idle, rowPlan{Schedule: "dayly", Bad: bad, RunAt: before, Due: true}, nil))}},
		{BadSchedule, "recurs dayly, next run 12:04 (in 4m); then it is ignored: " + bad, []Answer{of("node-1", delayed(idle, rowPlan{Schedule: "dayly", Bad: bad, RunAt: soon}, nil))}},

		{Next, "is due since 11:58, and is the next of its target mail, and node-1 is about to claim it", []Answer{of("node-1", delayed(looks, rowPlan{RunAt: before, Due: true}, nil))}},
		{Waiting, "is due since 11:58, and waits behind 40 jobs of its target: all 4 slots of target mail are in use, on node-1", []Answer{
			with(of("node-1", delayed(busy, rowPlan{RunAt: before, Due: true}, nil)), 40, false),
		}},
		{Paused, "is due since 11:58, attempt 2 of 5 after exit code 3, and waits: its target mail is paused since 10:02 by 10.0.0.5 (on node-1)", []Answer{
			of("node-1", failedOnce(delayed(paused, rowPlan{RunAt: before, Due: true, Attempts: 1, MaxAttempts: 5}, nil), "fail", 3)),
		}},
		{Next, "is due since 11:58, and is the next of its target mail, and node-1 is about to claim it; planned anew at 11:58 on node-1 by 10.0.0.5 (it was due at 12:04): run-now", []Answer{
			of("node-1", delayed(looks, rowPlan{RunAt: before, Due: true}, &history{Status: "planned", Last: "planned", At: before * 1000, By: "10.0.0.5:7", WasDue: soon, Reason: "run-now"})),
		}},
		{Next, "is the next of its target mail, and node-1 is about to claim it; it recurs every 5m", []Answer{
			of("node-1", job{Row: &row{Target: "mail", Status: "waiting", Plan: &rowPlan{Schedule: "every 5m", In: "UTC"}}, Target: looks, Ahead: &ahead{}}),
		}},
		{Running, "runs on node-1 since 10:02 (pid 7, attempt 2 of 5), until 10:12:00 at most; it recurs every 5m", []Answer{
			of("node-1", job{
				Row:  &row{Target: "mail", Status: "running", Plan: &rowPlan{Schedule: "every 5m"}},
				Here: &here{Phase: "running", Since: at("10:02:00"), PID: 7, Attempt: 2, MaxAttempts: 5, Deadline: at("10:12:00")},
			}),
		}},
		{TimedOut, "failed at 10:02 on node-1, after 3s: its time limit of 2s was over", []Answer{
			of("node-1", done(row{Result: "fail", Code: rowCode(0)}, &history{Status: "done", Result: "fail", Code: code(0), Timeout: 2})),
		}},
		{Stopped, "failed at 10:02 on node-1, after 3s: ended because worker w2 was stopped", []Answer{
			of("node-1", done(row{Result: "fail", Sig: "SIGTERM"}, &history{Status: "done", Result: "fail", Signal: "SIGTERM", Reason: "ended because worker w2 was stopped; it recurs no more"})),
		}},
		{Stopped, "failed at 10:02, after 3s: ended because worker w2 was stopped", []Answer{
			of("node-1", done(row{Result: "fail", Sig: "SIGTERM", Stderr: api.JobText{Tail: "late\n[jobd: ended because worker w2 was stopped]\n"}}, nil)),
		}},
		{Failed, "failed with exit code 65 at 10:02, after 3s; with exit code 65 it is not tried again", []Answer{
			of("node-1", done(row{Result: "fail", Code: rowCode(65), Plan: &rowPlan{Attempts: 1, MaxAttempts: 5}}, nil)),
		}},
		{Failed, "failed with exit code 3 at 10:02, after 3s; it was tried 5 times, as often as allowed", []Answer{
			of("node-1", done(row{Result: "fail", Code: rowCode(3), Plan: &rowPlan{Attempts: 5, MaxAttempts: 5}}, nil)),
		}},
		{Ignored, "was ignored at 10:02 on node-1, and does not run: " + bad, []Answer{
			of("node-1", job{Row: &row{Status: "ignored", Plan: &rowPlan{Schedule: "dayly", Bad: bad}}, Journal: &history{Status: "ignored", At: at("10:02:00"), Reason: bad}}),
		}},
		{OddStatus, `is delayed, and delayed rows are not run by node-1: the key use_columns there does not name run_at`, []Answer{of("node-1", job{Row: &row{Target: "mail", Status: "delayed"}, Target: idle})}},
		{OddStatus, `is delayed, and delayed rows are not run by node-2: the key use_columns there does not name run_at`, []Answer{
			of("node-1", delayed(nil, rowPlan{RunAt: soon}, nil)), of("node-2", unplanned(idle)),
		}},
		{Delayed, "is delayed until 12:04 (in 4m)", []Answer{of("node-1", unplanned(nil)), of("node-2", delayed(idle, rowPlan{RunAt: soon}, nil))}},
		{Delayed, "is delayed until 12:04 (in 4m)", []Answer{of("node-1", unplanned(idle)), of("node-2", delayed(idle, rowPlan{RunAt: soon}, nil))}},
		{Next, "is due since 11:58, and is the next of its target mail, and node-2 is about to claim it", []Answer{
			of("node-1", unplanned(looks)), of("node-2", delayed(looks, rowPlan{RunAt: before, Due: true}, nil)),
		}},
	}
}

// served has a worker serve other targets than usual.
func served(a Answer, targets ...string) Answer {
	a.Targets = targets
	return a
}

// The command that runs a manual job is the one for the daemon that was asked: a master needs the
// job's target.
func TestHowAManualJobIsRun(t *testing.T) {
	t.Parallel()
	answers := []Answer{of("node-1", job{Row: &row{Target: "mail", Status: "manual"}, Target: idle})}
	for master, want := range map[bool]string{false: "jobctl run-manual 5", true: "jobctl --master run-manual mail:5"} {
		want = "job 5 is manual: it runs when somebody asks for it (" + want + ")"
		got := Of(Question{Job: 5, Master: master, Now: now, Location: time.UTC}, answers)
		check.Equal(t, got.Sentence, want)
	}
}

// Seconds of which there are none are left out, and no others.
func TestHowLongSomethingTook(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		12345678: "12ms", 1234567890: "1.2s", time.Minute: "1m", 100 * time.Second: "1m40s", 70 * time.Second: "1m10s",
		10 * time.Minute: "10m", time.Hour: "1h0m", time.Hour + 20*time.Second: "1h0m20s", time.Hour + 10*time.Minute: "1h10m",
	} {
		if got := lengthy(d); got != want {
			t.Errorf("%v is told as %s, want %s", d.Nanoseconds(), got, want)
		}
	}
}

func TestWhoIsNamed(t *testing.T) {
	t.Parallel()
	for by, want := range map[string]string{
		"10.0.0.5:4711": "10.0.0.5", "10.0.0.5:4711 via master 10.0.0.1:7081": "10.0.0.5", "uid 33 pid 4711": "uid 33 pid 4711",
		"ann (token, 10.0.0.5:4711)": "ann", "ann (uid, uid 33 pid 4711) via unverified master 10.0.0.1:7081": "ann", "": "",
	} {
		check.Equal(t, whoOf(by), want, "%q", by)
	}
}
