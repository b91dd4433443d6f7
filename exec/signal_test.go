package exec_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	jobexec "jobd/exec"
	"jobd/journal"
)

func TestSignals(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	f.start()
	p := f.next()
	f.wait("process is journalled", func(s *journal.State) bool { return s.Job(1).Status == journal.StatusRunning })
	got := f.worker.SendSignal(map[int64]int{1: 15, 2: 15}, "127.0.0.1:9")
	if diff := cmp.Diff(map[int64]bool{1: true, 2: false}, got); diff != "" {
		t.Errorf("delivered (-want +got):\n%s", diff)
	}
	if signo := <-p.signals; signo != 15 {
		t.Errorf("signal %d", signo)
	}
	for signo, want := range map[int]bool{0: true, -1: false, 65: false} {
		if got := f.worker.SendSignal(map[int64]int{1: signo}, "me")[1]; got != want {
			t.Errorf("signal %d delivered: %t, want %t", signo, got, want)
		}
	}
	p.exit(0)
	f.wait("job is done", ended(1))
	if f.worker.SendSignal(map[int64]int{1: 15}, "me")[1] {
		t.Error("a signal to a job that is done was delivered")
	}
	if n := count(f.story(1), journal.KindSignal); n != 1 {
		t.Errorf("%d signals in the journal, want the one that was sent", n)
	}
}

// The row says running before the process is there; a signal that comes in between waits for it.
func TestASignalToAJobThatIsJustStarted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	late := &lateRunner{f.runner, 1, make(chan struct{}), make(chan error)}
	f.build(func(c *jobexec.Config) { c.Runner = late })
	f.start()
	<-late.asked
	go func() {
		<-time.After(10 * time.Millisecond) // the signal is there first, most likely
		late.answer <- nil
	}()
	if !f.worker.SendSignal(map[int64]int{1: 15}, "me")[1] {
		t.Error("the row says running, but the signal was not delivered")
	}
	f.next().exit(1)
	f.wait("job is done", ended(1))
	if got, want := words(f.story(1)), "accepted running started signal done"; got != want {
		t.Errorf("story %q, want %q", got, want)
	}
}
