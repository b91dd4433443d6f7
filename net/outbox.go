package net

import (
	"bytes"
	"context"
	"net"
	"sync"
	"time"
)

// A batch of small frames up to joinedBytes leaves in one write; a long frame leaves in pieces of
// writtenBytes, each with a deadline of its own.
const (
	joinedBytes  = 64 << 10
	writtenBytes = 64 << 10
)

// outbox is what a link has still to send: whole frames, in order. It is safe for concurrent use. A goroutine writes
// while there is something to write, and only then.
//
// The outbox takes a frame of any size while its backlog is within the limit; beyond it senders wait. So it holds
// at most limit bytes and one frame a sender. A peer that takes no piece of a
// frame for the timeout ends the link: that is how slow peers are dropped.
type outbox struct {
	conn    net.Conn
	limit   int // bytes
	timeout time.Duration
	spawn   func(func()) // runs the writer; the link waits for it
	fail    func(error)  // ends the link

	mu      sync.Mutex
	frames  [][]byte
	backlog int // bytes put and not written yet
	writing bool
	closed  bool
	changed chan struct{} // closed at the next progress; nil while nobody waits
}

// put queues a frame, waiting while the backlog is above its limit. It must not be changed afterwards.
func (o *outbox) put(ctx context.Context, frame []byte) error {
	for {
		progress, err := o.tryPut(frame)
		if err != nil || progress == nil {
			return err
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryPut queues a frame, or gives a channel that tells when to try again.
func (o *outbox) tryPut(frame []byte) (<-chan struct{}, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, ErrLinkClosed
	}
	if o.backlog > o.limit {
		return o.progress(), nil
	}
	o.frames = append(o.frames, frame)
	o.backlog += len(frame)
	if !o.writing {
		o.writing = true
		o.spawn(o.write)
	}
	return nil, nil
}

// flush waits until everything is written, or the link is closed.
func (o *outbox) flush(ctx context.Context) error {
	for {
		o.mu.Lock()
		if !o.writing || o.closed {
			o.mu.Unlock()
			return nil
		}
		progress := o.progress()
		o.mu.Unlock()
		select {
		case <-progress:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// close drops what is not written, and lets nobody wait any more.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.frames, o.backlog = nil, 0
	o.announce()
}

// progress is a channel that the next announce closes. The caller holds mu.
func (o *outbox) progress() <-chan struct{} {
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.changed
}

// announce wakes everybody who waits. The caller holds mu.
func (o *outbox) announce() {
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
}

// write writes until there is nothing left.
func (o *outbox) write() {
	written := 0
	for {
		batch := o.take(written)
		if batch == nil {
			return
		}
		written = 0
		for _, frame := range batch {
			if err := o.writeFrame(frame); err != nil {
				o.fail(err)
				return
			}
			written += len(frame)
		}
	}
}

// take gives the frames to write next, after written bytes of former ones have left; nil when there are none.
func (o *outbox) take(written int) [][]byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	o.backlog -= written
	o.announce()
	if len(o.frames) == 0 {
		o.writing = false
		o.frames = nil
		return nil
	}
	batch := o.frames
	o.frames = nil
	if len(batch) > 1 && o.backlog <= joinedBytes {
		batch = [][]byte{bytes.Join(batch, nil)}
	}
	return batch
}

// writeFrame writes one frame in pieces, so that a long one to a slow but living peer gets through.
func (o *outbox) writeFrame(frame []byte) error {
	for len(frame) > 0 {
		piece := frame[:min(len(frame), writtenBytes)]
		if err := o.conn.SetWriteDeadline(time.Now().Add(o.timeout)); err != nil {
			return err
		}
		if _, err := o.conn.Write(piece); err != nil {
			return err
		}
		frame = frame[len(piece):]
	}
	return nil
}
