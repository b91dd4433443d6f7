package gearman

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// What long packets of all peers together may take of the memory. A packet so short as shortBytes counts for
// nothing, so that who sends little never waits for those who send much; and middleBytes is what those have for
// themselves that are no longer than middle.
const (
	shortBytes  = 64 << 10
	middle      = 1 << 20
	middleBytes = 32 << 20
	memoryBytes = 256 << 20
)

// memory is what there is for packets, by their length.
type memory struct{ middle, long *semaphore.Weighted }

// Payload is the last argument of a packet. A long one counts in the server's memory until everybody who has kept
// it has dropped it; its bytes are nobody's to change.
type Payload struct {
	Bytes []byte
	hold  *hold
}

type hold struct {
	users  atomic.Int32
	bytes  int64
	memory *semaphore.Weighted
}

// take waits until there is memory for a packet. Whoever has some gives it back in time: each step of what is read
// has a deadline, and so has what is written.
func (m memory) take(ctx context.Context, size int) (*hold, error) {
	if size <= shortBytes {
		return nil, nil
	}
	from := m.long
	if size <= middle {
		from = m.middle
	}
	h := newHold(from, size)
	if err := from.Acquire(ctx, h.bytes); err != nil {
		return nil, err
	}
	return h, nil
}

// tryTake takes memory for what a peer does not take, if there is some; nil: there is none.
func (m memory) tryTake(size int) *hold {
	h := newHold(m.long, size)
	if !m.long.TryAcquire(h.bytes) {
		return nil
	}
	return h
}

func newHold(from *semaphore.Weighted, size int) *hold {
	h := &hold{bytes: min(int64(size), memoryBytes), memory: from}
	h.users.Store(1)
	return h
}

// Load reads the workload of a job, of about so many bytes, for the worker that has asked for it: when there is
// memory for it, unless the worker goes before.
func (s *Server) Load(j *Job, size int, read func() ([]byte, error)) (Payload, error) {
	s.mu.Lock()
	p := j.worker
	s.mu.Unlock()
	if p == nil {
		return Payload{}, errGone
	}
	held, err := s.memory.take(p.ctx, size)
	if err != nil {
		return Payload{}, err
	}
	bytes, err := read()
	if err != nil {
		held.drop()
		return Payload{}, err
	}
	return Payload{bytes, held}, nil
}

// Reserve takes memory for so many bytes until drop, if there is some.
func (s *Server) Reserve(size int) (drop func(), some bool) {
	h := s.memory.tryTake(size)
	return h.drop, h != nil
}

// Keep is for one more who has the payload, and drops it.
func (p Payload) Keep() Payload {
	if p.hold != nil {
		p.hold.users.Add(1)
	}
	return p
}

// Drop says that one of those who have it needs it no more.
func (p Payload) Drop() { p.hold.drop() }

func (h *hold) drop() {
	if h != nil && h.users.Add(-1) == 0 {
		h.memory.Release(h.bytes)
	}
}
