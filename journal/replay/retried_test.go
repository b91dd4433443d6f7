package replay_test

import (
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/journal/journaltest"
)

// A job that is retried is given once, as it stands at the end; a retry that is taken back leaves
// what was before it.
func TestJobsThatWereRetried(t *testing.T) {
	t.Parallel()
	j := journaltest.OpenWith(t, eventlog.Config{Dir: t.TempDir(), Now: journaltest.Ticking()})
	accepted, running := journal.Accepted{Target: "a", Token: "@1"}, journal.Running{Attempt: 1}
	failed := journal.Done{Result: "fail"}
	retried := journal.Retried{Target: "a", From: journal.RowDone, To: journal.RowWaiting, Result: "fail", Finished: 7, By: "me"}
	back := journal.Conflict{Wanted: journal.WantedRetried, Reason: "the row is done"}
	ran := []journal.Payload{accepted, running, failed}
	stories := map[int64]struct {
		events []journal.Payload
		want   journal.Status
	}{
		1:  {append(ran, retried), journal.StatusRetried},
		2:  {append(ran, retried, back), journal.StatusDone},
		3:  {append(ran, retried, back, retried), journal.StatusRetried},
		4:  {append(ran, retried, accepted), journal.StatusAccepted},
		5:  {append(ran, retried, accepted, running, journal.Done{Result: "ok"}), journal.StatusDone},
		6:  {[]journal.Payload{retried}, journal.StatusRetried},
		7:  {[]journal.Payload{retried, back}, journal.StatusConflict},
		8:  {append(ran, journal.SetAside{Wanted: "done"}, retried, journal.SetAside{Wanted: "done"}, back, journal.SetAside{Wanted: "done"}), journal.StatusDone},
		9:  {[]journal.Payload{journal.Ignored{Reason: "x"}, retried, back}, journal.StatusIgnored},
		10: {append(ran, retried, journal.Ignored{Reason: "x"}), journal.StatusIgnored},
		11: {append(ran, retried, accepted, running, failed, retried, back), journal.StatusDone},
		12: {append(ran, journal.Conflict{Wanted: journal.RowDone, Token: "@1"}, retried, back, back), journal.StatusDone},
	}
	for id, story := range stories {
		for _, payload := range story.events {
			journaltest.MustAppend(t, j, journal.Draft{Job: id, Payload: payload})
		}
	}
	journaltest.MustClose(t, j)
	r := journaltest.OpenReader(t, j.Dir)
	seen := map[int64]bool{}
	for job, err := range r.Jobs(t.Context(), time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		if want := stories[job.ID].want; job.Status != want || seen[job.ID] {
			t.Errorf("job %d is %q, want %q, once", job.ID, job.Status, want)
		}
		if seen[job.ID] = true; job.Status == journal.StatusDone && job.Token != "@1" {
			t.Errorf("job %d has lost its claim: %+v", job.ID, job)
		}
	}
	if len(seen) != len(stories) {
		t.Errorf("%d jobs were given, of %d", len(seen), len(stories))
	}
	state, err := r.State(t.Context(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for id, story := range stories {
		if got := state.Job(id).Status; got != story.want && got != journal.StatusNone {
			t.Errorf("job %d is %q in the state, want %q", id, got, story.want)
		}
	}
}

// Nobody retries a job that is under way.
func TestARetryOfAJobUnderWayIsIllegal(t *testing.T) {
	t.Parallel()
	for _, before := range [][]journal.Payload{
		{journal.Accepted{Token: "@1"}},
		{journal.Accepted{Token: "@1"}, journal.Running{Attempt: 1}},
		{journal.Accepted{Token: "@1"}, journal.Running{Attempt: 1}, journal.Started{Pid: 1}},
	} {
		j := journaltest.OpenTest(t, t.TempDir())
		for _, payload := range before {
			journaltest.MustAppend(t, j, journal.Draft{Job: 1, Payload: payload})
		}
		if _, err := j.Append(journal.Draft{Job: 1, Payload: journal.Retried{To: journal.RowWaiting}}); err == nil {
			t.Errorf("retried after %d events of a claim", len(before))
		}
	}
}
