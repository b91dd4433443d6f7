package time

import (
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// A rate of the fleet holds over two workers of one master, also where only one of them has jobs; and
// one that loses its master keeps to its last share.
func TestRateOfTheFleet(t *testing.T) {
	t.Parallel()
	const jobs, rate = 40, 10
	s := newSite(t, "")
	master := harness.StartMaster(t)
	terms := harness.Terms("a", harness.Settings{"rate": "10/s", "rate_scope": "fleet"})
	one := s.worker("w1", map[string]int{"a": 8}, harness.MasterOf(master), terms)
	two := s.worker("w2", map[string]int{"a": 8}, harness.MasterOf(master), terms)
	one.StartWorker(t)
	two.StartWorker(t)
	harness.AwaitWorkers(t, master, "", 2)
	delay := measureDelay(t)
	s.insertWaiting(1, jobs, "a")
	harness.Dial(t, master.Addr).Ask(t, "poke", map[string]any{"targets": []string{"a"}})
	s.awaitAll(jobs)
	begun := begunOf(t, jobs, one, two)
	expectRate(t, begun, rate, delay())
	s.expectOnce(jobs)

	master.Kill(t)
	s.insertWaiting(100, jobs, "a")
	harness.Dial(t, one.Addr()).Ask(t, "poll", nil)
	harness.Dial(t, two.Addr()).Ask(t, "poll", nil)
	s.awaitAll(2 * jobs)
	expectRate(t, begunOf(t, 1000, one, two), rate, delay())
}

// insertWaiting adds n waiting rows of a target, with ids from first on.
func (s *site) insertWaiting(first int64, n int, target string) {
	s.t.Helper()
	rows := make([]timed, n)
	for i := range rows {
		rows[i] = timed{id: first + int64(i), target: target, status: "waiting"}
	}
	s.insert(rows...)
}

// begunOf are the times at which jobs up to an id were about to be started, in order.
func begunOf(t testing.TB, upTo int64, workers ...harness.Settings) (times []time.Time) {
	t.Helper()
	for _, settings := range workers {
		for _, e := range events(t, settings, journal.KindRunning) {
			if e.Job <= upTo {
				times = append(times, e.Time)
			}
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// measureDelay measures, until it is asked, by how much the machine delays somebody who waits for a
// moment and writes a line to the disk: the most there was.
func measureDelay(t *testing.T) (most func() time.Duration) {
	t.Helper()
	const pause = 10 * time.Millisecond
	file := must.Get(os.Create(filepath.Join(t.TempDir(), "delay")))(t)
	var delay atomic.Int64
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			begun := time.Now()
			select {
			case <-time.After(pause):
			case <-stop:
				return
			}
			_, _ = file.WriteString("line\n") // the disk may be full: that takes no time
			_ = file.Sync()
			delay.Store(max(delay.Load(), int64(time.Since(begun)-pause)))
		}
	}()
	t.Cleanup(func() { close(stop); <-ended; file.Close() })
	return func() time.Duration { return time.Duration(delay.Load()) }
}

// expectRate checks that in no stretch of time there were more starts than a bucket of one second's
// worth gives, and what flows into it meanwhile. A start is journalled some time before or behind
// the moment at which its token was taken: a tenth of a second's worth is allowed for that, and what
// the machine delays.
func expectRate(t testing.TB, begun []time.Time, rate float64, delay time.Duration) {
	t.Helper()
	slack := 0.1 + 2*delay.Seconds()
	t.Logf("the machine's delay was %s", delay)
	for i := range begun {
		for j := i; j < len(begun); j++ {
			starts, stretch := float64(j-i+1), begun[j].Sub(begun[i]).Seconds()
			if most := rate + rate*(stretch+slack) + 1; starts > most {
				t.Fatalf("%g starts in %.3f s, where %g/s allows %.1f", starts, stretch, rate, most)
			}
		}
	}
	// It starts with one token, not with a full bucket.
	if n := len(begun); n > int(rate)*2 {
		if took := begun[n-1].Sub(begun[0]).Seconds(); took < (float64(n)-2)/rate-1-2*delay.Seconds() {
			t.Errorf("%d starts took only %.2f s", n, took)
		}
	}
}
