package exec_test

import (
	"sync/atomic"
	"testing"

	jobexec "jobd/exec"
	"jobd/journal"
)

// stingyJournal has no room for what says that a process is there.
type stingyJournal struct {
	jobexec.Recorder
	room    atomic.Bool
	refused chan struct{} // has room for one
}

func (s *stingyJournal) Append(drafts ...journal.Draft) ([]journal.Event, error) {
	for _, d := range drafts {
		if d.Payload.Kind() == journal.KindStarted && !s.room.Load() {
			select {
			case s.refused <- struct{}{}:
			default:
			}
			return nil, journal.ErrFull
		}
	}
	return s.Recorder.Append(drafts...)
}

// While the journal takes nothing, a request that has its connection is not sent; it is when there
// is room.
func TestAFullDiskHoldsARequest(t *testing.T) {
	t.Parallel()
	asked := newRequester()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	stingy := &stingyJournal{Recorder: f.journal, refused: make(chan struct{}, 1)}
	f.build(func(c *jobexec.Config) { modes(posts, nil, asked)(c); c.Recorder = stingy })
	f.start()
	p := asked.asks(t)
	p.connects()
	<-stingy.refused
	if closed(p.sent) {
		t.Error("it may be sent, and is not journalled")
	}
	stingy.room.Store(true)
	p.sends(t)
	p.ends(answered("ok"), nil)
	f.reach(map[int64]string{1: journal.RowDone})
}

// A request whose row turns out to be somebody else's while it is held is never sent.
func TestARequestOfALostJobIsGivenUp(t *testing.T) {
	t.Parallel()
	asked := newRequester()
	held := make(chan struct{})
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	f.build(func(c *jobexec.Config) { modes(posts, nil, asked)(c); c.Recorder = heldJournal{f.journal, held} })
	f.start()
	p := asked.asks(t)
	p.connects()
	if _, err := f.journal.Append(journal.Draft{Job: 1, Payload: journal.Conflict{Token: p.spec.Token}}); err != nil {
		t.Fatal(err)
	}
	close(held)
	if signo := <-p.signals; signo != 9 {
		t.Errorf("it gets signal %d", signo)
	}
	p.ends(journal.Done{Result: "fail", Signal: "SIGKILL"}, nil)
	f.until("the job is gone", func(s jobexec.Status) bool { return s.Targets["a"].Length == 0 })
	if closed(p.sent) {
		t.Error("it was sent")
	}
	if got, want := words(f.story(1)), "accepted running conflict"; got != want {
		t.Errorf("story %q, want %q", got, want)
	}
}
