package net

import (
	"bytes"
	"context"
	"slices"
	"time"
)

// pieceBytes is what a peer must take within writeTimeout: a long frame leaves in pieces, so that it
// gets through to a peer that is slow and alive. A shorter one leaves in one write.
const pieceBytes = 64 << 10

// mostQueued is how many frames may wait for the writer before senders do. Answers don't queue up:
// one of a link is on its way at a time.
const mostQueued = 64

// outgoing is a frame for the goroutine that writes.
type outgoing struct {
	parts [][]byte
	taken chan struct{} // closed when the connection has taken all of the frame
}

// queue gives a frame, which nobody may change any more, to the writer. After an error nothing of it
// leaves. Where there is room for it, it is queued even if ctx has ended.
func (l *Link) queue(ctx context.Context, frame *outgoing) error {
	frame.taken = make(chan struct{})
	if err := l.Err(); err != nil {
		return err
	}
	select {
	case l.frames <- frame:
		return nil
	default:
	}
	select {
	case l.frames <- frame:
		return nil
	case <-l.Done():
		return l.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// now is a context for what is not waited for: it has ended.
var now = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// send queues a frame and waits until the connection has taken it. Without any parts it waits for
// what was queued before.
func (l *Link) send(ctx context.Context, parts ...[]byte) error {
	frame := &outgoing{parts: parts}
	if err := l.queue(ctx, frame); err != nil {
		return err
	}
	select {
	case <-frame.taken:
		return nil
	case <-l.Done():
		return l.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// say queues a frame that answers a ping, or what can't be served. A peer that sends such things and
// reads no answers is not read on.
func (l *Link) say(frame []byte) error {
	return l.queue(l.ctx, &outgoing{parts: [][]byte{frame}})
}

// write writes what is queued until the link ends.
func (l *Link) write() {
	defer close(l.wrote)
	for {
		select {
		case frame := <-l.frames:
			l.writeFrame(frame)
		case <-l.Done():
			return
		}
	}
}

func (l *Link) writeFrame(frame *outgoing) {
	parts := frame.parts
	if len(parts) > 1 && length(parts) <= pieceBytes {
		parts = [][]byte{bytes.Join(parts, nil)}
	}
	for _, part := range parts {
		for piece := range slices.Chunk(part, pieceBytes) {
			if !l.writeBytes(piece) {
				return
			}
		}
	}
	close(frame.taken)
}

// writeBytes writes within the timeout, or ends the link.
func (l *Link) writeBytes(piece []byte) bool {
	err := l.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	if err == nil {
		_, err = l.conn.Write(piece)
	}
	if err != nil {
		l.end(err)
	}
	return err == nil
}

func length(parts [][]byte) (bytes int) {
	for _, part := range parts {
		bytes += len(part)
	}
	return bytes
}
