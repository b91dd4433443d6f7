package reason

import (
	"strings"
	"testing"
	"time"

	"jobd/net/api"
)

// Each reason, in its words.
func TestSentences(t *testing.T) {
	t.Parallel()
	seen := map[Code]bool{}
	ten := at("10:02:00")
	ran := &history{Status: "done", Last: "done", At: at("10:02:03"), Ended: at("10:02:03"), Result: "ok", Ran: 2_531_000}
	for _, test := range []struct {
		code     Code
		sentence string
		answers  []Answer
	}{
		{NoSuchJob, ": the table has no such row", []Answer{of("node-1", job{})}},
		{NoSuchJob, "has no row any more; the journal of node-1 has it as done at 10:02 (ok)", []Answer{of("node-2", job{}), of("node-1", job{Journal: ran})}},
		{Unreadable, "may be anywhere: no worker has answered", []Answer{silent("node-1", "no answer within 8s")}},

		{Running, "runs on node-1 since 10:02 (pid 4711)", []Answer{of("node-1", job{Here: &here{Phase: "running", Since: ten, PID: 4711, Attempt: 1}})}},
		{Running, "runs on node-2 since 2026-11-19 23:59 (pid 4711, attempt 2)", []Answer{
			of("node-1", under("running", "@bbbbxxxxx", nil)), of("node-2", job{Here: &here{Phase: "running", Since: at("00:00:00") - 1000, PID: 4711, Attempt: 2}}),
		}},
		{Running, "runs on node-1 since 10:02; somebody else has changed its row meanwhile, which says waiting", []Answer{
			of("node-1", job{Row: &row{Status: "waiting"}, Here: &here{Phase: "running", Since: ten}, Journal: &history{Lost: true}}),
		}},
		{Orphaned, "runs on node-1 since 10:02 (pid 7), but its runner is gone: nobody will know how it ends", []Answer{
			of("node-1", job{Here: &here{Phase: "running", Since: ten, PID: 7, Adopted: true}}),
		}},
		{Cancelling, "was cancelled at 10:05 by 10.0.0.5, and is ending: it runs on node-1 since 10:02 (pid 7)", []Answer{
			of("node-1", job{Here: &here{Phase: "running", Since: ten, PID: 7}, Journal: &history{Cancelled: at("10:05:00"), CancelledBy: "10.0.0.5:99"}}),
		}},
		{Conflict, "has a row that was made done by somebody else than jobd; its run ended at 10:02 on node-1, as the journal there says: killed by SIGTERM; it was cancelled by 10.0.0.5", []Answer{
			of("node-1", job{Row: &row{Target: "mail", Status: "done"}, Journal: &history{
				Status: "done", At: at("10:05:00"), Ended: ten, Lost: true, Result: "fail", Signal: "SIGTERM", Cancelled: ten, CancelledBy: "10.0.0.5:99",
			}}),
		}},
		{Conflict, "has a row that was made ignored by somebody else than jobd; its run ended at 10:02 on node-1, as the journal there says: ok", []Answer{
			of("node-1", job{Row: &row{Target: "mail", Status: "ignored"}, Journal: &history{Status: "done", Ended: ten, Found: &api.FoundRow{Status: "ignored"}, Result: "ok"}}),
		}},
		{Starting, "is being started on node-1", []Answer{of("node-1", job{Here: &here{Phase: "starting"}})}},
		{Starting, "is being started on node-1, and waits for a Gearman worker that asks for a job", []Answer{
			of("node-1", job{Here: &here{Phase: "starting", Reason: "a Gearman worker that asks for a job"}}),
		}},
		{Claimed, "has a slot on node-1, and starts as soon as its row says running", []Answer{of("node-1", job{Here: &here{Phase: "claimed"}})}},
		{Claimed, "has a slot on node-1, and starts as soon as its row says running, but its row can't be made running since 10:02: somebody holds it", []Answer{
			of("node-1", job{Here: &here{Phase: "claimed"}, Quarantined: &aside{Wanted: "running", Reason: "somebody holds it", Since: ten}}),
		}},
		{Prefetched, "was claimed by node-1 at 10:02, and waits there behind 3 jobs for a slot: all 4 slots of target mail are in use", []Answer{
			of("node-1", job{Here: &here{Phase: "queued", Since: ten, Before: 3}, Target: busy}),
		}},
		{Prefetched, "was claimed by node-1 at 10:02, and is the next there: its target mail is paused since 10:02 by 10.0.0.5", []Answer{
			of("node-1", job{Here: &here{Phase: "queued", Since: ten}, Target: paused}),
		}},
		{Prefetched, "was claimed by node-1 at 10:02, and is the next there: node-1 claims nothing for target mail since 10:02: no such file", []Answer{
			of("node-1", job{Here: &here{Phase: "queued", Since: ten}, Target: hindered("launcher", "no such file")}),
		}},
		{Renewing, "could not be started on node-1, which tries again in a moment", []Answer{of("node-1", job{Here: &here{Phase: "renewing"}})}},
		{Ended, "has ended on node-1; its outcome follows soon", []Answer{of("node-1", job{Here: &here{Phase: "ended"}})}},
		{Leaving, "is being given back by node-1, because the target was paused", []Answer{of("node-1", job{Here: &here{Phase: "leaving", Reason: "the target was paused"}})}},
		{InDoubt, "was claimed by node-1 at 10:02, perhaps: it is not known yet whether that was committed", []Answer{
			of("node-1", job{Here: &here{Phase: "in doubt", Since: ten}}),
		}},
		{InDoubt, "was marked as ignored by node-1, perhaps: it is not known yet whether that was committed", []Answer{
			of("node-1", job{Here: &here{Phase: "in doubt", Ignoring: true}}),
		}},
		{Leaving, "is being given up by node-1, because the claim was not won", []Answer{of("node-1", job{Here: &here{Phase: "in doubt", Reason: "the claim was not won"}})}},

		{Waiting, "waits behind 40 jobs of its target: all 4 slots of target mail are in use, on node-1", []Answer{with(of("node-1", waits(busy)), 40, false)}},
		{Waiting, "waits behind 10,000+ jobs of its target: all 8 slots of target mail are in use, on node-1, node-2; paused on node-3 since 10:02", []Answer{
			with(of("node-1", waits(busy)), 10_000, true), of("node-2", waits(busy)), of("node-3", waits(paused)),
		}},
		{Waiting, "waits behind 1 job of its target mail", []Answer{with(of("node-1", waits(looks)), 1, false)}},
		{Slots, "is the next of its target: all 4 slots of target mail are in use, on node-1; node-2 claims nothing: no route to host", []Answer{
			of("node-1", waits(busy)), of("node-2", waits(hindered("database", "no route to host"))),
		}},
		{Slots, "is the next of its target: the one slot of target mail is in use, on node-1", []Answer{of("node-1", waits(single)), of("node-2", waits(nil))}},
		{Waiting, "waits behind the others (the table did not say how many) of its target mail", []Answer{of("node-1", job{Row: waits(nil).Row, Target: looks})}},
		{Next, "is the next of its target mail, and node-1 is about to claim it", []Answer{of("node-1", waits(looks))}},
		{Released, "waits again, and is the next of its target mail, and node-1 is about to claim it; node-2 gave it back at 10:02, because the target was paused", []Answer{
			of("node-1", waits(looks)), of("node-2", job{Journal: &history{Status: "released", Last: "released", Ended: ten, Reason: "the target was paused"}}),
		}},
		{Next, "is the next of its target mail, and node-1 is about to claim it; retried at 10:02 by 10.0.0.5", []Answer{
			of("node-1", job{Row: waits(nil).Row, Ahead: &ahead{}, Target: looks, Journal: &history{Status: "waiting", Last: "retried", At: ten, By: "10.0.0.5:7"}}),
		}},
		{Unseen, "waits until a worker looks for it: node-1 has room for target mail, and looks when poked (jobctl poll, or poke of a master), and never by itself (poll_interval = 0)", []Answer{
			of("node-1", waits(idle)),
		}},
		{Unseen, "waits until a worker looks for it: node-1 has room for target mail, and looks when poked (jobctl poll, or poke of a master), and every 5m by itself; before it wait 2 jobs", []Answer{
			with(of("node-1", waits(&target{Name: "mail", Concurrency: 4, Room: 4, Interval: 300_000})), 2, false),
		}},
		{Locked, "waits: node-1 claims nothing for target mail since 10:02: somebody else has locked the rows that wait", []Answer{
			of("node-1", job{Row: waits(nil).Row, Target: hindered("locked", "somebody else has locked the rows that wait")}),
		}},
		{Refused, "is quarantined on node-2 since 10:02: the table refuses its claim: CHECK weight", []Answer{
			of("node-1", waits(looks)), of("node-2", job{Row: waits(nil).Row, Target: looks, Quarantined: &aside{Reason: "CHECK weight", Since: ten}}),
		}},
		{Paused, "waits: its target mail is paused since 10:02 by 10.0.0.5 (on node-1)", []Answer{of("node-1", waits(paused)), of("node-2", waits(nil))}},
		{Paused, "waits: its target mail is paused since 10:02 by 10.0.0.5 (on all 2 workers that serve it)", []Answer{of("node-1", waits(paused)), of("node-2", waits(paused))}},
		{Paused, "waits: its target mail is paused since 10:02 by 10.0.0.5 (on node-1); node-2 serves it too, and does not answer", []Answer{
			of("node-1", waits(paused)), serves(silent("node-2", "no answer"), "mail"), serves(cannot("node-3"), "video"),
		}},
		{Untold, "waits, and no worker that answers serves its target x (served are mail); node-2 serves it, and does not say", []Answer{
			of("node-1", job{Row: &row{Target: "x", Status: "waiting"}}), serves(cannot("node-2"), "x"),
		}},
		{Untold, "waits, and no worker that answers serves its target x (served are mail); node-2 perhaps serves it, and does not answer", []Answer{
			of("node-1", job{Row: &row{Target: "x", Status: "waiting"}}), silent("node-2", "no answer"),
		}},
		{Unserved, "waits, and no worker that answers serves its target x (served are mail)", []Answer{
			of("node-1", job{Row: &row{Target: "x", Status: "waiting"}}), serves(silent("node-2", "no answer"), "mail"),
		}},
		{Unserved, "waits, and no worker serves its target mial (did you mean mail?)", []Answer{of("node-1", job{Row: &row{Target: "mial", Status: "waiting"}}), of("node-2", job{})}},
		{Unserved, "waits, and node-1 does not serve its target x (served are mail)", []Answer{of("node-1", job{Row: &row{Target: "x", Status: "waiting"}})}},
		{"stopping", "waits: node-1 claims nothing for target mail since 10:02: the worker stops", []Answer{of("node-1", waits(hindered("stopping", "the worker stops")))}},
		{"name", "waits: node-1 claims nothing for target mail since 10:02: the column has no ü", []Answer{of("node-1", waits(hindered("name", "the column has no ü")))}},
		{"disk", "waits: node-1 claims nothing for target mail since 10:02: 1 MiB left", []Answer{of("node-1", waits(hindered("disk", "1 MiB left")))}},
		{"database", "waits: node-1 claims nothing for target mail since 10:02: connection refused", []Answer{of("node-1", waits(hindered("database", "connection refused")))}},
		{"unwritten", "waits: node-1 claims nothing for target mail since 10:02: the table can't be written", []Answer{of("node-1", waits(hindered("unwritten", "the table can't be written")))}},
		{"identity", "waits: node-1 claims nothing for target mail since 10:02: the name node-1 is another worker's", []Answer{of("node-1", waits(hindered("identity", "the name node-1 is another worker's")))}},
		{"launcher", "waits: node-1 claims nothing for target mail since 10:02: no such file", []Answer{of("node-1", waits(hindered("launcher", "no such file")))}},
		{"executor", "waits: node-1 claims nothing for target mail since 10:02: no process gets ready", []Answer{of("node-1", waits(hindered("executor", "no process gets ready")))}},
		{"trouble", "waits: node-1 claims nothing for target mail since 10:02: claims fail: lock", []Answer{of("node-1", waits(hindered("trouble", "claims fail: lock")))}},
		{"stuck", "waits: node-1 claims nothing for target mail: the claim has waited for the database since 10:02", []Answer{
			of("node-1", waits(hindered("stuck", "the claim has waited for the database since 10:02"))),
		}},

		{Silent, "is running since 10:02, as its row says; its token has the worker id of node-9 (" + tokenOf("node-9") + "), which does not answer", []Answer{
			of("node-1", under("running", tokenOf("node-9"), nil)), silent("node-8", "no answer"), silent("node-9", "no answer within 8s"),
		}},
		{Unregistered, "is accepted, as its row says; it was claimed by a worker that is not registered, or is one of those that do not answer: node-9 (token @zzzz12345)", []Answer{
			of("node-1", under("accepted", "@zzzz12345", nil)), silent("node-9", "no answer within 8s"),
		}},
		{Unregistered, "is running since 10:02, as its row says; it was claimed by no worker that is registered (token @zzzz12345)", []Answer{
			of("node-1", under("running", "@zzzz12345", nil)), of("node-2", under("running", "@zzzz12345", nil)),
		}},
		{Unregistered, "is running since 10:02, as its row says; it was not claimed by node-1 (token @zzzz12345)", []Answer{
			of("node-1", under("running", "@zzzz12345", nil)),
		}},
		{Nobody, "is running since 10:02, as its row says, but the row bears no claim of a worker, and no worker that answers has it: it was left by something else, such as the original jobd", []Answer{
			of("node-1", under("running", "", nil)),
		}},
		{Nobody, "is running since 10:02, as its row says, but the row bears no claim of a worker, and no worker that answers has it; old may have it, but can't report it", []Answer{
			of("node-1", under("running", "", nil)), cannot("old"),
		}},
		{Nobody, `is accepted, as its row says, but its owner column says "me", which is no claim of a worker, and none that answers has it: it was left by something else, such as the original jobd`, []Answer{
			of("node-1", under("accepted", "me", nil)),
		}},
		{Lost, "is running since 10:02, as its row says, and carries the worker id of node-1, whose journal does not know this claim (token @aaaaxxxxx): that worker looks into it", []Answer{
			of("node-1", under("running", "@aaaaxxxxx", nil)),
		}},
		{Lost, "is running since 10:02, as its row says; it was claimed by node-1 (token @aaaaxxxxx), whose journal can't be read: damaged", []Answer{
			of("node-1", job{Row: under("running", "@aaaaxxxxx", nil).Row, Unread: "damaged"}),
		}},
		{Behind, "ended at 10:05 (exit code 3) on node-1, which its row does not show yet: its row can't be made done since 10:02: CHECK", []Answer{
			of("node-2", under("running", "@aaaaxxxxx", nil)), of("node-1", job{
				Row: under("running", "@aaaaxxxxx", nil).Row, Quarantined: &aside{Wanted: "done", Reason: "CHECK", Since: ten},
				Journal: &history{Status: "done", Token: "@aaaaxxxxx", Ended: at("10:05:00"), Result: "fail", Code: code(3)},
			}),
		}},
		{Behind, "was given back at 10:05, because it stops, on node-1, which its row does not show yet", []Answer{
			of("node-1", under("accepted", "@aaaaxxxxx", &history{Status: "released", Token: "@aaaaxxxxx", Ended: at("10:05:00"), Reason: "it stops"})),
		}},
		{Conflict, "is not node-1's any more, because somebody else changed its row at 10:05, which said waiting; now it says accepted", []Answer{
			of("node-1", under("accepted", "@aaaaxxxxx", &history{Status: "conflict", Token: "@aaaaxxxxx", At: at("10:05:00"), Found: &api.FoundRow{Status: "waiting"}})),
		}},
		{Claimed, "was claimed by node-1 at 10:02, whose journal has it as running", []Answer{
			of("node-1", under("running", "@aaaaxxxxx", &history{Status: "running", Token: "@aaaaxxxxx", Claimed: ten})),
		}},

		{Done, "is done: ok at 10:02 on node-2, after 2.5s", []Answer{of("node-1", done(row{Result: "ok", Code: rowCode(0)}, nil)), of("node-2", done(row{}, ran))}},
		{Done, "is done: ok at 10:02, after 3s", []Answer{of("node-1", done(row{Result: "ok", Code: rowCode(0)}, nil))}},
		{Failed, "failed with exit code 3 at 10:02, after 3s: no mail", []Answer{of("node-1", done(row{Result: "fail", Code: rowCode(3), Stderr: api.JobText{Tail: "one\nno mail\n\n"}}, nil))}},
		{Failed, "failed with exit code 4 at 10:02, after 3s: HTTP/1.1 404 Not Found: no such job", []Answer{
			of("node-1", done(row{Result: "fail", Code: rowCode(4), Stderr: api.JobText{Size: 35, Tail: "HTTP/1.1 404 Not Found\nno such job\n"}}, nil)),
		}},
		{Failed, "failed with exit code 4 at 10:02, after 3s: HTTP/1.1 404 Not Found", []Answer{
			of("node-1", done(row{Result: "fail", Code: rowCode(4), Stderr: api.JobText{Size: 23, Tail: "HTTP/1.1 404 Not Found\n"}}, nil)),
		}},
		{Failed, "failed with exit code 3 at 10:02, after 3s: Status: 200 OK", []Answer{
			of("node-1", done(row{Result: "fail", Code: rowCode(3), Stderr: api.JobText{Size: 15, Tail: "Status: 200 OK\n"}}, nil)),
		}},
		{Failed, "failed with exit code 3 at 10:02, after 3s: of much", []Answer{
			of("node-1", done(row{Result: "fail", Code: rowCode(3), Stderr: api.JobText{Size: 9000, Tail: "Status: 500 the end\nof much\n"}}, nil)),
		}},
		{Failed, "failed at 10:02 on node-1, after 3s: fork: no memory", []Answer{
			of("node-1", done(row{Result: "fail"}, &history{Status: "done", Result: "fail", Reason: "fork: no memory"})),
		}},
		{Killed, "was killed by SIGKILL at 10:02, after 3s", []Answer{of("node-1", done(row{Result: "fail", Sig: "SIGKILL"}, nil))}},
		{Unknown, "ended at 10:02 on node-1, and its outcome is unknown: the machine lost power", []Answer{
			of("node-1", done(row{Result: "fail"}, &history{Status: "done", Reason: "outcome unknown: the machine lost power"})),
		}},
		{Unknown, "ended at 10:02, and its outcome is unknown: the machine lost power", []Answer{
			of("node-1", done(row{Result: "fail", Stderr: api.JobText{Tail: "jobd: outcome unknown: the machine lost power\n"}}, nil)),
		}},
		{Cancelled, "was cancelled by 10.0.0.5, and ended at 10:02 on node-1: killed by SIGTERM", []Answer{
			of("node-1", done(row{Result: "fail", Sig: "SIGTERM"}, &history{Status: "done", Cancelled: ten, CancelledBy: "10.0.0.5:1"})),
		}},
		{Ignored, "was ignored at 10:02 on node-1, and does not run: status = waiting != manual", []Answer{
			of("node-1", job{Row: &row{Status: "ignored"}, Journal: &history{Status: "ignored", At: ten, Reason: "status = waiting != manual"}}),
		}},
		{Ignored, "was ignored, and does not run; no journal says why", []Answer{of("node-1", job{Row: &row{Status: "ignored"}})}},
		{Cancelled, "was ignored at 10:02 on node-1, and does not run: cancelled by 10.0.0.5", []Answer{
			of("node-1", job{Row: &row{Status: "ignored"}, Journal: &history{Status: "ignored", Last: "cancelled", At: ten, By: "10.0.0.5:1", Reason: "cancelled by 10.0.0.5"}}),
		}},
		{Manual, "is manual: it runs when somebody asks for it (jobctl run-manual 5)", []Answer{of("node-1", job{Row: &row{Target: "mail", Status: "manual"}, Target: idle})}},
		{Manual, "is manual: it runs when somebody asks for it (jobctl run-manual 5); node-1 does not serve its target x (served are mail)", []Answer{
			of("node-1", job{Row: &row{Target: "x", Status: "manual"}}),
		}},
		{OddStatus, `has the status "held", which jobd does not know: it is left alone`, []Answer{of("node-1", job{Row: &row{Status: "held"}})}},
	} {
		got := Of(Question{Job: 5, Now: now, Location: time.UTC}, test.answers)
		if want := strings.Replace("job 5 "+test.sentence, " : ", ": ", 1); got.Sentence != want || got.Reason != test.code {
			t.Errorf("%s: %s\nwant %s: %s", got.Reason, got.Sentence, test.code, want)
		}
		seen[test.code] = true
	}
	for _, one := range casesAboutTime(0, 0, 0, rowPlan{}) {
		seen[one.code] = true
	}
	for _, word := range allCodes(t) {
		if !seen[word] && word != OtherTarget {
			t.Errorf("no case is about %s", word)
		}
	}
}
