package store

import "time"

// pace bounds how often rows are tried that a rule of the table refuses: there may be thousands, for days.
// Few of them are never held up by it. Where the table takes one that it refused before, a rule was mended,
// and the others are tried without delay. The zero pace is ready to use.
type pace struct {
	used float64   // of what is stored; it comes back as time goes by
	at   time.Time // when that was so
}

const (
	refusedPace  = 8                     // tries a second of refused rows, in all
	refusedGo    = 2 * refusedPace       // tries that come together before any is made, where they wait for the pace
	refusedStore = 60                    // tries that need not wait for it
	refusedSpan  = float64(time.Second)  // that refusedPace is about
	refusedTick  = 10 * time.Millisecond // what a wait is rounded up by
)

// room is how many refused rows may be tried now.
func (p *pace) room(now time.Time) int {
	p.pass(now)
	return int(refusedStore - p.used)
}

// pass has what was used come back.
func (p *pace) pass(now time.Time) {
	if gone := now.Sub(p.at); gone > 0 {
		p.used = max(0, p.used-refusedPace*float64(gone)/refusedSpan)
	}
	p.at = now
}

// take notes tries.
func (p *pace) take(n int) { p.used += float64(n) }

// next is when so much room is there that refused rows are to be tried.
func (p *pace) next(now time.Time) time.Time {
	p.pass(now)
	missing := p.used - (refusedStore - refusedGo)
	if missing <= 0 {
		return now
	}
	return now.Add(time.Duration(missing/refusedPace*refusedSpan) + refusedTick)
}
