package replay_test

import (
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/journal/journaltest"
)

// A row that comes back is given once, as it stands at the end: with the plan of the run that ended
// last, as it was planned anew where its schedule was edited.
func TestJobsThatComeBack(t *testing.T) {
	t.Parallel()
	j := journaltest.OpenWith(t, eventlog.Config{Dir: t.TempDir(), Now: journaltest.Ticking()})
	at := func(second int64) *journal.Again {
		return &journal.Again{RunAt: second, PlannedAt: second, Why: journal.AgainSchedule}
	}
	accepted := journal.Accepted{Target: "a", Token: "@1", From: journal.RowDelayed, Plan: &journal.Plan{RunAt: 5}, PlannedAt: 5}
	running, done := journal.Running{Attempt: 1}, journal.Done{Result: "ok", Again: at(100)}
	planned := journal.Planned{Target: "a", To: *at(200), Reason: "missed"}
	replanned := journal.Replanned{Token: "@1", Again: at(300)}
	late := journal.Replanned{Token: "@0", Again: at(400)}
	ran := []journal.Payload{accepted, running, done}
	stories := map[int64]struct {
		events []journal.Payload
		want   journal.Status
		again  int64 // 0: it does not come back
	}{
		1:  {ran, journal.StatusDone, 100},
		2:  {append(ran, replanned), journal.StatusDone, 300},
		3:  {append(ran, journal.Replanned{Token: "@1", Note: "unreadable"}), journal.StatusDone, 0},
		4:  {[]journal.Payload{planned}, journal.StatusPlanned, 200},
		5:  {[]journal.Payload{planned, planned}, journal.StatusPlanned, 200},
		6:  {append([]journal.Payload{planned}, ran...), journal.StatusDone, 100},
		7:  {append(ran, planned), journal.StatusPlanned, 200},
		8:  {append(ran, replanned, accepted), journal.StatusAccepted, 0},
		9:  {append(ran, replanned, accepted, running, done, replanned), journal.StatusDone, 300},
		10: {append(ran, late), journal.StatusDone, 100},
		11: {append(ran, accepted, late, running, done), journal.StatusDone, 100},
		12: {append(ran, journal.SetAside{Wanted: "delayed"}, replanned, journal.SetAside{Wanted: "delayed"}), journal.StatusDone, 300},
		13: {append([]journal.Payload{late}, ran...), journal.StatusDone, 100},
		14: {append(ran, replanned, journal.Ignored{Reason: "x"}), journal.StatusIgnored, 0},
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
		story := stories[job.ID]
		var again int64
		if job.Again != nil {
			again = job.Again.RunAt
		}
		if job.Status != story.want || again != story.again || seen[job.ID] {
			t.Errorf("job %d is %q and comes back at %d, want %q, %d, once", job.ID, job.Status, again, story.want, story.again)
		}
		seen[job.ID] = true
	}
	if len(seen) != len(stories) {
		t.Errorf("%d jobs were given, of %d: %v", len(seen), len(stories), seen)
	}
	var targets int
	for _, err := range r.Events(t.Context(), journal.Filter{Target: "a", Kinds: []journal.Kind{journal.KindPlanned}}) {
		if err != nil {
			t.Fatal(err)
		}
		targets++
	}
	if targets != 5 {
		t.Errorf("%d planned events are of target a, want 5", targets)
	}
}
