package exec_test

import (
	"testing"
	"time"

	"jobd/journal"
)

// Regression: the mirror shows rows in order, and one that somebody held delayed the starts of all
// that came after it.
func TestALockedRowHoldsUpOnlyItsOwnStart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a"), waiting(2, "a"), waiting(3, "a"), waiting(4, "a")), nil)
	held := make(chan struct{})
	f.mirror.quarantined = map[int64]chan struct{}{3: held}
	f.start()
	first, second := f.next(), f.next()
	f.claimed(4)
	first.exit(0)
	f.wait("the locked one is announced", func(s *journal.State) bool { return s.Job(3).Status == journal.StatusStarting })
	second.exit(0)
	if p := f.next(); p.spec.Job != 4 {
		t.Fatalf("job %d was started", p.spec.Job)
	}
	f.none()
	close(held)
	if p := f.next(); p.spec.Job != 3 {
		t.Fatalf("job %d was started", p.spec.Job)
	}
}

// The same job is called back while its row is locked.
func TestAJobWhoseRowIsLockedIsGivenBackByAPause(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b"), waiting(2, "b")), nil)
	f.mirror.quarantined = map[int64]chan struct{}{2: make(chan struct{})}
	f.start()
	first := f.next()
	f.claimed(2)
	first.exit(0)
	f.wait("it is announced", func(s *journal.State) bool { return s.Job(2).Status == journal.StatusStarting })
	if err := f.worker.Pause(nil, "me"); err != nil {
		t.Fatal(err)
	}
	f.wait("it is given back", func(s *journal.State) bool { return s.Job(2).Status.Ended() })
	if got := words(f.story(2)); got != "accepted running released" {
		t.Errorf("story %q", got)
	}
}

// A client's answer waits for its own row, and no longer than a second.
func TestAnAnswerWaitsForItsOwnRowOnly(t *testing.T) {
	t.Parallel()
	const tries = 10
	var rows []journal.Row
	for id := range int64(tries) {
		rows = append(rows, manual(id+1, "a"))
	}
	f := newFixture(t, newTable(rows...), nil)
	f.mirror.quarantined = map[int64]chan struct{}{99: make(chan struct{}), 0: make(chan struct{})}
	f.runner.instant = true
	f.start()
	for id := int64(1); ; id++ {
		began := time.Now()
		answer, err := f.worker.RunManual(t.Context(), []int64{id}, "me")
		if err != nil || answer.Jobs[id].Result != "ok" {
			t.Fatalf("told %+v, %v", answer, err)
		}
		took := time.Since(began)
		if took < time.Second { // on a busy machine not each of them
			break
		}
		if id == tries {
			t.Fatalf("%d answers took long, the last %s: they waited for another row", tries, took)
		}
	}
}
