package exec_test

import (
	"slices"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/board"
	"jobd/journal"
)

// explain waits until the worker explains a job as wanted.
func (f *fixture) explain(id int64, what string, holds func(jobexec.Explanation) bool) jobexec.Explanation {
	f.t.Helper()
	var e jobexec.Explanation
	f.until(what, func(jobexec.Status) bool {
		e = f.worker.Explain([]int64{id})[id]
		return holds(e)
	})
	return e
}

// A worker tells of its jobs where they stand, and of its targets what they could do.
func TestAWorkerExplains(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b"), waiting(2, "b"), waiting(3, "b")), nil)
	f.start()
	first := f.next()
	begun := f.explain(1, "it runs", func(e jobexec.Explanation) bool {
		return e.Standing != nil && e.Standing.Phase == board.Running && e.Standing.Started.Pid != 0
	})
	var known journal.Job
	f.journal.View(func(s *journal.State) { known = s.Job(1) })
	if s := begun.Standing; s.Target != "b" || s.Attempt != 1 || !s.Claimed.Equal(known.Accepted.Time) || !s.Began.Equal(known.Running.Time) || s.Adopted || begun.Quarantined != nil {
		t.Errorf("%+v", begun.Standing)
	}
	f.explain(2, "it is prefetched", func(e jobexec.Explanation) bool { return e.Standing != nil && e.Standing.Phase == board.Queued })
	if e := f.worker.Explain([]int64{3, 99}); e[99] != (jobexec.Explanation{}) || e[3].Standing != nil {
		t.Errorf("not ours: %+v", e)
	}
	stands := f.worker.ExplainTargets([]string{"a", "b", "x"})
	if a := stands["a"]; len(stands) != 2 || a.Room != 4 || a.Kind != "" || a.Paused || a.Concurrency != 2 {
		t.Errorf("%+v", stands)
	}
	if b := stands["b"]; b.Room != 0 || b.Running != 1 || b.Prefetched != 1 {
		t.Errorf("%+v", b)
	}
	before := f.events(0)
	if err := f.worker.Pause([]string{"b"}, "me"); err != nil {
		t.Fatal(err)
	}
	if b := f.worker.ExplainTargets([]string{"b"})["b"]; !b.Paused || b.PausedBy != "me" || b.PausedSince == 0 {
		t.Errorf("paused: %+v", b)
	}
	first.exit(0)
	f.explain(1, "it is gone", func(e jobexec.Explanation) bool { return e.Standing == nil })
	if after := f.events(0); len(after) != len(before)+1 { // the pause
		t.Errorf("explaining has journalled something: %v", after)
	}
}

// A row that the table refuses is told of by its id, with the reason.
func TestAWorkerExplainsWhatIsQuarantined(t *testing.T) {
	t.Parallel()
	tab := newTable(waiting(1, "a"))
	tab.refused[1] = "CHECK weight is violated"
	f := newFixture(t, tab, nil)
	f.start()
	e := f.explain(1, "it is quarantined", func(e jobexec.Explanation) bool { return e.Quarantined != nil })
	if e.Quarantined.Reason != "CHECK weight is violated" || e.Quarantined.Target != "a" || time.Since(e.Quarantined.Since) > time.Minute {
		t.Errorf("%+v", e.Quarantined)
	}
	f.until("it is no claim any more", func(jobexec.Status) bool { return f.worker.Explain([]int64{1})[1].Standing == nil })
	if kinds := f.story(1); slices.Contains(kinds, journal.KindDone) {
		t.Errorf("%v", kinds)
	}
}
