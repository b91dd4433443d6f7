package net

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// serve starts the handler of a request, if the peer may send requests.
func (l *Link) serve(m message) error {
	if l.entry.needed() {
		admitted, delay, err := l.entry.admit(l.ctx, m.password)
		switch {
		case errors.Is(err, errCrowdedOut):
			return l.dismiss(m.no, err.Error())
		case err != nil:
			return err
		case !admitted:
			return l.turnAway(m.no, delay)
		}
	}
	handler := l.config.Handlers[m.typ]
	if handler == nil {
		if err := l.out.put(l.ctx, encodeError(m.no, fmt.Sprintf("unknown request type: '%s'", m.typ))); err != nil {
			return err
		}
		return l.endure()
	}
	select {
	case l.slots <- struct{}{}:
	case <-l.Done():
		return l.Err()
	}
	if !l.gate.enter() {
		<-l.slots
		return l.out.put(l.ctx, encodeError(m.no, string(refusedStopping)))
	}
	done := sync.OnceFunc(l.turns.pass)
	request := Request{No: m.no, Type: m.typ, Data: m.data, proceed: done}
	relief := l.turns.take(len(m.data), func() {
		l.tasks.Go(func() {
			defer func() { done(); l.gate.leave(); <-l.slots }()
			// An answer that can't be sent any more is nobody's: the link has ended.
			_ = l.out.put(l.ctx, l.answer(handler, request))
		})
	})
	if relief == nil {
		return nil
	}
	select {
	case <-relief:
		return nil
	case <-l.Done():
		return l.Err()
	}
}

// answer runs a handler and gives the frame that answers the request.
func (l *Link) answer(handler Handler, request Request) []byte {
	data, err := l.protected(handler, request)
	if err == nil {
		var frame []byte
		if frame, err = encodeResponse(request.No, data); err == nil {
			return frame
		}
	}
	text, whole := publicText(err)
	if whole || l.ctx.Err() != nil {
		l.log.Debug("request refused", "type", request.Type, "no", request.No, "error", Excerpt(err.Error()))
	} else {
		l.log.Error("request failed", "type", request.Type, "no", request.No, "error", err)
	}
	return encodeError(request.No, text)
}

// protected makes an error of a handler's panic: one request must not end what runs for all others.
func (l *Link) protected(handler Handler, request Request) (data any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("handler panicked: %v\n%s", cause, debug.Stack())
		}
	}()
	return handler(l.ctx, l, request)
}
