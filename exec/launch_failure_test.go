package exec_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/store/storetest/must"
)

// soundLauncher is a launcher in which looking finds nothing wrong.
func soundLauncher(c *jobexec.Config) {
	c.Launcher = jobexec.Launcher{Words: []string{"/bin/true", "{id}"}}
}

// refuseAll has the system refuse all starts, or none.
func (r *runner) refuseAll(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = why
}

// newSound makes a worker whose launcher can be started.
func newSound(t *testing.T, table *table, change func(*jobexec.Config)) *fixture {
	t.Helper()
	return newFixture(t, table, func(c *jobexec.Config) {
		soundLauncher(c)
		if change != nil {
			change(c)
		}
	})
}

// noProgram is what the system says of something that is no program, which only an execution tells.
func noProgram() error { return &jobexec.NotStartedError{Why: "start /bin/true: exec format error"} }

// Regression: a launcher that could not be executed failed each job, as fast as rows could be
// claimed.
func TestALauncherThatCannotBeExecutedFailsNothing(t *testing.T) {
	t.Parallel()
	tab := newTable(manual(100, "a"))
	for id := int64(1); id <= 50; id++ {
		tab.insert(waiting(id, "a"))
	}
	f := newSound(t, tab, nil)
	f.runner.refuseAll(noProgram())
	f.start()
	f.until("status tells", func(s jobexec.Status) bool {
		return s.Launcher != nil && strings.Contains(s.Targets["b"].Why, "exec format error") && s.Targets["a"].Length == 0
	})
	answer, err := f.worker.RunManual(t.Context(), []int64{100}, "me")
	if want := "job 100 was not run: the launcher can't be executed: start /bin/true: exec format error"; err != nil || answer.Errors[100] != want {
		t.Errorf("answer %+v, %v; want %q", answer, err, want)
	}
	for range 50 {
		must.Do(t, f.worker.Poll(nil))
	}
	f.reach(map[int64]string{1: journal.RowWaiting, 2: journal.RowWaiting, 50: journal.RowWaiting, 100: journal.RowManual})
	f.runner.refuseAll(nil)
	f.runner.mu.Lock()
	f.runner.instant = true
	f.runner.mu.Unlock()
	f.until("nothing is wrong", func(s jobexec.Status) bool { return s.Launcher == nil })
	done := map[int64]string{}
	for id := int64(1); id <= 50; id++ {
		done[id] = journal.RowDone
	}
	f.reach(done)
	refused := 0
	for id := int64(1); id <= 50; id++ {
		if done := f.outcome(id); done.Result != "ok" {
			t.Errorf("job %d: %+v", id, done)
		}
		refused += count(f.story(id), journal.KindReleased)
	}
	if refused > 12 {
		t.Errorf("%d claims were given back: more than the first, and some that were to tell", refused)
	}
}

// What is missing for a moment is waited for, and nobody hears of it.
func TestAStartForWhichSomethingIsMissingIsTriedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), soundLauncher)
	f.runner.once = &jobexec.NotStartedError{Why: "start /bin/true: resource temporarily unavailable", Short: true}
	f.start()
	f.next().exit(0)
	f.wait("the job is at its end", ended(1))
	if got, want := words(f.story(1)), "accepted running running started done"; got != want {
		t.Errorf("story %q, want %q", got, want)
	}
}

// Where it lasts, it is told, and what was claimed is given back.
func TestAShortageThatLastsIsTold(t *testing.T) {
	t.Parallel()
	f := newSound(t, newTable(waiting(1, "a"), waiting(2, "b")), nil)
	f.runner.refuseAll(&jobexec.NotStartedError{Why: "start /bin/true: cannot allocate memory", Short: true})
	f.start()
	f.until("status tells", func(s jobexec.Status) bool {
		return s.Launcher != nil && s.Launcher.Why == "no job can be started for now: start /bin/true: cannot allocate memory"
	})
	f.reach(map[int64]string{1: journal.RowWaiting, 2: journal.RowWaiting})
	f.runner.refuseAll(nil)
	f.next().exit(0)
	f.next().exit(0)
	f.reach(map[int64]string{1: journal.RowDone, 2: journal.RowDone})
}

// A second attempt can't be given back, because the journal says that its job ran. The next start
// takes it up.
func TestASecondAttemptThatCannotBeStartedStays(t *testing.T) {
	t.Parallel()
	f := newSound(t, newTable(waiting(1, "a"), waiting(2, "a")), func(c *jobexec.Config) { c.Requeue = true })
	f.start()
	first := f.next()
	f.next()
	f.wait("it runs", func(s *journal.State) bool { return s.Job(first.spec.Job).Status == journal.StatusRunning })
	f.runner.refuseAll(noProgram())
	first.known = false
	first.exit(1)
	f.until("status tells", func(s jobexec.Status) bool { return s.Launcher != nil && s.Targets["a"].Length == 2 })
	if got, want := words(f.story(first.spec.Job)), "accepted running started requeued running"; got != want {
		t.Errorf("story %q, want %q", got, want)
	}
	f.runner.refuseAll(nil)
	if again := f.next(); again.spec.Attempt != 2 || again.spec.Job != first.spec.Job {
		t.Errorf("started %+v, want the second attempt of job %d", again.spec, first.spec.Job)
	}
	f.until("nothing is wrong", func(s jobexec.Status) bool { return s.Launcher == nil })
}

// Where looking at the launcher shows what is wrong, looking shows that it is right again, and no
// job has to tell.
func TestALauncherThatIsBackIsSeen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "launcher")
	f := newSound(t, newTable(waiting(1, "a")), func(c *jobexec.Config) { c.Launcher = jobexec.Launcher{Words: []string{path}} })
	f.runner.refuseAll(&jobexec.NotStartedError{Why: "start " + path + ": no such file or directory"})
	f.start()
	f.until("status tells what looking shows", func(s jobexec.Status) bool {
		return s.Launcher != nil && s.Launcher.Why == "the launcher can't be executed: "+path+": no such file or directory"
	})
	f.reach(map[int64]string{1: journal.RowWaiting})
	f.table.change(func() { delete(f.table.rows, 1) })
	f.runner.refuseAll(nil)
	must.Do(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700))
	f.until("nothing is wrong", func(s jobexec.Status) bool { return s.Launcher == nil })
}

// A stop ends a worker that can start nothing, and leaves nothing behind.
func TestStopWhileNothingCanBeStarted(t *testing.T) {
	t.Parallel()
	f := newSound(t, newTable(waiting(1, "a"), waiting(2, "b")), nil)
	f.runner.refuseAll(noProgram())
	f.start()
	f.until("status tells", func(s jobexec.Status) bool { return s.Launcher != nil })
	f.stop()
	must.Do(t, <-f.ended)
	f.ended <- nil
	f.reach(map[int64]string{1: journal.RowWaiting, 2: journal.RowWaiting})
}
