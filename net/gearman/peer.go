package gearman

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"jobd/net/principal"
)

// How long a peer may take: for the rest of a packet that has begun, with a second more for each slowBytes, and to
// take what it is sent. What it has not taken may be so much; more of it ends the connection.
const (
	patience   = 30 * time.Second
	slowBytes  = 1 << 20
	mostUntook = 64 << 20
	mostOfLine = 4 << 10 // bytes of a text command
)

// mostPending is how many submissions of a peer may be unanswered until no more is read from it.
const mostPending = 1024

// Peer is a connection: of a client, a worker, or both.
type Peer struct {
	server  *Server
	conn    net.Conn
	reader  *bufio.Reader
	number  int64 // shown in place of gearmand's descriptor
	session *principal.Session
	pending chan struct{} // holds one for each submission that is not answered
	ctx     context.Context
	leave   context.CancelFunc // ends ctx

	exceptions atomic.Bool // it wants WORK_EXCEPTION

	mu       sync.Mutex // of what is to be sent
	out      net.Buffers
	kept     []*hold // of what is in out
	untook   int     // short bytes in out, and on their way; long ones count in the server's memory
	flushing bool
	closed   bool
	flushed  chan struct{} // closed when nothing is on its way any more; nil: nobody waits for that

	worker // guarded by the server's mu
}

// Exceptions tells whether the peer wants to hear of exceptions; else they are failures to it.
func (p *Peer) Exceptions() bool { return p.exceptions.Load() }

// Context ends when the peer is gone; Intake.Left is called behind that.
func (p *Peer) Context() context.Context { return p.ctx }

// By is who the peer is, for the journal and the log.
func (p *Peer) By() string { return p.session.By() }

// Reaches tells whether the peer may ask about a function.
func (p *Peer) Reaches(function string) bool { return p.session.Targets.Reach(function) }

// Send sends a packet; it does not wait.
func (p *Peer) Send(kind Kind, args ...string) {
	p.put(func(to []byte) []byte { return begin(to, kind, args, -1) }, Payload{})
}

// SendPayload is Send for a packet whose last argument is a payload, which it keeps for as long as it needs it.
func (p *Peer) SendPayload(kind Kind, last Payload, args ...string) {
	p.put(func(to []byte) []byte { return begin(to, kind, args, len(last.Bytes)) }, last)
}

// say sends the answer to a text command.
func (p *Peer) say(text string) {
	p.put(func(to []byte) []byte { return append(to, text...) }, Payload{})
}

// put appends to what is to be sent. A short payload is copied, so that many answers are one write.
func (p *Peer) put(encode func([]byte) []byte, last Payload) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if p.untook > mostUntook {
		p.closeLocked(errors.New("it does not take what it is sent"))
		return
	}
	n := len(p.out)
	if n == 0 || len(p.out[n-1]) > shortBytes {
		p.out = append(p.out, make([]byte, 0, 512))
		n++
	}
	before := len(p.out[n-1])
	end := encode(p.out[n-1])
	if len(last.Bytes) <= shortBytes {
		end = append(end, last.Bytes...)
	}
	p.out[n-1] = end
	p.untook += len(end) - before
	if len(last.Bytes) > shortBytes {
		p.out = append(p.out, last.Bytes)
		if last.hold != nil {
			p.kept = append(p.kept, last.Keep().hold)
		}
	}
	if !p.flushing {
		p.flushing = true
		go p.flush()
	}
}

// flush writes until there is nothing more.
func (p *Peer) flush() {
	for {
		p.mu.Lock()
		out, kept, short := p.out, p.kept, p.untook
		p.out, p.kept = nil, nil
		if len(out) == 0 || p.closed {
			p.flushing = false
			if p.flushed != nil {
				close(p.flushed)
				p.flushed = nil
			}
			p.mu.Unlock()
			dropAll(kept)
			return
		}
		bytes := 0
		for _, b := range out {
			bytes += len(b)
		}
		p.mu.Unlock()
		_ = p.conn.SetWriteDeadline(time.Now().Add(timeFor(bytes)))
		_, err := out.WriteTo(p.conn)
		dropAll(kept)
		p.mu.Lock()
		p.untook -= short
		if err != nil {
			p.closeLocked(err)
		}
		p.mu.Unlock()
	}
}

func timeFor(bytes int) time.Duration { return patience + time.Duration(bytes/slowBytes)*time.Second }

func dropAll(kept []*hold) {
	for _, h := range kept {
		h.drop()
	}
}

// close ends the connection; nil: it has ended by itself.
func (p *Peer) close(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeLocked(why)
}

// closeLocked is close. Callers must hold p.mu.
func (p *Peer) closeLocked(why error) {
	if p.closed {
		return
	}
	p.closed = true
	kept := p.kept
	p.out, p.kept = nil, nil
	dropAll(kept)
	_ = p.conn.Close()
	if why != nil {
		p.server.Logger.Warn("a Gearman connection is closed", "peer", p.conn.RemoteAddr().String(), "reason", why)
	}
}

// drained waits until what was to be sent is sent, or can't be.
func (p *Peer) drained(limit time.Duration) {
	p.mu.Lock()
	if !p.flushing {
		p.mu.Unlock()
		return
	}
	if p.flushed == nil {
		p.flushed = make(chan struct{})
	}
	flushed := p.flushed
	p.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-flushed:
	case <-timer.C:
	}
}

// serve reads what the peer asks until the connection ends.
func (p *Peer) serve() {
	err := p.read(p.ctx)
	p.server.left(p)
	if errors.Is(err, io.EOF) { // it may take its answers still, as what nc has sent
		p.drained(partingTime)
		err = nil
	}
	if quiet := new(net.OpError); errors.As(err, &quiet) || errors.Is(err, net.ErrClosed) {
		err = nil
	}
	p.close(err)
}

// partingTime is how long a peer that says no more may take to take its answers.
const partingTime = 5 * time.Second

// read takes commands until one can't be taken any more.
func (p *Peer) read(ctx context.Context) error {
	for first := true; ; first = false {
		b, err := p.reader.Peek(1)
		if err != nil {
			return err
		}
		if first {
			if p.session, err = p.server.Know(p.conn); err != nil {
				return err
			}
			defer p.session.OnEnd(func() { p.close(errors.New("its credential is gone")) })()
		}
		_ = p.conn.SetReadDeadline(time.Now().Add(patience))
		if b[0] == 0 {
			err = p.readPacket(ctx)
		} else {
			err = p.readLine(ctx)
		}
		if err != nil {
			return err
		}
		_ = p.conn.SetReadDeadline(time.Time{})
	}
}

// readPacket takes one packet.
func (p *Peer) readPacket(ctx context.Context) error {
	h, err := readHead(p.reader, p.server.MaxPacket)
	if err != nil {
		if errors.Is(err, errLong) {
			p.refuse("ARGUMENT_TOO_LARGE", err.Error())
			p.drained(partingTime)
		}
		return err
	}
	held, err := take(ctx, p.server.memory, h.size)
	if err != nil {
		return err
	}
	defer held.drop()
	_ = p.conn.SetReadDeadline(time.Now().Add(timeFor(h.size)))
	body, err := readBody(p.reader, h.size)
	if err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return io.ErrUnexpectedEOF
		}
		return err
	}
	_ = p.conn.SetReadDeadline(time.Time{})
	is, known := requests[h.kind]
	if !h.asks {
		p.refuse("INVALID_MAGIC", "Request magic expected")
		return nil
	}
	if !known {
		p.refuse("INVALID_COMMAND", "Command not expected")
		return nil
	}
	args, err := split(body, is.args)
	if err != nil {
		p.refuse("INVALID_PACKET", err.Error())
		return nil
	}
	p.take(ctx, h.kind, args, held)
	return nil
}

// refuse answers with ERROR.
func (p *Peer) refuse(code, text string) { p.Send(Error, code, text) }

// readLine takes one text command.
func (p *Peer) readLine(ctx context.Context) error {
	line, err := p.reader.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return fmt.Errorf("a text command is longer than %d bytes", mostOfLine)
	}
	if err != nil {
		return err
	}
	_ = p.conn.SetReadDeadline(time.Time{})
	return p.command(ctx, string(line))
}
