package exec

import (
	"slices"
	"time"

	"golang.org/x/time/rate"
)

// A table may refuse thousands of rows, and be asked about each of them for days. So there is a pace: so
// many rows a second in all, some of them in one go. Few rows are never held up by it. Where the table lets
// one be claimed that it refused before, a rule was mended, and the others are asked about without delay.

const (
	probePace  = 10               // rows a second that the table is asked about
	probeGo    = 2 * probePace    // rows in one go, where they wait for the pace
	probeStore = 2 * mostProbes   // rows that need not wait for it, if there was nothing to ask about before
	probeWait  = time.Second / 10 // what a wait for the pace is rounded up by
)

// newProbing makes the pace at which the table is asked about rows that were set aside.
func newProbing() *rate.Limiter { return rate.NewLimiter(probePace, probeStore) }

// dueAsides lists the rows that the table is to be asked about in one go, those first that have waited
// for longest, and forgets those that it lets us claim and that no claim has met since: they are gone.
func (w *Worker) dueAsides(now time.Time) (ids []int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, a := range w.asides {
		switch {
		case a.rest.Due.After(now):
		case a.trusted:
			delete(w.asides, id)
		default:
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 || w.pacedUntil(now).After(now) {
		return nil
	}
	slices.SortFunc(ids, func(one, other int64) int { return w.asides[one].rest.Due.Compare(w.asides[other].rest.Due) })
	ids = ids[:min(len(ids), mostProbes, max(int(w.probing.TokensAt(now)), 1))]
	if alone := slices.IndexFunc(ids, func(id int64) bool { return w.asides[id].alone }); alone >= 0 {
		ids = ids[alone : alone+1]
	}
	w.probing.AllowN(now, len(ids))
	slices.Sort(ids)
	return ids
}

// pacedUntil is when the table may be asked about rows again. Callers must hold w.mu.
func (w *Worker) pacedUntil(now time.Time) time.Time {
	missing := probeGo - w.probing.TokensAt(now)
	if missing <= 0 {
		return now
	}
	return now.Add(time.Duration(missing/probePace*float64(time.Second)) + probeWait)
}

// hurryProbes has the table asked about all rows without delay. Callers must hold w.mu.
func (w *Worker) hurryProbes() { w.probing = newProbing() }
