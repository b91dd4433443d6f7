package net

import (
	"context"
	"fmt"
	"time"
)

// mostPings is how many pings may be on their way; more wait until the oldest is answered.
const mostPings = 1024

// Ping asks the peer for a sign of life and waits for it. Without an error the peer has read
// everything that was sent to it before the call.
func (l *Link) Ping(ctx context.Context) error {
	for {
		answered, later, err := l.tryPing()
		switch {
		case err != nil:
			return fmt.Errorf("ping: %w", l.why(err))
		case later == nil:
			return l.awaitPong(ctx, answered)
		}
		select {
		case <-later:
		case <-l.Done():
		case <-ctx.Done():
			return fmt.Errorf("ping: %w", ctx.Err())
		}
	}
}

func (l *Link) awaitPong(ctx context.Context, answered <-chan struct{}) error {
	select {
	case <-answered:
		return nil
	case <-l.Done():
		return fmt.Errorf("ping: %w", l.Err())
	case <-ctx.Done():
		return fmt.Errorf("ping: %w", ctx.Err())
	}
}

// tryPing sends a ping, or gives a channel that tells when to try again. Pings are noted in the
// order in which they leave.
func (l *Link) tryPing() (answered, later <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.Err(); err != nil {
		return nil, nil, err
	}
	if len(l.pings) >= mostPings {
		return nil, l.pings[0].answered, nil
	}
	_, later, err = l.out.tryPut(pingFrame)
	if err != nil || later != nil {
		return nil, later, err
	}
	sent := ping{sent: time.Now(), answered: make(chan struct{})}
	l.pings = append(l.pings, sent)
	return sent.answered, nil, nil
}

// ponged takes a pong for the answer to the oldest ping; where none was sent, for nothing.
func (l *Link) ponged() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pings) == 0 {
		return
	}
	close(l.pings[0].answered)
	if l.pings = l.pings[1:]; len(l.pings) == 0 {
		l.pings = nil // an idle link keeps no room for them
	}
}

// Silence is for how long the peer has owed the answer to a ping; 0 where it owes none.
func (l *Link) Silence() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pings) == 0 {
		return 0
	}
	return time.Since(l.pings[0].sent)
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
		// No room for a ping is no matter: so much is on its way to the peer that it must show life
		// anyway.
		_, _, _ = l.tryPing()
	}
}
