package net

import (
	"context"
	"encoding/json"
	"fmt"
)

// Request asks the peer and waits for its answer: data (nil where it is null), or a *RemoteError;
// ErrLinkClosed is among the causes where the link ends first, and then nobody knows whether the
// request was carried out, unless ErrUnsent is among them too: then the peer has certainly not got
// it. Data that goes to several links is best given as Encoded.
func (l *Link) Request(ctx context.Context, typ string, data any) (json.RawMessage, error) {
	answer := make(chan message, 1)
	body := l.call(answer)
	defer l.forget(body.No)
	body.Type, body.Data = typ, data
	frame, err := encodeRequest(body)
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", typ, err)
	}
	end, err := l.out.send(ctx, frame...)
	if err != nil {
		return nil, fmt.Errorf("request %s: %w: %w", typ, ErrUnsent, l.why(err))
	}
	select {
	case m := <-answer:
		return m.answer()
	case <-l.Done():
		select {
		case m := <-answer: // the last that the peer said
			return m.answer()
		default:
		}
		if !l.out.hasLeft(end) {
			return nil, fmt.Errorf("request %s: %w: %w", typ, ErrUnsent, l.Err())
		}
		return nil, fmt.Errorf("request %s: %w", typ, l.Err())
	case <-ctx.Done():
		return nil, fmt.Errorf("request %s: %w", typ, ctx.Err())
	}
}

// answer is what a response says.
func (m message) answer() (json.RawMessage, error) {
	if m.failed {
		return nil, &RemoteError{Text: m.failure, Code: m.code}
	}
	return m.data, nil
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
	return requestBody{No: l.number, Password: l.password, coded: l.config.Codes}
}

func (l *Link) forget(no int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, no)
}

// hasAsked tells whether we ever sent the peer a request.
func (l *Link) hasAsked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls != nil
}

// asks tells whether a request of ours waits for its response.
func (l *Link) asks() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls) > 0
}
