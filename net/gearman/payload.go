package gearman

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// What long packets of all peers together may take of the memory. A packet so short as shortBytes counts for
// nothing, so that who sends little never waits for those who send much.
const (
	shortBytes  = 64 << 10
	memoryBytes = 256 << 20
)

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
func take(ctx context.Context, memory *semaphore.Weighted, size int) (*hold, error) {
	if size <= shortBytes {
		return nil, nil
	}
	h := newHold(memory, size)
	if err := memory.Acquire(ctx, h.bytes); err != nil {
		return nil, err
	}
	return h, nil
}

// tryTake takes memory for whatever size, if there is some; nil: there is none.
func tryTake(memory *semaphore.Weighted, size int) *hold {
	h := newHold(memory, size)
	if !memory.TryAcquire(h.bytes) {
		return nil
	}
	return h
}

func newHold(memory *semaphore.Weighted, size int) *hold {
	h := &hold{bytes: min(int64(size), memoryBytes), memory: memory}
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
	held, err := take(p.ctx, s.memory, size)
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
