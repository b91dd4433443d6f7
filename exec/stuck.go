package exec

import "time"

// asked is the claim that the database is asked for at this moment. A locked table gives no error
// for a long time: operators are told that it is waited for. The worker's mutex guards it.
type asked struct {
	since time.Time // zero: no claim is under way
	told  bool      // logged, until a claim succeeds
}

const (
	slowClaim = 5 * time.Second  // until status tells of it
	longClaim = 10 * time.Second // until the log does
)

// stuck tells whether a claim is waited for, for longer than usual.
func (a *asked) stuck() bool { return !a.since.IsZero() && time.Since(a.since) >= slowClaim }

// watchClaim notes that a claim is under way until over is called with how it ended.
func (w *Worker) watchClaim() (over func(error)) {
	now := time.Now()
	w.mu.Lock()
	w.asked.since = now
	w.mu.Unlock()
	alarm := time.AfterFunc(longClaim, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.asked.told || !w.asked.since.Equal(now) {
			return
		}
		w.asked.told = true
		w.Logger.Warn("a claim waits for the database; is the table locked?", "since", now.UTC().Format(time.RFC3339))
	})
	return func(err error) {
		alarm.Stop()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.asked.since = time.Time{}
		if err == nil && w.asked.told {
			w.asked.told = false
			w.Logger.Warn("claims go on", "after", time.Since(now).Round(time.Millisecond))
		}
	}
}
