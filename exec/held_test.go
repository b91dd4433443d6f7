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

// A request is sent once its connection is journalled, and not before.
func TestARequestIsHeldUntilItIsJournalled(t *testing.T) {
	t.Parallel()
	asked := newRequester()
	held := make(chan struct{})
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	f.build(func(c *jobexec.Config) {
		modes(posts, nil, asked)(c)
		c.Recorder = heldJournal{f.journal, held}
	})
	f.start()
	p := asked.asks(t)
	if p.spec.Service != posts.Service || p.spec.Target != "a" || p.spec.Mode != jobexec.ModeHTTP {
		t.Errorf("asked for %+v", p.spec)
	}
	p.connects()
	f.wait("its announcement is there", func(s *journal.State) bool { return s.Job(1).Status == journal.StatusStarting })
	if closed(p.sent) {
		t.Error("it may be sent, and is not journalled")
	}
	close(held)
	p.sends(t)
	f.journal.View(func(s *journal.State) {
		if j := s.Job(1); j.Status != journal.StatusRunning || j.Process == nil || j.Process.Address != serviceAddress || j.Executor != "http" {
			t.Errorf("it may be sent; the journal says %+v", j)
		}
	})
	p.ends(answered("ok"), nil)
	f.reach(map[int64]string{1: journal.RowDone})
	if got, want := words(f.story(1)), "accepted running started done"; got != want {
		t.Errorf("story %q, want %q", got, want)
	}
}

// A request that was never sent, though it had a connection, is made once more, under its number.
func TestARequestThatWasNotSentIsMadeOnceMore(t *testing.T) {
	t.Parallel()
	asked := newRequester()
	f := newFixture(t, newTable(waiting(1, "a")), modes(posts, nil, asked))
	f.start()
	asked.asks(t).ends(journal.Done{}, &jobexec.NotStartedError{Why: "connection refused"})
	p := asked.asks(t)
	p.connects()
	p.sends(t)
	p.ends(journal.Done{}, &jobexec.NotStartedError{Why: "it was closed before the first byte"})
	p = asked.asks(t)
	if p.spec.Attempt != 1 {
		t.Errorf("attempt %d", p.spec.Attempt)
	}
	p.connects()
	p.sends(t)
	p.ends(answered("ok"), nil)
	f.reach(map[int64]string{1: journal.RowDone})
	if got, want := words(f.story(1)), "accepted running running started running started done"; got != want {
		t.Errorf("story %q, want %q", got, want)
	}
	if s := f.worker.Status(); s.Launcher != nil {
		t.Errorf("a service that is away holds up all: %+v", s.Launcher)
	}
}

// heldJournal holds up what says that a process is there.
type heldJournal struct {
	jobexec.Recorder
	held chan struct{}
}

func (h heldJournal) Append(drafts ...journal.Draft) ([]journal.Event, error) {
	for _, d := range drafts {
		if d.Payload.Kind() == journal.KindStarted {
			<-h.held
		}
	}
	return h.Recorder.Append(drafts...)
}
