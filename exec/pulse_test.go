package exec_test

import (
	"testing"
	"time"

	jobexec "jobd/exec"
)

// pulse tells what its loop says of itself.
type pulse chan bool

func newPulse() pulse { return make(pulse, 10000) }

func (p pulse) Works() { p <- true }
func (p pulse) Waits() { p <- false }

// rest drops what was said, and tells whether the loop worked at the end.
func (p pulse) rest(before bool) (works bool) {
	works = before
	for {
		select {
		case works = <-p:
		default:
			return works
		}
	}
}

// await waits until the loop says the one or the other.
func (p pulse) await(t *testing.T, works bool) {
	t.Helper()
	late := time.After(10 * time.Second)
	for {
		select {
		case said := <-p:
			if said == works {
				return
			}
		case <-late:
			t.Fatalf("the loop did not say within 10 s that it works: %v", works)
		}
	}
}

// stays tells whether the loop comes to be at work, and stays there.
func (p pulse) stays() (works bool) {
	for {
		select {
		case works = <-p:
		case <-time.After(300 * time.Millisecond):
			return works
		}
	}
}

// watchedWorker makes a worker that runs, and the pulses of its loops.
func watchedWorker(t *testing.T, table *table) (f *fixture, turns, claims pulse) {
	t.Helper()
	turns, claims = newPulse(), newPulse()
	f = newFixture(t, table, func(c *jobexec.Config) { c.TurnPulse, c.ClaimPulse = turns, claims })
	return f, turns, claims
}

// A claim that the table does not answer is waited for, and is no work that does not end.
func TestASlowTableIsWaitedFor(t *testing.T) {
	t.Parallel()
	table := newTable(waiting(1, "a"))
	asked, answer := make(chan struct{}, 100), make(chan struct{})
	table.commit = func(apply func()) error {
		asked <- struct{}{}
		<-answer
		apply()
		return nil
	}
	f, turns, claims := watchedWorker(t, table)
	f.start()
	<-asked
	if claims.rest(false) {
		t.Error("the claim loop is at work while the table does not answer")
	}
	f.worker.Knock()
	turns.await(t, true)
	turns.await(t, false)
	close(answer)
	f.next().exit(0)
	turns.await(t, true) // the turn that journals its end
}

// Loops that have nothing to do go round when they are knocked at; where what they share is held,
// they are at work for as long as it is. The claim loop may still be about its first claims, and is
// not at work where it waits for the same lock between two questions to the table: then once more.
func TestLoopsThatHangAreAtWork(t *testing.T) {
	t.Parallel()
	f, turns, claims := watchedWorker(t, newTable())
	f.start()
	for _, loop := range []pulse{turns, claims} {
		for range 3 {
			f.worker.Knock()
			loop.await(t, true)
			loop.await(t, false)
		}
	}
	hangs := func() bool {
		defer f.worker.HoldMemory()()
		f.worker.Knock()
		return turns.stays() && claims.stays()
	}
	for tries := 0; !hangs(); tries++ {
		if tries == 20 {
			t.Fatal("the loops do not say that they are at work, while they hang")
		}
	}
	turns.await(t, false)
	claims.await(t, false)
}
