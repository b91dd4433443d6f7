package reason

import (
	"testing"
	"time"

	"jobd/journal"
	"jobd/net/api"
)

type rowPlan = api.RowPlan

// delayed is a delayed row of target mail, and how that stands on a worker.
func delayed(t *target, p rowPlan, h *history) job {
	return job{Row: &row{Target: "mail", Status: "delayed", Plan: &p}, Target: t, Journal: h, Ahead: &ahead{}}
}

// failedOnce is such a row whose run, or attempt, has failed.
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
		{Recurring, "recurs daily 02:30, and is not planned yet: the next claim does that, for 2026-11-21 02:30 (in 14h30m)", []Answer{
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
		{BadSchedule, "is delayed, and is ignored by the next claim: " + bad, []Answer{of("node-1", delayed(idle, rowPlan{Schedule: "dayly", Bad: bad, RunAt: before, Due: true}, nil))}},
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
		{Running, "runs on node-1 since 10:02 (pid 7, attempt 2 of 5), until 10:12 at most; it recurs every 5m", []Answer{
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
		{Failed, "failed with exit code 3 at 10:02, after 3s; it has been tried 5 times, which is all it has", []Answer{
			of("node-1", done(row{Result: "fail", Code: rowCode(3), Plan: &rowPlan{Attempts: 5, MaxAttempts: 5}}, nil)),
		}},
		{Ignored, "was ignored at 10:02 on node-1, and does not run: " + bad, []Answer{
			of("node-1", job{Row: &row{Status: "ignored", Plan: &rowPlan{Schedule: "dayly", Bad: bad}}, Journal: &history{Status: "ignored", At: at("10:02:00"), Reason: bad}}),
		}},
		{OddStatus, `is delayed, and rows are not delayed here: the key use_columns does not name run_at`, []Answer{of("node-1", job{Row: &row{Target: "mail", Status: "delayed"}, Target: idle})}},
	}
}

// served has a worker serve other targets than usual.
func served(a Answer, targets ...string) Answer {
	a.Targets = targets
	return a
}
