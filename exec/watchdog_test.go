package exec_test

import (
	"testing"
	"time"

	jobexec "jobd/exec"
)

// pulse tells what the worker says of itself.
type pulse chan bool

func (p pulse) Works() { p <- true }
func (p pulse) Waits() { p <- false }

// A watchdog ping ends while the table does not answer, and does not end while somebody holds the lock
// that all loops share.
func TestAWorkerThatHangsIsAtWork(t *testing.T) {
	t.Parallel()
	table, said := newTable(waiting(1, "a")), make(pulse, 10)
	asked, answer := make(chan struct{}, 100), make(chan struct{})
	table.commit = func(apply func()) error {
		asked <- struct{}{}
		<-answer
		apply()
		return nil
	}
	f := newFixture(t, table, func(c *jobexec.Config) { c.Pulse = said })
	f.start()
	<-asked
	f.worker.WatchdogPing()
	if !<-said || <-said {
		t.Error("the ping was not at work, or did not come to its end, while the table does not answer")
	}
	close(answer)
	f.next().exit(0)
	release := f.worker.HoldMemory()
	f.worker.WatchdogPing()
	f.worker.WatchdogPing()
	<-said
	select {
	case works := <-said:
		t.Errorf("the ping does not hang: %v", works)
	case <-time.After(100 * time.Millisecond):
	}
	release()
	if <-said {
		t.Error("the ping goes on, and works again")
	}
}
