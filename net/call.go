package net

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Request asks the peer and waits for its answer: data (nil where it is null), or a *RemoteError; ErrLinkClosed is among the
// causes where the link ends first, and then nobody knows whether the request was carried out.
func (l *Link) Request(ctx context.Context, typ string, data any) (json.RawMessage, error) {
	answer := make(chan message, 1)
	body := l.call(answer)
	defer l.forget(body.No)
	body.Type, body.Data = typ, data
	frame, err := encodeRequest(body)
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", typ, err)
	}
	if err := l.out.put(ctx, frame); err != nil {
		return nil, fmt.Errorf("request %s: %w", typ, l.why(err))
	}
	select {
	case m := <-answer:
		if m.failed {
			return nil, &RemoteError{Text: m.failure}
		}
		return m.data, nil
	case <-l.Done():
		return nil, fmt.Errorf("request %s: %w", typ, l.Err())
	case <-ctx.Done():
		return nil, fmt.Errorf("request %s: %w", typ, ctx.Err())
	}
}

// call gives a request its number, and the password while the peer may still ask for it.
func (l *Link) call(answer chan message) requestBody {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = make(map[int64]chan message)
	}
	for taken := true; taken; _, taken = l.calls[l.number] {
		l.number = l.number%lastNumber + 1
	}
	l.calls[l.number] = answer
	return requestBody{No: l.number, Password: l.password}
}

func (l *Link) forget(no int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, no)
}

// Ping asks the peer for a sign of life and waits for it.
func (l *Link) Ping(ctx context.Context) error {
	l.mu.Lock()
	if l.pong == nil {
		l.pong = make(chan struct{})
	}
	pong := l.pong
	l.mu.Unlock()
	if err := l.out.put(ctx, pingFrame); err != nil {
		return fmt.Errorf("ping: %w", l.why(err))
	}
	select {
	case <-pong:
		return nil
	case <-l.Done():
		return fmt.Errorf("ping: %w", l.Err())
	case <-ctx.Done():
		return fmt.Errorf("ping: %w", ctx.Err())
	}
}

// KeepAlive pings the peer every interval, until ctx or the link ends. A peer from which nothing at
// all came for three intervals is taken for dead, and the link closed. It returns why it ended.
func (l *Link) KeepAlive(ctx context.Context, interval time.Duration) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	seen, silent := l.reads.Load(), 0
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.Done():
			return l.Err()
		case <-ticker.C:
		}
		if now := l.reads.Load(); now != seen {
			seen, silent = now, 0
		}
		if silent == 3 {
			l.end(fmt.Errorf("peer silent for %v", 3*interval))
			return l.Err()
		}
		silent++
		if progress, _ := l.out.tryPut(pingFrame); progress != nil {
			continue // so much is on its way to the peer that it must show life anyway
		}
	}
}
