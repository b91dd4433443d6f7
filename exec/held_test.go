package exec_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	jobexec "jobd/exec"
	"jobd/exec/board"
	"jobd/journal"
)

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

// asked waits until a start of a job was asked for, and noted.
func (f *fixture) asked(id int64) {
	f.t.Helper()
	f.until(fmt.Sprintf("the start of job %d was asked for", id), func(jobexec.Status) bool {
		standing := f.worker.Explain([]int64{id})[id].Standing
		return standing != nil && standing.Phase == board.Asked
	})
}

// failsNever is a Retry for what does not fail.
type failsNever struct {
	t    *testing.T
	what string
}

func (failsNever) Over() {}

func (n failsNever) Wait(ctx context.Context, cause error) error {
	n.t.Errorf("the log says: %s failed: %v", n.what, cause)
	return patience{}.Wait(ctx, cause)
}

// A cancellation of the job, a pause and a worker that stops take back a request that waits for its
// connection, and a start that is held back because the worker leaves its runner. None is made, and
// nothing was wrong.
func TestAStartThatWaitsIsTakenBack(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ends   func(f *fixture)
		status string
		story  string
	}{
		"cancel": {func(f *fixture) {
			f.told(jobexec.CancelWish{IDs: []int64{1}}, map[int64]string{1: "not run of a"})
		}, journal.RowIgnored, "accepted running cancelled"},
		"pause": {func(f *fixture) {
			if err := f.worker.Pause([]string{"a"}, canceller); err != nil {
				f.t.Error(err)
			}
		}, journal.RowWaiting, "accepted running released"},
		"stop": {func(f *fixture) { f.stop() }, journal.RowWaiting, "accepted running released"},
	} {
		for _, what := range []string{"a request", "held back"} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				asked, runner := newRequester(), newRunner()
				holding := holdingRunner{runner, make(chan *request, 100)}
				f := newFixture(t, newTable(waiting(1, "a")), func(c *jobexec.Config) {
					if c.Runner = holding; what == "a request" {
						modes(posts, nil, asked)(c)
					}
					c.Retry = func(what string, _ ...any) jobexec.Retry { return failsNever{t, what} }
				})
				f.start()
				var p *request
				select {
				case p = <-asked.asked:
				case p = <-holding.asked:
				}
				f.asked(1)
				test.ends(f)
				f.reach(map[int64]string{1: test.status})
				if f.tells(1, test.story); closed(p.sent) {
					t.Error("it was sent")
				}
			})
		}
	}
}

// A start that was taken back may be asked for anew before the canceller looks again: that one is
// taken back, too.
func TestACancelTakesBackWhatFollows(t *testing.T) {
	t.Parallel()
	asked := newRequester()
	f := newFixture(t, newTable(waiting(1, "a")), modes(posts, nil, asked))
	f.start()
	made := []*request{asked.asks(t)}
	f.asked(1)
	var again func()
	again = func() {
		if len(made) < 10 { // the canceller may hear of one in two ways
			made = append(made, asked.asks(t))
			f.asked(1)
			made[len(made)-1].behind = again
		}
	}
	made[0].behind = again
	if f.told(jobexec.CancelWish{IDs: []int64{1}}, map[int64]string{1: "not run of a"}); t.Failed() {
		return
	}
	f.reach(map[int64]string{1: journal.RowIgnored})
	for _, p := range made {
		if closed(p.sent) {
			t.Error("it was sent")
		}
	}
	starts := len(made)
	if len(f.story(1)) == starts+3 { // one more was announced, and taken back before it was asked for
		starts++
	}
	f.tells(1, "accepted "+strings.Repeat("running ", starts)+"cancelled")
}

// holdingRunner holds back what it is asked to start.
type holdingRunner struct {
	*runner
	asked chan *request
}

func (r holdingRunner) Start(spec jobexec.Spec) (jobexec.Process, error) {
	p := &request{spec: spec, begun: make(chan struct{}), sent: make(chan struct{}), ended: make(chan struct{}), signals: make(chan int, 10)}
	r.asked <- p
	return heldBack{p, p}, nil
}

// heldBack is a start that the runner was not told of yet.
type heldBack struct {
	jobexec.Process // and no more of a request than that
	start           *request
}

func (h heldBack) Withdraw() {
	h.start.ends(journal.Done{}, fmt.Errorf("it was taken back: %w", jobexec.ErrRunnerChanged))
}
