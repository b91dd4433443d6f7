package net

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
)

// What all links of a server together may take of the memory. What is short does not count, so that
// who asks little is never kept waiting by those who ask much: a link has up to shortBytes of each
// kind for itself, its frame, its request and its answers.
const (
	shortBytes     = 64 << 10
	framesBytes    = 64 << 20  // frames that are being received
	requestsBytes  = 128 << 20 // requests under way, as their handlers read them
	answersBytes   = 128 << 20 // answers that are being sent
	deliveredBytes = 512 << 20 // answers to our own requests, beyond the length of a request
	encodedAtOnce  = 4         // more would be no faster, and each takes several times the length of its answer
	rationPatience = 5 * time.Second
)

// errRationed ends a link that waited too long for memory which others take.
var errRationed = errors.New("too much is asked at once: try again")

// rations are one server's. Nil bounds nothing: that of a link that we made ourselves.
type rations struct {
	frames, requests, answers, delivered ration
	pens                                 chan struct{} // one for each answer that is being encoded
	eyes                                 chan struct{} // one for each long frame that is being parsed
}

func newRations(maxMessage int) *rations {
	return &rations{
		frames:   ration{limit: max(framesBytes, 2*maxMessage)},
		requests: ration{limit: max(requestsBytes, 2*maxMessage)},
		answers:  ration{limit: answersBytes}, delivered: ration{limit: deliveredBytes},
		pens: make(chan struct{}, encodedAtOnce),
		eyes: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
	}
}

// ration is an amount of memory that links share. It is safe for concurrent use.
type ration struct {
	limit int // bytes

	mu    sync.Mutex
	taken int
	freed chan struct{} // closed when some is given back; nil while nobody waits
}

// take waits until there is so much to be had. One taker may always have what it wants, however
// much that is.
func (r *ration) take(ctx context.Context, bytes int) error {
	for {
		freed := r.tryTake(bytes)
		if freed == nil {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tryTake takes, or gives a channel that tells when to try again.
func (r *ration) tryTake(bytes int) (later <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken == 0 || r.taken+bytes <= r.limit {
		r.taken += bytes
		return nil
	}
	if r.freed == nil {
		r.freed = make(chan struct{})
	}
	return r.freed
}

// give gives back.
func (r *ration) give(bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken -= bytes
	if r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
}

// pen waits until one more answer may be encoded, and gives what ends that.
func (r *rations) pen() (done func()) {
	if r == nil {
		return func() {}
	}
	r.pens <- struct{}{}
	return func() { <-r.pens }
}

// held is what a link has taken for the frame that it receives.
type held struct{ frames, delivered int }
