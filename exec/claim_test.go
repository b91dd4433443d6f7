package exec_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	jobexec "jobd/exec"
	"jobd/journal"
)

func TestConcurrencyAndPrefetchBoundWhatIsClaimed(t *testing.T) {
	t.Parallel()
	tab := newTable()
	for id := range int64(10) {
		tab.insert(waiting(id+1, "a"))
	}
	f := newFixture(t, tab, nil)
	f.start()
	first, second := f.next(), f.next()
	<-tab.selected
	for id, want := range map[int64]string{4: journal.RowAccepted, 5: journal.RowWaiting} {
		if got := tab.status(id); got != want {
			t.Errorf("two slots and as many prefetched: job %d is %s, want %s", id, got, want)
		}
	}
	f.none()
	first.exit(0)
	third := f.next()
	if third.spec.Job != 3 {
		t.Errorf("job %d follows, want 3: first come, first served", third.spec.Job)
	}
	second.exit(1)
	third.exit(0)
	for range 7 {
		f.next().exit(0)
	}
	f.wait("all are done", func(s *journal.State) bool { return len(s.Jobs) == 0 })
}

func TestFetchLimitBoundsOneClaim(t *testing.T) {
	t.Parallel()
	tab := newTable()
	for id := range int64(20) {
		tab.insert(waiting(id+1, []string{"a", "b"}[id%2]))
	}
	f := newFixture(t, tab, func(c *jobexec.Config) {
		c.FetchLimit, c.Targets = 3, map[string]int{"a": 10, "b": 10}
	})
	f.start()
	<-tab.selected
	f.wait("all are running", func(s *journal.State) bool {
		n := 0
		for _, job := range s.Jobs {
			if job.Status == journal.StatusRunning {
				n++
			}
		}
		return n == 20
	})
	tokens := make(map[string]int)
	f.journal.View(func(s *journal.State) {
		for _, job := range s.Jobs {
			tokens[job.Token]++
		}
	})
	for token, rows := range tokens {
		if rows > 3 {
			t.Errorf("claim %s took %d rows, the limit is 3", token, rows)
		}
	}
}

// The table takes claims already, but the mirror has not come back yet: what was claimed and, with
// LaunchOffline, run meanwhile would only be owed to the table, without bound.
func TestNothingIsClaimedWhileTheMirrorIsAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), func(c *jobexec.Config) { c.LaunchOffline = true })
	f.mirror.seen = make(chan struct{}, 1)
	close(f.mirror.away)
	f.start()
	for range 3 {
		<-f.mirror.seen
		f.worker.PollAll()
	}
	if got := f.table.status(1); got != journal.RowWaiting {
		t.Errorf("the job is %s", got)
	}
	f.none()
	f.mirror.mu.Lock()
	f.mirror.away = make(chan struct{})
	f.mirror.mu.Unlock()
	f.worker.PollAll()
	f.next().exit(0)
}

func TestPollsAreNotForgottenWhileTheTableIsAway(t *testing.T) {
	t.Parallel()
	tab := newTable(waiting(1, "a"))
	failures := 0
	tab.commit = func(apply func()) error {
		if failures++; failures <= 3 {
			return errors.New("link lost")
		}
		apply()
		return nil
	}
	f := newFixture(t, tab, nil)
	f.start()
	f.next().exit(0)
	f.wait("job is done", func(s *journal.State) bool { return s.Seq > 3 && len(s.Jobs) == 0 })
	story := f.story(1)
	if n := count(story, journal.KindReleased); n != 3 {
		t.Errorf("released %d times, want once for each claim that was not won: %v", n, story)
	}
}

// undone is the error of a claim that certainly did not happen.
type undone struct{ error }

func (undone) Undone() bool { return true }

// Regression: a claim that the server undid in favour of another one, as Galera does, was taken for
// one that may have happened: its rows were looked at, and the worker kept away from the table as
// if it were lost.
func TestAClaimThatWasUndoneIsBegunAgain(t *testing.T) {
	t.Parallel()
	tab := newTable(waiting(1, "a"))
	failures := 0
	tab.commit = func(apply func()) error {
		if failures++; failures <= 3 {
			return fmt.Errorf("claim: %w", undone{errors.New("1213")})
		}
		apply()
		return nil
	}
	tab.rowsErr = errors.New("nobody needs to look")
	f := newFixture(t, tab, nil)
	f.start()
	f.next().exit(0)
	f.wait("job is done", func(s *journal.State) bool { return s.Seq > 3 && len(s.Jobs) == 0 })
	story := f.story(1)
	if n := count(story, journal.KindReleased); n != 3 {
		t.Errorf("released %d times, want once for each claim that was undone: %v", n, story)
	}
}

func TestACommitWhoseAnswerIsLostStartsTheJobOnce(t *testing.T) {
	t.Parallel()
	tab := newTable(waiting(1, "a"), manual(2, "a"))
	tab.commit = func(apply func()) error {
		apply()
		return errors.New("link lost after the commit")
	}
	f := newFixture(t, tab, nil)
	f.start()
	f.next().exit(0)
	answers := make(chan jobexec.Answer[jobexec.Result], 1)
	go func() {
		answer, _ := f.worker.RunManual(context.Background(), []int64{2}, "me")
		answers <- answer
	}()
	f.next().exit(3)
	if answer := <-answers; answer.Jobs[2].Result != "fail" || len(answer.Errors) > 0 {
		t.Errorf("the client was told %+v", answer)
	}
	f.wait("both are done", func(s *journal.State) bool { return len(s.Jobs) == 0 })
	for id := int64(1); id <= 2; id++ {
		if story := f.story(id); count(story, journal.KindStarted) != 1 || count(story, journal.KindReleased) != 0 {
			t.Errorf("story of job %d: %v", id, story)
		}
	}
}

func TestARowResetWhileItsJobRunsIsClaimedAfterItsEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	f.start()
	p := f.next()
	f.table.insert(waiting(1, "a"))
	for range 3 {
		if err := f.worker.Poll([]string{"a"}); err != nil {
			t.Fatal(err)
		}
		<-f.table.selected
	}
	f.none()
	p.exit(0)
	f.next().exit(0)
}
