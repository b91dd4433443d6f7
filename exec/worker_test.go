package exec_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	jobexec "jobd/exec"
	"jobd/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ended(id int64) func(*journal.State) bool {
	return func(s *journal.State) bool { return s.Job(id).Status.Ended() }
}

func TestAJobGoesFromClaimToDone(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(7, "a")), nil)
	f.start()
	p := f.next()
	want := jobexec.Spec{Target: "a", Job: 7, Attempt: 1, Runner: instance, Argv: []string{"/launcher", "--job=7"}, Env: []string{"LANG=C"}}
	f.journal.View(func(s *journal.State) { want.Token = s.Job(7).Token })
	if diff := cmp.Diff(want, p.spec, cmpopts.IgnoreFields(jobexec.Spec{}, "Tell")); diff != "" {
		t.Errorf("what was started (-want +got):\n%s", diff)
	}
	p.exit(0)
	f.wait("job is done", func(s *journal.State) bool { return len(s.Jobs) == 0 && s.Seq > 4 })
	story := []journal.Kind{journal.KindAccepted, journal.KindRunning, journal.KindStarted, journal.KindDone}
	if diff := cmp.Diff(story, f.story(7)); diff != "" {
		t.Errorf("story (-want +got):\n%s", diff)
	}
}

func TestAJobIsStartedOnlyWhenItsRowSaysRunning(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b"), waiting(2, "b")), nil)
	f.start()
	held := f.hold(f.next(), 2)
	f.none()
	close(held)
	f.next().exit(0)
}

// The claim's own transaction says so where a slot is free.
func TestAClaimThatHasASlotStartsItsJob(t *testing.T) {
	t.Parallel()
	table := newTable(waiting(1, "b"), waiting(2, "b"))
	f := newFixture(t, table, nil)
	f.mirror.held = make(chan struct{})
	table.commit = func(apply func()) error {
		f.none()
		apply()
		if got := table.rows[1].Status + " " + table.rows[2].Status; got != "running accepted" {
			t.Errorf("the claim made the rows %s", got)
		}
		return nil
	}
	f.start()
	p := f.next()
	f.wait("the process is journalled", func(s *journal.State) bool { return s.Job(1).Status == journal.StatusRunning })
	if got, want := words(f.story(1)), "accepted running started"; got != want {
		t.Errorf("story %q, want %q", got, want)
	}
	p.exit(0)
	close(f.mirror.held)
	f.next().exit(0)
}

func TestLaunchOfflineStartsWhileTheTableIsAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b"), waiting(2, "b")), func(c *jobexec.Config) { c.LaunchOffline = true })
	f.start()
	f.hold(f.next(), 2)
	f.none()
	f.mirror.setAway(true)
	f.next().exit(0)
}

func TestAJobWhoseRowWasTakenIsNotStarted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a"), waiting(2, "a"), waiting(3, "a"), waiting(4, "a")), nil)
	f.start()
	first, second := f.next(), f.next()
	held := f.hold(first, 3)
	second.exit(0)
	f.wait("the other one is announced", func(s *journal.State) bool { return s.Job(4).Status == journal.StatusStarting })
	if _, err := f.journal.Append(journal.Draft{Job: 3, Payload: journal.Conflict{}}); err != nil {
		t.Fatal(err)
	}
	close(held)
	if p := f.next(); p.spec.Job != 4 {
		t.Errorf("job %d was started", p.spec.Job)
	}
	f.none()
}

func count(kinds []journal.Kind, kind journal.Kind) int {
	return len(slices.DeleteFunc(slices.Clone(kinds), func(k journal.Kind) bool { return k != kind }))
}

func TestIDsReachTheLauncherAsWords(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(12, "a")), func(c *jobexec.Config) {
		c.Launcher = jobexec.Launcher{Words: []string{"sh", "-c", "exec run {id} {id}.log", "{id}"}, Env: []string{"PATH=/nowhere:/bin:/usr/bin"}}
	})
	f.start()
	got := fmt.Sprint(f.next().spec.Argv)
	if want := "[/bin/sh -c exec run 12 12.log 12]"; got != want {
		t.Errorf("started %s, want %s", got, want)
	}
}
