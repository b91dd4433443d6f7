package net

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// serve starts the handler of a request, if the peer may send requests.
func (l *Link) serve(m message) error {
	if l.entry.needed() {
		admitted, err := l.entry.admit(l.ctx, m.password)
		switch {
		case errors.Is(err, errCrowdedOut):
			return l.dismiss(m.refused(Refusal(err.Error()).With(CodeLimit)), err.Error())
		case err != nil:
			return err
		case !admitted:
			l.log.Warn("wrong password")
			return l.dismiss(m.refused(refusedPassword), string(refusedPassword))
		}
	}
	if m.excess != nil {
		return l.out.put(l.ctx, m.refused(m.excess))
	}
	handler := l.config.Handlers[m.typ]
	if handler != nil && l.noticed != nil {
		l.noticed()
		l.noticed = nil
	}
	if handler == nil {
		return l.out.put(l.ctx, m.refused(refusedUnknown(m.typ)))
	}
	l.receiver.in.shrink() // of the frame nothing is kept but what the request needs
	l.release()
	paid, err := l.takeFor(m.weight)
	if err != nil {
		return l.dismissForMemory(err)
	}
	select {
	case l.slots <- struct{}{}:
	case <-l.Done():
		paid()
		return l.Err()
	}
	if !l.gate.enter() {
		paid()
		<-l.slots
		return l.out.put(l.ctx, m.refused(refusedStopping))
	}
	stay := &stay{paid: paid, turns: &l.turns}
	request := Request{no: m.no, Type: m.typ, Data: m.data, coded: m.coded, stay: stay}
	relief := l.turns.take(len(m.data), func() {
		l.tasks.Go(func() {
			defer func() { stay.end(); l.gate.leave(); <-l.slots }()
			asked := request
			request.Data = nil // the handler alone keeps it, for as long as it needs it
			l.answer(handler, asked)
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

// answer runs a handler and sends what it answers.
func (l *Link) answer(handler Handler, request Request) {
	no, typ, coded := request.no, request.Type, request.coded
	data, err := l.protected(handler, request)
	l.reply(func() []byte {
		frame, failed := []byte(nil), err
		if failed == nil {
			if frame, failed = encodeResponse(no, data); failed == nil {
				return frame
			}
		}
		l.noteFailed(no, typ, failed)
		return errorFrame(no, coded, failed)
	})
}

// noteFailed logs why a request failed.
func (l *Link) noteFailed(no int64, typ string, err error) {
	if _, whole := publicText(err); whole || l.ctx.Err() != nil {
		l.log.Debug("request refused", "type", typ, "no", no, "error", Excerpt(err.Error()))
	} else {
		l.log.Error("request failed", "type", typ, "no", no, "error", err)
	}
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
