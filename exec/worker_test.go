package exec_test

import (
	"fmt"
	"slices"
	"sync"
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

// A short job costs one append at its end, which tells all of its story and announces the job that
// follows in its slot.
func TestASlotPassesOnInOneAppend(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var appends [][]journal.Kind
	f := newFixture(t, newTable(waiting(1, "b"), waiting(2, "b")), nil)
	f.build(func(c *jobexec.Config) {
		c.Recorder = &brokenJournal{f.journal, func(drafts []journal.Draft) error {
			var kinds []journal.Kind
			for _, d := range drafts {
				kinds = append(kinds, d.Payload.Kind())
			}
			mu.Lock()
			defer mu.Unlock()
			appends = append(appends, kinds)
			return nil
		}}
	})
	f.runner.instant = true
	f.start()
	f.wait("both are done", func(s *journal.State) bool { return s.Seq > 6 && len(s.Jobs) == 0 })
	mu.Lock()
	defer mu.Unlock()
	want := []journal.Kind{journal.KindStarted, journal.KindDone, journal.KindRunning}
	if !slices.ContainsFunc(appends, func(kinds []journal.Kind) bool { return slices.Equal(kinds, want) }) {
		t.Errorf("appends: %v, want one of %v", appends, want)
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
	close(f.mirror.away)
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

// The runner was replaced between the announcement and the start: the start is announced anew, with
// the name of the runner that does it.
func TestAStartIsAnnouncedAnewWhenTheRunnerHasChanged(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	f.runner.once = jobexec.ErrRunnerChanged
	f.start()
	f.next().exit(0)
	f.wait("the job is at its end", ended(1))
	if got, want := words(f.story(1)), "accepted running running started done"; got != want {
		t.Errorf("story %q, want %q", got, want)
	}
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
