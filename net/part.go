package net

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// lingering is how long a peer that breaks a rule is given to read why, and the answers to what it
// asked before.
const lingering = 2 * time.Second

// dismissal ends a link whose peer broke a rule, and was told so.
type dismissal struct{ text string }

func (d *dismissal) Error() string { return "peer dismissed: " + d.text }

// dismissUnasked tells the peer why the link ends, where that belongs to none of its requests.
func (l *Link) dismissUnasked(text string) error { return l.dismiss(encodeError(0, text), text) }

// dismiss sends the peer the frame that tells why the link ends, after the answers to what it asked
// before.
func (l *Link) dismiss(frame []byte, text string) error {
	ctx, cancel := context.WithTimeout(l.ctx, lingering)
	defer cancel()
	l.finishRequests(ctx)
	if err := l.out.put(l.ctx, frame); err != nil {
		return err
	}
	return &dismissal{text: text}
}

// part ends the link after receive did: at once where it broke, else when what is still to be said
// was said.
func (l *Link) part(cause error) {
	ctx, cancel := context.WithTimeout(l.ctx, lingering)
	defer cancel()
	var dismissed *dismissal
	switch {
	case errors.Is(cause, errForeign):
		l.log.Warn("connection closed: its peer speaks another protocol")
	case errors.As(cause, &dismissed):
		_ = l.out.flush(ctx)
		l.discard()
	case errors.Is(cause, io.EOF):
		cause = errors.New("peer closed the link")
		if complaint := l.receiver.complaint; complaint != "" {
			cause = fmt.Errorf("%w, saying: %s", cause, complaint)
		}
		// Who was asked something must be able to answer: of such a peer nothing can be heard any
		// more.
		if tcp, ok := l.conn.(*net.TCPConn); ok && !l.hasAsked() {
			l.hearOut(tcp)
		}
	}
	l.end(cause)
}

// discard reads on without looking for a while: closing with bytes unread would reset the
// connection, and the peer might lose what it was told.
func (l *Link) discard() {
	if half, ok := l.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = l.conn.SetReadDeadline(time.Now().Add(lingering))
	_, _ = io.Copy(io.Discard, l.conn)
}

// dismissForMemory tells a peer that there is no memory for what it sends.
func (l *Link) dismissForMemory(err error) error {
	if errors.Is(err, errNoMemory) {
		return l.dismissUnasked(err.Error())
	}
	return err
}
