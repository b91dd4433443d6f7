package runner

import (
	"io"
	"sync"
)

// outbox holds messages on their way, so that who sends never waits for who
// reads. It is bounded by what it is about: a few messages a job under way.
type outbox struct {
	mu       sync.Mutex
	messages []message
	closed   bool
	filled   chan struct{}
}

func newOutbox() *outbox { return &outbox{filled: make(chan struct{}, 1)} }

// send puts a message behind the others.
func (o *outbox) send(m message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.messages = append(o.messages, m)
	o.wake()
}

// close makes write return when it has written what there is.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.wake()
}

func (o *outbox) wake() {
	select {
	case o.filled <- struct{}{}:
	default:
	}
}

// write writes messages until the outbox is closed, or the other side is gone;
// then it closes the socket, so that reading ends too.
func (o *outbox) write(w *wire, socket io.Closer) {
	for {
		<-o.filled
		messages, closed := o.take()
		for _, m := range messages {
			if err := w.send(m); err != nil {
				socket.Close()
				return
			}
		}
		if closed {
			return
		}
	}
}

func (o *outbox) take() (messages []message, closed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	messages, o.messages = o.messages, nil
	return messages, o.closed
}
