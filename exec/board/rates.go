package board

import "time"

// rateWindow is how many seconds back a target's rates look.
const rateWindow = 60

// Rates counts what has happened to jobs within the last minute.
type Rates struct {
	Started int
	Ended   int
	Failed  int // of those that ended
}

// rates counts by the second, in a ring. It is told the time, and needs no timer: a second that was
// written a minute ago or longer counts as empty.
type rates struct {
	since time.Time // second 0
	ring  [rateWindow]struct {
		second int64
		Rates
	}
}

// at is the place of the second that a time is in.
func (r *rates) at(now time.Time) *Rates {
	second := r.second(now)
	place := &r.ring[second%rateWindow]
	if place.second != second {
		place.second, place.Rates = second, Rates{}
	}
	return &place.Rates
}

// second is how many seconds have gone by, by a clock that nobody sets.
func (r *rates) second(now time.Time) int64 { return max(0, int64(now.Sub(r.since)/time.Second)) }

// rated is where a target counts what happens now. The ring is made for the first job: most targets
// of a worker with many may never have one.
func (t *Target) rated(now time.Time) *Rates {
	if t.rates == nil {
		t.rates = &rates{since: now}
	}
	return t.rates.at(now)
}

// Rates is what has happened to the target's jobs within the last minute.
func (t *Target) Rates(now time.Time) (sum Rates) {
	if t.rates == nil {
		return sum
	}
	second := t.rates.second(now)
	for i := range t.rates.ring {
		if one := &t.rates.ring[i]; second-one.second < rateWindow {
			sum.Started += one.Started
			sum.Ended += one.Ended
			sum.Failed += one.Failed
		}
	}
	return sum
}

// countStart counts that a job's process was started, once. What a former run of the worker has
// started was counted there.
func (j *Job) countStart(now time.Time) {
	if !j.counted {
		j.counted = true
		j.target.rated(now).Started++
	}
}

// countEnd counts how a job has ended. One that somebody has cancelled is no failure of its target's.
func (j *Job) countEnd(fine bool, now time.Time) {
	r := j.target.rated(now)
	r.Ended++
	if !fine {
		r.Failed++
	}
}
