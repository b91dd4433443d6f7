package net

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"
	"sync"
)

// serve starts the handler of a request, if the peer may send requests.
func (l *Link) serve(m message) error {
	if l.needsPassword() {
		admitted, err := l.guard.admits(l.ctx, l.conn, m.password, l.deadline)
		switch {
		case errors.Is(err, errCrowdedOut):
			return l.dismiss(m.refused(Refusal(err.Error()).With(CodeLimit)), err.Error())
		case err != nil:
			return err
		case !admitted:
			l.log.Warn("wrong password")
			return l.dismiss(m.refused(refusedPassword), string(refusedPassword))
		}
		l.guard = nil
	}
	if l.shown != nil {
		l.shown()
		l.shown = nil
	}
	handler := l.config.Handlers[m.typ]
	switch {
	case m.values > mostValues:
		return l.say(m.refused(Refusef("too many values: at most %d are allowed in a message", mostValues).With(CodeLimit)))
	case handler == nil:
		return l.say(m.refused(refusedUnknown(m.typ)))
	case l.stopping.Load():
		return l.say(m.refused(refusedStopping))
	}
	paid, err := l.holdFor(m.weight())
	if err != nil {
		return err
	}
	if !l.begin() {
		paid()
		return l.Err()
	}
	stay := &stay{proceed: sync.OnceFunc(func() { paid(); <-l.turn })}
	l.tasks.Go(func() {
		defer l.slots.Release(1)
		defer stay.end()
		l.answer(handler, m, stay)
	})
	return nil
}

// needsPassword tells whether the password is still to come.
func (l *Link) needsPassword() bool { return l.guard != nil }

// begin waits until one more request of the peer may begin; meanwhile the link is not read. It fails
// where the link has ended.
func (l *Link) begin() bool {
	if l.slots.Acquire(l.ctx, 1) != nil {
		return false
	}
	select {
	case l.turn <- struct{}{}:
		return true
	case <-l.Done():
		l.slots.Release(1)
		return false
	}
}

// answer runs a handler and sends what it answers.
func (l *Link) answer(handler Handler, m message, stay *stay) {
	data, err := l.protected(handler, Request{Type: m.typ, Data: m.data, stay: stay})
	m.data = nil
	l.reply(func() [][]byte {
		frame, failed := [][]byte(nil), err
		if failed == nil {
			if frame, failed = encodeResponse(m.no, data); failed == nil {
				failed = l.tooLong(frame)
			}
			if failed == nil {
				return frame
			}
		}
		l.noteFailed(m.no, m.typ, failed)
		return [][]byte{m.refused(failed)}
	})
}

// tooLong tells that a master does not take an answer: it would close the link.
func (l *Link) tooLong(frame [][]byte) error {
	bytes := length(frame)
	if !l.config.PeerIsMaster || bytes <= serverAnswerLimit {
		return nil
	}
	return Refusef("the answer is too long for a master: %d bytes, and it takes %d; ask for less, or the worker itself", bytes, serverAnswerLimit).
		With(CodeLimit)
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

// Caller names who sent a request over this link, as the journal does: the peer, or, where the link is
// one to a master that we chose (see LinkConfig), the client that the request's data names in the field
// by, and the master. A master that names nobody, as the original does, is named itself. Of all other
// peers the field is not read: a client must not speak for somebody else.
func (l *Link) Caller(data Fields) string {
	peer := l.remote.String()
	if !l.config.PeerIsMaster {
		return peer
	}
	by, _ := data.Text("by")
	if unixPeer.MatchString(by) {
		return by + " via master " + peer
	}
	client, err := netip.ParseAddrPort(by)
	if err != nil {
		return "master " + peer
	}
	client = netip.AddrPortFrom(client.Addr().WithZone(""), client.Port()) // a zone may be any text
	return client.String() + " via master " + peer
}

// Request is what a peer asks.
type Request struct {
	Type string
	Data json.RawMessage // nil where absent or null

	stay *stay // nil: the request came over no link
}

// stay is what a request takes of its link and its server while it is under way.
type stay struct {
	proceed  func() // lets the next request begin: the handler has read this one by then
	answered func() // called when its answer is on its way; nil: nothing is
}

// end is called when the request has been answered.
func (s *stay) end() {
	s.proceed()
	if s.answered != nil {
		s.answered()
	}
}

// Proceed lets the requests after this one on its link begin before it has been answered. It may be
// called more than once.
func (r Request) Proceed() {
	if r.stay != nil {
		r.stay.proceed()
	}
}

// OnAnswered has something done when the answer that the handler gives is encoded and on its way,
// or can't be sent any more: until then it is in memory. Only the handler's own goroutine may call
// it, once.
func (r Request) OnAnswered(do func()) {
	if r.stay != nil {
		r.stay.answered = do
	}
}

// Fields are the members of the request's data. Each call reads them anew: a caller that needs them
// twice keeps them.
func (r Request) Fields() Fields { return FieldsOf(r.Data) }
