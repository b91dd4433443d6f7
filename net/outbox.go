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

// mostBacklog is how many bytes may wait before senders do.
const mostBacklog = 1 << 20

// outbox is what a link has still to send: whole frames, in order. It is safe for concurrent use. A
// goroutine writes while there is something to write, and only then.
//
// The outbox takes a frame of any size while its backlog is within the limit; beyond it senders
// wait. So it holds at most limit bytes and one frame a sender. A peer that takes no piece of a
// frame for the timeout ends the link: that is how slow peers are dropped.
type outbox struct {
	conn    net.Conn
	limit   int // bytes
	timeout time.Duration
	spawn   func(func()) // runs the writer; the link waits for it
	fail    func(error)  // ends the link

	mu      sync.Mutex
	frames  [][]byte // whole frames, or the parts of one behind each other
	backlog int      // bytes put and not written yet
	queued  int64    // bytes put since the beginning
	left    int64    // of those, the bytes that the connection took
	writing bool
	closed  bool
	changed chan struct{} // closed at the next progress; nil while nobody waits
}

// pongBytes is how much more pongs may fill the outbox than all else: while one waits nothing is
// read, and two peers that each wait to be read would wait for each other.
const pongBytes = 64 << 10

// pong queues the answer to a ping.
func (o *outbox) pong(ctx context.Context) error {
	_, err := o.sendWithin(ctx, o.limit+pongBytes, pongFrame)
	return err
}

// put queues a frame, waiting while the backlog is above its limit. It must not be changed
// afterwards.
func (o *outbox) put(ctx context.Context, frame []byte) error {
	_, err := o.send(ctx, frame)
	return err
}

// send is put for a frame in parts, and gives the frame's end for hasLeft. After an error nothing
// of the frame leaves.
func (o *outbox) send(ctx context.Context, parts ...[]byte) (end int64, err error) {
	return o.sendWithin(ctx, o.limit, parts...)
}

func (o *outbox) sendWithin(ctx context.Context, limit int, parts ...[]byte) (end int64, err error) {
	for {
		end, progress, err := o.tryPutWithin(limit, parts...)
		if err != nil || progress == nil {
			return end, err
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// tryPut queues a frame and gives its end, or a channel that tells when to try again.
func (o *outbox) tryPut(parts ...[]byte) (end int64, later <-chan struct{}, err error) {
	return o.tryPutWithin(o.limit, parts...)
}

func (o *outbox) tryPutWithin(limit int, parts ...[]byte) (end int64, later <-chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return 0, nil, ErrLinkClosed
	}
	if o.backlog > limit {
		return 0, o.progress(), nil
	}
	for _, part := range parts {
		o.frames = append(o.frames, part)
		o.backlog += len(part)
		o.queued += int64(len(part))
	}
	if !o.writing {
		o.writing = true
		o.spawn(o.write)
	}
	return o.queued, nil, nil
}

// hasLeft tells whether the connection took everything up to end. It must be asked only when the
// link has ended: it waits until the writer, whose connection is closed, has noticed.
func (o *outbox) hasLeft(end int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.closed || o.writing {
		progress := o.progress()
		o.mu.Unlock()
		<-progress
		o.mu.Lock()
	}
	return o.left >= end
}

// await waits until the connection took everything up to end, or the link has ended.
func (o *outbox) await(ctx context.Context, end int64) {
	for {
		o.mu.Lock()
		if o.closed || o.left >= end {
			o.mu.Unlock()
			return
		}
		progress := o.progress()
		o.mu.Unlock()
		select {
		case <-progress:
		case <-ctx.Done():
			return
		}
	}
}

// idle tells whether everything is written.
func (o *outbox) idle() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.writing
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

// progress is a channel that the next announce closes. Callers must hold mu.
func (o *outbox) progress() <-chan struct{} {
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.changed
}

// announce wakes everybody who waits. Callers must hold mu.
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
			n, err := o.writeFrame(frame)
			written += n
			if err != nil {
				o.fail(err)
				o.stop(written)
				return
			}
		}
	}
}

// stop notes that the writer has ended, after written bytes of its batch.
func (o *outbox) stop(written int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.left += int64(written)
	o.writing = false
	o.announce()
}

// take gives the frames to write next, after written bytes of former ones have left; nil when there
// are none.
func (o *outbox) take(written int) [][]byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.left += int64(written)
	o.announce()
	if o.closed {
		o.writing = false
		return nil
	}
	o.backlog -= written
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
// It gives how many bytes of it the connection took.
func (o *outbox) writeFrame(frame []byte) (written int, err error) {
	for written < len(frame) {
		piece := frame[written:min(len(frame), written+writtenBytes)]
		if err := o.conn.SetWriteDeadline(time.Now().Add(o.timeout)); err != nil {
			return written, err
		}
		n, err := o.conn.Write(piece)
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}
