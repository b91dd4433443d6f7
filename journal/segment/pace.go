package segment

import (
	"context"
	"time"
)

// paceStep is how long is worked before a rest is worth its timer.
const paceStep = 2 * time.Millisecond

// pace lets a source rest after each page, in proportion to how long it took to read. The zero
// value rests never.
type pace struct {
	rests  int // for so many times as long
	worked time.Duration
}

// restAfter rests after work that began at a time, when there was enough of it.
func (p *pace) restAfter(ctx context.Context, began time.Time) {
	if p.rests == 0 {
		return
	}
	if p.worked += time.Since(began); p.worked < paceStep {
		return
	}
	timer := time.NewTimer(time.Duration(p.rests) * p.worked)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done(): // which who reads notices next
	}
	p.worked = 0
}
