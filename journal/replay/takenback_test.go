package replay_test

import (
	"fmt"
	"testing"
	"time"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/journal/replay"
)

// An ignored event that is taken back leaves a conflict, whatever follows; each job is given once,
// as it stands at the end.
func TestJobsThatWereNotIgnoredAfterAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j, err := eventlog.Open(t.Context(), eventlog.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	ignored, back := journal.Ignored{Reason: "status = waiting != manual"}, journal.Conflict{Wanted: journal.RowIgnored, Reason: "the row is manual"}
	accepted, running, done := journal.Accepted{Target: "a", Token: "@1"}, journal.Running{Attempt: 1}, journal.Done{Result: "ok"}
	for _, draft := range []journal.Draft{
		{Job: 1, Payload: ignored},
		{Job: 2, Payload: ignored},
		{Job: 3, Payload: ignored},
		{Job: 2, Payload: back},
		{Job: 3, Payload: back},
		{Job: 3, Payload: accepted},
		{Job: 3, Payload: running},
		{Job: 4, Payload: ignored},
		{Job: 4, Payload: ignored},
		{Job: 4, Payload: journal.SetAside{Wanted: "done"}},
		{Job: 3, Payload: done},
		{Job: 5, Payload: ignored},
		{Job: 5, Payload: accepted},
	} {
		if _, err := j.Append(draft); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := replay.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want := map[int64]journal.Status{
		1: journal.StatusIgnored, 2: journal.StatusConflict, 3: journal.StatusDone, 4: journal.StatusIgnored, 5: journal.StatusAccepted,
	}
	for job, err := range r.Jobs(t.Context(), time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		if job.Status != want[job.ID] {
			t.Errorf("job %d is %q, want %q, once", job.ID, job.Status, want[job.ID])
		}
		delete(want, job.ID)
	}
	if len(want) > 0 {
		t.Errorf("not given: %v", want)
	}
}

// Jobs that are under way before a time are found from the checkpoint of its segment on.
func TestUnderWayBeforeATime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begin := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	now := begin
	j, err := eventlog.Open(t.Context(), eventlog.Config{Dir: dir, SegmentAge: 2 * time.Second, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	one := func(second int, job int64, payload journal.Payload) {
		t.Helper()
		now = begin.Add(time.Duration(second) * time.Second)
		if _, err := j.Append(journal.Draft{Job: job, Payload: payload}); err != nil {
			t.Fatal(err)
		}
	}
	accepted := journal.Accepted{Target: "a", Token: "@1"}
	one(1, 1, accepted)
	one(2, 2, accepted)
	one(4, 1, journal.Released{Reason: "r"})
	one(5, 3, accepted)
	one(9, 2, journal.Released{Reason: "r"})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := replay.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for second, want := range map[int]string{0: "", 1: "", 2: "[1]", 3: "[1 2]", 4: "[1 2]", 5: "[2]", 6: "[2 3]", 9: "[2 3]", 10: "[3]"} {
		at := begin.Add(time.Duration(second) * time.Second)
		jobs, err := r.UnderWay(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		if got := idsOf(jobs); got != want {
			t.Errorf("before second %d: %s, want %s", second, got, want)
		}
	}
	if jobs, err := r.UnderWay(t.Context(), time.Time{}); err != nil || len(jobs) > 0 {
		t.Errorf("where the history begins: %v, %v", jobs, err)
	}
}

func idsOf(jobs []journal.Job) string {
	if len(jobs) == 0 {
		return ""
	}
	ids := make([]int64, len(jobs))
	for i, job := range jobs {
		ids[i] = job.ID
	}
	return fmt.Sprint(ids)
}
