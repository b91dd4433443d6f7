package operator

import (
	"testing"

	"jobd/journal"
)

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
		`target=a token=@t manual=yes`: journal.Accepted{Target: "a", Token: "@t", Manual: true},
		`two lines\nof text`:           journal.Ignored{Reason: "two lines\nof text"},
		`why`:                          journal.Released{Reason: "why"},
		`attempt=2`:                    journal.Running{Attempt: 2},
		`pid=7`:                        journal.Started{Pid: 7},
		`result=fail stdout=0 stderr=0 final=yes retry-after=7s`: journal.Done{Result: "fail", Final: true, RetryAfter: 7},
		`attempt=2 executor=http`:                                journal.Running{Attempt: 2, Executor: "http"},
		`address=http://127.0.0.1:80`:                            journal.Started{Address: "http://127.0.0.1:80"},
		`signal=SIGKILL by="the worker"`:                         journal.Signal{Signo: 9, By: "the worker"},
		`result=ok code=0 stdout=0 stderr=0 reason="no outcome"`: journal.Done{Result: "ok", Code: &zero, Reason: "no outcome"},
		`found: the row is gone wanted=done`:                     journal.Conflict{Wanted: "done"},
		`found: status=waiting owner="" reason="too long"`:       journal.Conflict{Found: &journal.Row{Status: "waiting"}, Reason: "too long"},
		`name="a b" version=1.0.0 pid=1 targets=x/y:2`:           journal.Opened{Name: "a b", Version: "1.0.0", Pid: 1, Targets: map[string]int{"x/y": 2}},
		`SIGTERM`:                                    journal.Closed{Reason: "SIGTERM"},
		`targets=a,b by=c`:                           journal.Paused{Targets: []string{"a", "b"}, By: "c"},
		`targets=a by=c`:                             journal.Continued{Targets: []string{"a"}, By: "c"},
		`target=a concurrency=2 by=c`:                journal.TargetAdded{Target: "a", Concurrency: 2, By: "c"},
		`target=a by=c`:                              journal.TargetRemoved{Target: "a", By: "c"},
		`wanted=done reason="it is locked"`:          journal.SetAside{Wanted: "done", Reason: "it is locked", Token: "@t"},
		`mark=k3f9x`:                                 journal.Marked{Mark: "k3f9x"},
		`server=s2 before=s1 mended=3 left=0`:        journal.Server{Server: "s2", Before: "s1", Mended: 3},
		`instance=r2 before=r1`:                      journal.Runner{Instance: "r2", Before: "r1"},
		`result=fail stdout=0 stderr=0 elapsed=1.5s`: journal.Done{Result: "fail", Elapsed: 1_500_000},
		`target=a concurrency=4 by=c`:                journal.ConcurrencySet{Target: "a", Concurrency: 4, By: "c"},
		`from=done result=fail to=waiting by=c`:      journal.Retried{From: "done", Result: "fail", To: "waiting", By: "c"},
		`reason="the runner is gone" by=on_crash`:    journal.Requeued{Reason: "the runner is gone", By: "on_crash"},
		`by=c grace=10s`:                             journal.Cancelled{By: "c", Runs: true, Grace: 10_000_000, Token: "@t"},
		`request=pause about="targets=[\"a\"]" by=c`: journal.Requested{Request: "pause", About: `targets=["a"]`, By: "c"},
		`worker=w targets="a,b and 3 more" by="w (cert, d)" more_times=2`: journal.Registered{Worker: "w", Targets: []string{"a", "b"}, More: 3, By: "w (cert, d)", Times: 2},
		`worker=w reason="it stops" by=c`:                                 journal.Left{Worker: "w", Reason: "it stops", By: "c"},
		`jobs=1,2 by=c`:                                                   journal.Requested{Jobs: []int64{1, 2}, By: "c"},
		`jobs="1,2,3,4,5,6,7,8 and 1 more" by=c`:                          journal.Requested{Jobs: []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}, By: "c"},
		`request=add-target about=a reason=no by=c`:                       journal.Refused{Request: "add-target", About: "a", Reason: "no", By: "c"},
		`file=/f digest=00 changed=a,b by=SIGHUP`:                         journal.Reloaded{File: "/f", Digest: "00", Changed: []string{"a", "b"}, By: "SIGHUP"},
		`rows=2 refused=0 by=c`:                                           journal.Reapplied{Rows: 2, By: "c", Ended: true},
		`target=a token=@t from=delayed due=1970-01-01T00:00:08Z planned=1970-01-01T00:00:05Z attempts=2 schedule="every 5m" zone=UTC`: journal.Accepted{
			Target: "a", Token: "@t", From: "delayed", PlannedAt: 5, Plan: &journal.Plan{RunAt: 8, Attempts: 2, Schedule: "every 5m", Zone: "UTC"},
		},
		`target=a token=@t`:            journal.Accepted{Target: "a", Token: "@t", Plan: &journal.Plan{}},
		`attempt=3 timeout=10m0s`:      journal.Running{Attempt: 3, Timeout: 600, KillAfter: 10},
		`signal=SIGTERM by=c ends=yes`: journal.Signal{Signo: 15, By: "c", Ends: true},
		`result=fail code=0 stdout=0 stderr=0 timeout=1m0s again=1970-01-01T00:00:09Z planned=1970-01-01T00:00:05Z attempts=2 why=retry`: journal.Done{
			Result: "fail", Code: &zero, Timeout: 60, Again: &journal.Again{RunAt: 9, PlannedAt: 5, Attempts: 2, Why: journal.AgainRetry},
		},
		`target=a was_due=1970-01-01T00:00:08Z again=1970-01-01T00:00:09Z why=schedule reason=missed by=c`: journal.Planned{
			Target: "a", From: journal.Plan{RunAt: 8}, To: journal.Again{RunAt: 9, PlannedAt: 9, Why: journal.AgainSchedule}, Reason: "missed", By: "c",
		},
		`schedule="every 1m" again=1970-01-01T00:00:09Z why=schedule`: journal.Replanned{
			Token: "@t", Schedule: "every 1m", Again: &journal.Again{RunAt: 9, PlannedAt: 9, Why: journal.AgainSchedule},
		},
		`again=no note="it is empty"`:     journal.Replanned{Token: "@t", Note: "it is empty"},
		`first=1 last=2 seq=9 reason=old`: journal.Retention{First: 1, Last: 2, Seq: 9, Reason: "old"},
	} {
		described[payload.Kind()] = true
		if got := Describe(payload); got != want {
			t.Errorf("%s: %s, want %s", payload.Kind(), got, want)
		}
	}
}

func TestDescribeLaunchersOfTargets(t *testing.T) {
	t.Parallel()
	launchers := map[string][]string{"sms": {"/srv/sms", "{id}"}, "a b": {"/srv/ab"}}
	for want, payload := range map[string]journal.Payload{
		`name=n version=1 pid=1 targets="a b:1" launcher=/x launchers="a b: /srv/ab; sms: /srv/sms {id}"`: journal.Opened{
			Name: "n", Version: "1", Pid: 1, Targets: map[string]int{"a b": 1}, Launcher: []string{"/x"}, Launchers: launchers,
		},
		`file=/f digest=00 launchers="a b: /srv/ab; sms: /srv/sms {id}" by=SIGHUP`: journal.Reloaded{
			File: "/f", Digest: "00", By: "SIGHUP", Launchers: launchers,
		},
	} {
		if got := Describe(payload); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
