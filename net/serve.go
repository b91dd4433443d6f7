package net

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"jobd/net/principal"
)

// How a peer's request is served: who asks, its turn among those of its link, its answer, and the
// memory that all of that may take.

// serve starts the handler of a request, if the peer may send requests.
func (l *Link) serve(m message) error {
	from, err := l.askerOf(m)
	m.by = nil // it is a part of the frame, which need not stay
	switch {
	case errors.Is(err, errCrowdedOut):
		return l.dismiss(m.refused(Refusal(err.Error()).With(CodeLimit)), err.Error())
	case err != nil:
		return err
	case from == nil:
		l.log.Warn("wrong password")
		return l.dismiss(m.refused(refusedPassword), string(refusedPassword))
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
		l.answer(handler, m, from, stay)
	})
	return nil
}

// needsPassword tells whether the password is still to come.
func (l *Link) needsPassword() bool { return l.guard != nil && l.session == nil }

// askerOf tells who sends a request: nil where it is nobody who may. The first request of a link settles that,
// and where there are principals each one that brings another password or token.
func (l *Link) askerOf(m message) (*principal.Session, error) {
	if l.guard == nil {
		return l.passedOn(m), nil
	}
	if l.session != nil && (l.guard.principals == nil || l.judged && m.password == "") {
		return l.session, nil
	}
	digest, deadline := sha256.Sum256([]byte(m.password)), l.deadline
	if l.judged && digest == l.digest {
		return l.session, nil
	}
	if l.session != nil {
		deadline = time.Now().Add(passwordTimeout)
	}
	session, err := l.guard.judge(l.ctx, l.conn, m.password, deadline)
	if session == nil || err != nil {
		return nil, err
	}
	l.session, l.judged, l.digest = session, true, digest
	l.use(session)
	return session, nil
}

// use has the link end with a session's credential.
func (l *Link) use(session *principal.Session) {
	if line := session.Line(); line != nil && l.used[line] == nil {
		if l.used == nil {
			l.used = make(map[*principal.Line]func() bool)
		}
		l.used[line] = session.OnEnd(func() { l.end(errRevoked) }) // whatever that has begun on this link ends, too
	}
}

// errRevoked ends the links of a credential that is gone.
var errRevoked = errors.New("its credential was removed, changed or has expired")

// asker is who asked for a request that a master passes on, on the wire.
type asker struct {
	Name    string `json:"name,omitempty"`
	How     string `json:"known,omitempty"`
	Address string `json:"address"`
	Scope   string `json:"scope,omitempty"`   // "": everything
	Targets string `json:"targets,omitempty"` // "": all
}

// passedOn is who asks over a link to a peer that we chose. A master says for whom it asks: in the field by
// beside the data, or, as older ones do, by the address in the data's field by.
func (l *Link) passedOn(m message) *principal.Session {
	peer := l.remote.String()
	s := principal.Known("", "", peer)
	if !l.config.PeerIsMaster {
		return s
	}
	if l.config.MasterScope != 0 && !l.verified {
		s.Scope = l.config.MasterScope
	}
	s.Address, s.Master = "", "master "+peer
	var by asker
	if m.by == nil {
		text, _ := FieldsOf(m.data).Text("by")
		s.Address = addressIn(text)
		return s
	}
	if json.Unmarshal(m.by, &by) != nil {
		s.Scope = 0
		return s
	}
	s.Name, s.How, s.Address = word(by.Name), word(by.How), addressIn(by.Address)
	if s.Name != "" && !l.verified {
		s.Master = "unverified " + s.Master
	}
	if by.Scope != "" {
		scope, _ := principal.ParseScope(by.Scope)
		s.Scope &= scope
	}
	if by.Targets != "" {
		s.Targets, _ = principal.ParseTargets(by.Targets) // none where that is not understood
	}
	return s
}

// addressIn is a peer's address as a master tells it; "" where that is none.
func addressIn(text string) string {
	if unixPeer.MatchString(text) {
		return text
	}
	client, err := netip.ParseAddrPort(text)
	if err != nil {
		return ""
	}
	return netip.AddrPortFrom(client.Addr().WithZone(""), client.Port()).String() // a zone may be any text
}

// word is a word as a master tells it; "" where it is none.
func word(text string) string {
	if !principal.IsWord(text) {
		return ""
	}
	return text
}

// RequestFor is Request for a client whose request is passed on to a peer that knows the field by.
func (l *Link) RequestFor(ctx context.Context, from *principal.Session, typ string, data any) (json.RawMessage, error) {
	by := &asker{Name: from.Name, How: from.How, Address: from.Address}
	if !from.Everything() {
		by.Scope = from.Scope.String()
	}
	if !from.All() {
		by.Targets = from.Targets.String()
	}
	return l.request(ctx, typ, by, data)
}

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
func (l *Link) answer(handler Handler, m message, from *principal.Session, stay *stay) {
	data, err := l.protected(handler, Request{Type: m.typ, Data: m.data, From: from, stay: stay})
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
	return Refusef("the answer is too long for a master: %d bytes of at most %d; ask for less, or ask the worker itself", bytes, serverAnswerLimit).
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

// Request is what a peer asks.
type Request struct {
	Type string
	Data json.RawMessage // nil where absent or null
	From *principal.Session

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

// What all links of a server together may take of the memory. What is short does not count, so that a
// peer that asks little never waits for those that ask much: a link has up to shortBytes of each kind
// for itself, its frame, its request and its answer.
const (
	shortBytes     = 64 << 10
	receivedBytes  = 192 << 20 // frames that come in, requests as their handlers read them
	answersBytes   = 128 << 20 // answers that leave; they never wait for what is asked, which may wait for them
	tidyBytes      = 8 << 20   // what was so long and is gone is given back to the system
	tidyAfter      = 10 * time.Second
	encodedAtOnce  = 4 // more would be no faster, and each takes several times the length of its answer
	memoryPatience = 5 * time.Second
)

// memory is what the links of one server share. Nil bounds nothing: that of a link that we made
// ourselves.
type memory struct {
	received, answers *semaphore.Weighted
	encoders          chan struct{} // one for each answer that is being encoded
	tidying           atomic.Bool
}

func newMemory() *memory {
	return &memory{
		received: semaphore.NewWeighted(receivedBytes),
		answers:  semaphore.NewWeighted(answersBytes),
		encoders: make(chan struct{}, encodedAtOnce),
	}
}

// tidy gives memory back that something long has taken: the runtime itself may keep it for minutes.
func (m *memory) tidy(bytes int64) {
	if bytes > tidyBytes && m.tidying.CompareAndSwap(false, true) {
		time.AfterFunc(tidyAfter, func() {
			m.tidying.Store(false)
			debug.FreeOSMemory()
		})
	}
}

// hold has the link hold as much of the server's memory as so many bytes need that it has received,
// more or less than before. One link may hold all, however much it wants. A peer is dismissed for
// which there is none in time.
func (l *Link) hold(bytes int) error {
	if l.memory == nil {
		return nil
	}
	if bytes <= shortBytes {
		bytes = 0
	}
	more := min(int64(bytes), receivedBytes) - l.held
	switch {
	case more > 0:
		ctx, cancel := context.WithTimeout(l.ctx, memoryPatience)
		defer cancel()
		if l.memory.received.Acquire(ctx, more) != nil {
			return l.dismissUnasked("too much is asked at once: try again")
		}
	case more < 0:
		l.memory.received.Release(-more)
		l.memory.tidy(-more)
	}
	l.held += more
	return nil
}

// holdFor turns what is held for a frame into what its request needs, and gives what gives it back.
func (l *Link) holdFor(weight int) (done func(), err error) {
	err = l.hold(weight)
	held := l.held
	if err != nil || held == 0 {
		return func() {}, err
	}
	l.held = 0
	return func() { l.memory.received.Release(held) }, nil
}

// reply encodes an answer and sends it. Only one of a link is on its way at a time; a long one is
// made when there is memory for it, and counts until it is written.
func (l *Link) reply(encode func() [][]byte) {
	select {
	case l.replying <- struct{}{}:
		defer func() { <-l.replying }()
	case <-l.Done():
		return // an answer that can't be sent any more is nobody's
	}
	frame := l.encoded(encode)
	if bytes := min(int64(length(frame)), answersBytes); l.memory != nil && bytes > shortBytes {
		if !l.memory.answers.TryAcquire(bytes) {
			frame = nil // it would be one more in memory: it is made again
			if l.memory.answers.Acquire(l.ctx, bytes) != nil {
				return
			}
			frame = l.encoded(encode)
		}
		defer l.memory.tidy(bytes)
		defer l.memory.answers.Release(bytes)
	}
	_ = l.send(l.ctx, frame...) // where it fails, the link has ended
}

func (l *Link) encoded(encode func() [][]byte) [][]byte {
	if l.memory != nil {
		l.memory.encoders <- struct{}{}
		defer func() { <-l.memory.encoders }()
	}
	return encode()
}

// refused is the frame that answers a request with the part of an error that its peer may see.
func (m message) refused(err error) []byte {
	text, _ := publicText(err)
	if !m.coded {
		return encodeError(m.no, text, "")
	}
	return encodeError(m.no, text, CodeOf(err))
}

// publicText is the part of a handler's error that its peer may see, and
// whether that is all there is to know.
func publicText(err error) (text string, whole bool) {
	var refusal Refusal
	if errors.As(err, &refusal) {
		return string(refusal), true
	}
	return string(refusedInternal), false
}
