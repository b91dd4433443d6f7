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
	l.reply(func() [][]byte {
		frame, failed := [][]byte(nil), err
		if failed == nil {
			if frame, failed = encodeResponse(no, data); failed == nil {
				failed = l.tooLong(frame)
			}
			if failed == nil {
				return frame
			}
		}
		l.noteFailed(no, typ, failed)
		return [][]byte{errorFrame(no, coded, failed)}
	})
}

// tooLong tells that a master does not take an answer: it would close the link.
func (l *Link) tooLong(frame [][]byte) error {
	bytes := 0
	for _, part := range frame {
		bytes += len(part)
	}
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

// Caller is who asks for something. It is a plain value: what acts on a request needs to know no
// more of the connection over which it came.
type Caller struct {
	Client string // its address, host:port; "" where a master names nobody
	Master string // the address of the master over which it asks; "" where it asks by itself
}

// String names the caller as the journal does.
func (c Caller) String() string {
	switch {
	case c.Master == "":
		return c.Client
	case c.Client == "":
		return "master " + c.Master
	}
	return c.Client + " via master " + c.Master
}

// Caller is who sent a request over this link: the peer, or, where the link is one to a master that
// we chose (see LinkConfig), the client that the request's data names in the field by. A master
// that names nobody, as the original does, is named itself. Of all other peers the field is not
// read: a client must not speak for somebody else.
func (l *Link) Caller(data Fields) Caller {
	peer := l.conn.RemoteAddr().String()
	if !l.config.PeerIsMaster {
		return Caller{Client: peer}
	}
	by, _ := data.Text("by")
	client, err := netip.ParseAddrPort(by)
	if err != nil {
		return Caller{Master: peer}
	}
	client = netip.AddrPortFrom(client.Addr().WithZone(""), client.Port()) // a zone may be any text
	return Caller{Client: client.String(), Master: peer}
}

// gate counts the requests under way, of one link or of all links of a server, and lets no more in
// once it is shut. The zero value is open.
type gate struct {
	mu     sync.Mutex
	inside int
	isShut bool
	empty  chan struct{} // made by shut, closed when the last one has left
}

// enter tells whether one more request may begin; if so, leave must be called at its end.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isShut {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.isShut && g.inside == 0 {
		close(g.empty)
	}
}

// shut lets nobody in any more. The channel closes when nobody is inside.
func (g *gate) shut() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isShut {
		g.isShut = true
		g.empty = make(chan struct{})
		if g.inside == 0 {
			close(g.empty)
		}
	}
	return g.empty
}

// A link whose requests that wait for their turn are of more than waitingBytes is not read on. Each
// counts requestBytes more than its message.
const (
	waitingBytes = 64 << 10
	requestBytes = 512
)

// turns puts the requests of a link in a row: one begins when the one before it has given up its
// turn. A request that waits costs memory and no goroutine, so that a peer that sends a thousand at
// once takes nobody else's turn. The zero value is ready; it is safe for concurrent use.
type turns struct {
	mu      sync.Mutex
	taken   bool // a request has its turn
	waiting []turn
	backlog int           // bytes of waiting
	relief  chan struct{} // closed when backlog is within its limit; nil while it is
}

// turn is a request that waits.
type turn struct {
	bytes int
	begin func()
}

// take calls begin, which must not block, when the turn has come: at once, or by a later pass. The
// peer that sent the request of so many bytes must not be read before relief, unless that is nil.
func (t *turns) take(bytes int, begin func()) (relief <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.taken {
		t.taken = true
		begin()
		return nil
	}
	next := turn{bytes: bytes + requestBytes, begin: begin}
	t.waiting = append(t.waiting, next)
	t.backlog += next.bytes
	if t.backlog > waitingBytes && t.relief == nil {
		t.relief = make(chan struct{})
	}
	return t.relief
}

// pass gives the turn to the next request. The one that has it calls it once.
func (t *turns) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.taken, t.waiting = false, nil
		return
	}
	next := t.waiting[0]
	t.waiting[0] = turn{} // its message is not held any longer
	t.waiting = t.waiting[1:]
	t.backlog -= next.bytes
	if t.backlog <= waitingBytes && t.relief != nil {
		close(t.relief)
		t.relief = nil
	}
	next.begin()
}

// Request is what a peer asks.
type Request struct {
	no   int64
	Type string
	Data json.RawMessage // nil where absent or null

	coded bool  // the peer wants an error's code
	stay  *stay // nil: the request came over no link
}

// stay is what a request takes of its link and its server while it is under way.
type stay struct {
	once     sync.Once
	paid     func() // gives back what it takes of the memory until it is read
	turns    *turns
	answered []func() // called when its answer is on its way
}

// proceed lets the next request begin. Who lets others go on has read what it was asked.
func (s *stay) proceed() {
	s.once.Do(func() {
		s.paid()
		s.turns.pass()
	})
}

// end is called when the request has been answered.
func (s *stay) end() {
	s.proceed()
	for _, do := range s.answered {
		do()
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
// it.
func (r Request) OnAnswered(do func()) {
	if r.stay != nil {
		r.stay.answered = append(r.stay.answered, do)
	}
}

// Fields are the members of the request's data. They are read out of it at each call: who needs
// them twice keeps them.
func (r Request) Fields() Fields { return FieldsOf(r.Data) }
