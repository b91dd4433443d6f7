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

	"golang.org/x/sync/semaphore"

	"jobd/net/principal"
)

// How long a peer may take: for the rest of a packet that has begun, with a second more for each slowBytes, and to
// take what it is sent. While that takes of the memory of all, each stepBytes have a time of their own, too, so that
// a peer that has stopped holds the memory for seconds.
const (
	patience   = 30 * time.Second
	slowBytes  = 1 << 20
	stepBytes  = 256 << 10
	readStep   = 5 * time.Second
	writeStep  = 10 * time.Second
	mostOfLine = 4 << 10 // bytes of a text command
)

// mostUntook is how many bytes for a peer count for nothing while it has not taken them. What is more counts in the
// memory of all; where that has none left, the connection ends.
const mostUntook = 1 << 20

// mostPending is how much of a peer may be unanswered until no more is read from it: a submission weighs 1, and 1
// for each pendingBytes of it that do not count in the memory of all.
const (
	mostPending  = 1024
	pendingBytes = 1 << 10
)

// Peer is a connection: of a client, a worker, or both.
type Peer struct {
	server  *Server
	conn    net.Conn
	reader  *bufio.Reader
	number  int64 // shown in place of gearmand's descriptor
	session *principal.Session
	pending *semaphore.Weighted // what submissions weigh that are not answered
	ctx     context.Context
	leave   context.CancelFunc // ends ctx

	exceptions atomic.Bool // it wants WORK_EXCEPTION

	mu       sync.Mutex // of what is to be sent
	out      net.Buffers
	kept     []*hold // of what is in out
	untook   int     // bytes in out, and on their way, but for payloads that count in the server's memory
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
	crowded := p.untook > mostUntook
	before := p.untook
	n := len(p.out)
	if n == 0 || len(p.out[n-1]) > shortBytes {
		p.out = append(p.out, make([]byte, 0, 512))
		n++
	}
	had := len(p.out[n-1])
	end := encode(p.out[n-1])
	if len(last.Bytes) <= shortBytes {
		end = append(end, last.Bytes...)
	}
	p.out[n-1] = end
	p.untook += len(end) - had
	if len(last.Bytes) > shortBytes {
		p.out = append(p.out, last.Bytes)
		if last.hold != nil {
			p.kept = append(p.kept, last.Keep().hold)
		} else {
			p.untook += len(last.Bytes)
		}
	}
	if crowded {
		h := p.server.memory.tryTake(p.untook - before)
		if h == nil {
			p.closeLocked(errors.New("it does not read what it is sent"))
			return
		}
		p.kept = append(p.kept, h)
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
		step := patience
		if len(kept) > 0 {
			step = writeStep
		}
		var err error
		for whole := time.Now().Add(timeFor(bytes)); len(out) > 0 && err == nil; {
			some := cut(&out, stepBytes)
			_ = p.conn.SetWriteDeadline(within(step, whole))
			_, err = some.WriteTo(p.conn)
		}
		dropAll(kept)
		p.mu.Lock()
		p.untook -= short
		if err != nil {
			p.closeLocked(err)
		}
		p.mu.Unlock()
	}
}

// cut takes so many bytes from the beginning of what is to be written.
func cut(out *net.Buffers, most int) (some net.Buffers) {
	for len(*out) > 0 && most > 0 {
		first := (*out)[0]
		n := min(len(first), most)
		some, most = append(some, first[:n]), most-n
		if (*out)[0] = first[n:]; n == len(first) {
			*out = (*out)[1:]
		}
	}
	return some
}

// within is when a step ends of what has a whole time, too.
func within(step time.Duration, whole time.Time) time.Time {
	if end := time.Now().Add(step); end.Before(whole) {
		return end
	}
	return whole
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

// errBegin ends the connection of somebody else's protocol, as TLS where it is not offered, or HTTP.
var errBegin = errors.New("it begins neither with a packet nor with a text command")

// read takes commands until one can't be taken any more.
func (p *Peer) read(ctx context.Context) error {
	for first := true; ; first = false {
		b, err := p.reader.Peek(1)
		if err != nil {
			return err
		}
		if first {
			if b[0] != 0 && b[0] != ' ' && (b[0] < 'a' || b[0] > 'z') {
				return errBegin
			}
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
	var held *hold
	defer func() { held.drop() }()
	var whole time.Time
	body, err := readBody(p.reader, h.size, func() (err error) {
		if held == nil { // the beginning is there: it means to send the rest
			if held, err = p.server.memory.take(ctx, h.size); err != nil {
				return err
			}
			whole = time.Now().Add(timeFor(h.size))
		}
		return p.conn.SetReadDeadline(within(readStep, whole))
	})
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

// refuse answers what was read last with ERROR.
func (p *Peer) refuse(code, text string) {
	p.answered()
	p.Send(Error, code, text)
}

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
	command := string(line)
	p.answered()
	return p.command(ctx, command)
}
