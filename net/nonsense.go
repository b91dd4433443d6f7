package net

import (
	"time"
)

// A peer may send nonsense, and is answered as the protocol says: nonsenseAtOnce messages as fast
// as it likes, and then one every nonsenseEvery, its link not being read in between. Parsing
// nonsense is work that others wait for.
const (
	nonsenseAtOnce = 32
	nonsenseEvery  = 100 * time.Millisecond
)

// nonsense counts what a peer sends that no request is made of and nobody waits for. The zero value
// is ready.
type nonsense struct {
	paid time.Time // when what came so far would have come, at one every nonsenseEvery
}

// due counts one more, and tells how long the peer is not to be read.
func (n *nonsense) due(now time.Time) time.Duration {
	if n.paid.Before(now) {
		n.paid = now
	}
	n.paid = n.paid.Add(nonsenseEvery)
	return max(0, n.paid.Sub(now)-nonsenseAtOnce*nonsenseEvery)
}
