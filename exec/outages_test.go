package exec_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
)

// outages notes what is tried again, and what has succeeded then.
type outages struct {
	mu     sync.Mutex
	begun  map[string]int
	failed map[string]bool
	over   map[string]int
}

type outage struct {
	of   *outages
	what string
}

func (o outage) Wait(ctx context.Context, cause error) error {
	o.of.mu.Lock()
	o.of.failed[o.what] = true
	o.of.mu.Unlock()
	return patience{}.Wait(ctx, cause)
}

func (o outage) Over() {
	o.of.mu.Lock()
	defer o.of.mu.Unlock()
	o.of.over[o.what] += one(o.of.failed[o.what])
	delete(o.of.failed, o.what)
}

// Each outage is told to be over, where what had failed succeeds. Of a start that is tried again the log
// says whose it is: there may be thousands at a time.
func TestOutagesAreTold(t *testing.T) {
	t.Parallel()
	tab := newTable(waiting(7, "a"))
	tab.commit = failing(1, awayError{errors.New("link lost")})
	f := newFixture(t, tab, nil)
	told := &outages{begun: make(map[string]int), failed: make(map[string]bool), over: make(map[string]int)}
	f.build(func(c *jobexec.Config) {
		c.Retry = func(what string, about ...any) jobexec.Retry {
			what = fmt.Sprint(append([]any{what}, about...)...)
			told.mu.Lock()
			defer told.mu.Unlock()
			told.begun[what]++
			return outage{told, what}
		}
	})
	f.runner.once = &jobexec.NotStartedError{Why: "start /bin/true: resource temporarily unavailable", Short: true}
	f.start()
	f.next().exit(0)
	f.wait("the job is done", func(s *journal.State) bool { return s.Seq > 4 && len(s.Jobs) == 0 })
	told.mu.Lock()
	defer told.mu.Unlock()
	if told.over["claim jobs"] != 1 {
		t.Errorf("told to be over: %v, want claims, once", told.over)
	}
	if start := fmt.Sprint("start a job", "job", int64(7), "target", "a"); told.begun[start] != 1 {
		t.Errorf("tried again: %v, want one %q", told.begun, start)
	}
}

// deadlineOf is how a launcher is told until when its job may run.
func deadlineOf(at int64) string { return "JOBD_DEADLINE=" + strconv.FormatInt(at, 10) }

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
