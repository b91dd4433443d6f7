package exec_test

import (
	"slices"
	"testing"

	jobexec "jobd/exec"
	"jobd/journal"
)

func TestWhatRunsIsListed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a"), waiting(2, "b")), func(c *jobexec.Config) {
		c.Targets = map[string]int{"a": 1, "b": 1, "c": 1}
	})
	f.start()
	first, second := f.next(), f.next()
	f.wait("both run", func(s *journal.State) bool {
		return s.Job(1).Status == journal.StatusRunning && s.Job(2).Status == journal.StatusRunning
	})
	list := func(targets ...string) (ids []int64) {
		for _, r := range f.worker.Running(targets) {
			if r.Attempt != 1 || r.Started.Pid == 0 || r.Usage == nil || r.Usage.CPU.Seconds() != float64(r.Started.Pid) || r.Began.IsZero() || r.Adopted {
				t.Errorf("it is told as %+v", r)
			}
			if want := map[int64]string{1: "a", 2: "b"}[r.ID]; r.Target != want {
				t.Errorf("job %d is of %s", r.ID, r.Target)
			}
			ids = append(ids, r.ID)
		}
		slices.Sort(ids)
		return ids
	}
	if all := list(); !slices.Equal(all, []int64{1, 2}) {
		t.Errorf("jobs %v run", all)
	}
	if some := list("b", "c", "unknown"); !slices.Equal(some, []int64{2}) {
		t.Errorf("jobs %v run of b and c", some)
	}
	first.exit(0)
	second.exit(0)
	f.wait("job 1 is done", ended(1))
	f.wait("job 2 is done", ended(2))
	for len(list()) > 0 { // the turn takes them off the board a moment after it is journalled
	}
}
