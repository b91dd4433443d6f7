package master

import (
	"sync"
	"time"
)

// pace lets so many things happen at once, and then one every so often. The zero value is ready; it
// is safe for concurrent use.
type pace struct {
	mu   sync.Mutex
	paid time.Time // when what came so far would have come, one every so often
}

// due counts one more, and tells how long it is to wait.
func (p *pace) due(now time.Time, atOnce int, every time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paid.Before(now) {
		p.paid = now
	}
	p.paid = p.paid.Add(every)
	return max(0, p.paid.Sub(now)-time.Duration(atOnce)*every)
}

// forgive takes back what due counted.
func (p *pace) forgive(every time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paid = p.paid.Add(-every)
}
