package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/journal"
)

// How messages pass a socket: they are posted, encoded, read and decoded.

// Outbox holds messages on their way, so that a sender never waits for a slow reader. Its goroutine
// writes them, and what many post meanwhile goes out in one write. A message is encoded only when the
// socket takes it. What waits is a few messages for each job under way; nothing else bounds it.
type Outbox struct {
	conn    *net.UnixConn
	wake    chan struct{} // the goroutine has something to do
	written chan struct{} // closed when the goroutine has returned

	mu       sync.Mutex
	messages []Message
	closed   bool
	dead     bool // nothing can be written any more
}

// NewOutbox makes an outbox and starts its goroutine, which Close ends.
func NewOutbox(conn *net.UnixConn) *Outbox {
	o := &Outbox{conn: conn, wake: make(chan struct{}, 1), written: make(chan struct{})}
	go o.write()
	return o
}

// Post puts a message behind the others.
func (o *Outbox) Post(m Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.dead {
		o.messages = append(o.messages, m)
		o.ring()
	}
}

// ring wakes the goroutine.
func (o *Outbox) ring() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Close lets the goroutine return once it has written what there is.
func (o *Outbox) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.ring()
}

// Written is closed when the goroutine has returned after Close.
func (o *Outbox) Written() <-chan struct{} { return o.written }

// chunk is about how many bytes are written at a time, mostKept how many messages room is kept for.
const (
	chunk    = 64 << 10
	mostKept = 256
)

// write is the goroutine.
func (o *Outbox) write() {
	defer close(o.written)
	var buffer []byte
	for range o.wake {
		for {
			pieces, closed := o.next(buffer[:0])
			if buffer = pieces[0]; len(buffer) == 0 {
				if closed {
					return
				}
				break
			}
			if _, err := pieces.WriteTo(o.conn); err != nil {
				o.abandon(err)
			}
			if cap(buffer) > 4*chunk {
				buffer = nil
			}
		}
	}
}

// next encodes messages into a buffer, about a chunk of them, and gives the bytes to write now:
// these, and the output of the last message where it is large. It tells whether the outbox is closed,
// too.
func (o *Outbox) next(b []byte) (pieces net.Buffers, closed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, large := 0, [2][]byte{}
	for ; n < len(o.messages) && len(b) < chunk && len(large[0])+len(large[1]) == 0; n++ {
		m := &o.messages[n]
		b = m.encode(b)
		if m.Later {
			continue
		}
		if out, err := m.Done.Stdout.Kept, m.Done.Stderr.Kept; len(out)+len(err) > chunk/4 {
			large = [2][]byte{out, err}
		} else {
			b = append(append(b, out...), err...)
		}
	}
	if o.messages = slices.Delete(o.messages, 0, n); len(o.messages) == 0 && n > mostKept {
		o.messages = nil
	}
	return net.Buffers{b, large[0], large[1]}, o.closed
}

// abandon drops everything. If the peer is gone, reading goes on to the end of what it had sent;
// another error ends the connection.
func (o *Outbox) abandon(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dead, o.messages = true, nil
	if !errors.Is(err, unix.EPIPE) && !errors.Is(err, unix.ECONNRESET) {
		o.conn.Close()
	}
}

// Reader receives messages. It is for one goroutine.
type Reader struct {
	buffer *bufio.Reader
	body   bytes.Buffer
	codec  codec
}

// readBuffer is how much one read brings at most.
const readBuffer = 32 << 10

// mostBody bounds a message: an environment, or a list of all jobs.
const mostBody = 64 << 20

// NewReader makes a reader of what a peer sends.
func NewReader(socket io.Reader) *Reader {
	return &Reader{buffer: bufio.NewReaderSize(socket, readBuffer)}
}

// Next receives one message, with the output that follows it.
func (r *Reader) Next() (Message, error) {
	m, err := r.header()
	if err != nil || m.Later {
		return m, err
	}
	for _, o := range []*journal.Output{&m.Done.Stdout, &m.Done.Stderr} {
		if _, err := io.ReadFull(r.buffer, o.Kept); err != nil {
			return Message{}, fmt.Errorf("receive output: %w", err)
		}
	}
	return m, nil
}

func (r *Reader) header() (Message, error) {
	length, err := r.buffer.Peek(lengthBytes)
	if err != nil {
		return Message{}, err
	}
	size := int64(binary.LittleEndian.Uint32(length))
	if size > mostBody {
		return Message{}, fmt.Errorf("receive message of %d bytes: %w", size, ErrMalformed)
	}
	_, _ = r.buffer.Discard(lengthBytes) // they are there
	r.body.Reset()
	if _, err := io.CopyN(&r.body, r.buffer, size); err != nil { // it takes memory only as the bytes come
		return Message{}, err
	}
	m, err := r.codec.decode(r.body.Bytes(), math.MaxInt32)
	if r.body.Cap() > 4*readBuffer {
		r.body = bytes.Buffer{} // there are few that are so large
	}
	return m, err
}

// HungUp tells whether an error of reading says that the peer is gone, be it in the middle of a
// message.
func HungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.ECONNRESET)
}

// codec writes the fields of messages, or reads them: each field is named once, for both. What it has
// read once bad is set means nothing.
type codec struct {
	b     []byte // written so far, or still to be read
	reads bool
	limit int // of the output that a message may announce
	bad   bool
}

// encode appends a message to b, without the output that follows it.
func (m *Message) encode(b []byte) []byte {
	begin := len(b)
	c := codec{b: append(b, 0, 0, 0, 0, byte(m.Kind))}
	c.message(m)
	binary.LittleEndian.PutUint32(c.b[begin:], uint32(len(c.b)-begin-lengthBytes))
	return c.b
}

// decode is encode's inverse. It makes the buffers for the output that follows, for the caller to
// fill. A message that announces more output than limit is malformed.
func (c *codec) decode(body []byte, limit int) (Message, error) {
	if len(body) == 0 {
		return Message{}, ErrMalformed
	}
	c.b, c.reads, c.limit, c.bad = body[1:], true, limit, false
	m := Message{Kind: Kind(body[0])}
	if c.message(&m); c.bad || len(c.b) > 0 {
		return Message{}, ErrMalformed
	}
	return m, nil
}

func (c *codec) message(m *Message) {
	switch m.Kind {
	case Hello:
		c.hello(m)
	case Environment:
		c.fields(&m.Env)
	case Pools, Recycle:
		c.pools(m)
	default:
		c.fields(&m.ID.Job, &m.ID.Attempt)
		c.job(m)
	}
}

func (c *codec) hello(m *Message) {
	c.fields(&m.Version, &m.Instance)
	list(c, &m.Jobs, func(j *Job) { c.fields(&j.ID.Job, &j.ID.Attempt, &j.Started) })
	for i := range m.Jobs {
		if m.Instance != wordElapsed && c.more(true) { // a worker has none
			c.fields(&m.Jobs[i].Limit, &m.Jobs[i].ID.Token)
		}
	}
}

// job has the fields of a message about one job, behind its number and attempt. The token comes last, and
// behind it what is said of pools and accounts, and of what a job used, where that is known.
func (c *codec) job(m *Message) {
	if c.reads && (m.Kind == Peek || m.Kind == Peeked) {
		m.Peek = &Glance{}
	}
	switch m.Kind {
	case Start:
		c.fields(&m.Argv, &m.Dir, &m.MaxOutput, &m.Limit)
		c.need(len(m.Argv) > 0 && m.MaxOutput >= 0)
	case Started:
		c.fields(&m.Started)
	case Refused:
		c.fields(&m.Text)
		number(c, &m.Class)
	case Signalled:
		c.fields(&m.Text)
	case Signal:
		c.fields(&m.Signo)
	case Ended, Output:
		c.fields(&m.Started)
		c.done(m)
	case Peek:
		c.fields(&m.Peek.From[0], &m.Peek.From[1], &m.Peek.Most)
		c.need(m.Peek.Most >= 0)
	case Peeked:
		c.fields(&m.Text)
		for i := range m.Peek.Parts {
			p := &m.Peek.Parts[i]
			c.fields(&p.At, &p.Size, &p.Bytes)
		}
	case Fetch, Forget, Withdraw:
	default:
		c.need(false)
	}
	c.fields(&m.ID.Token)
	if (m.Kind == Ended || m.Kind == Output) && c.more(m.Done.CPU > 0 || m.Done.Memory > 0) {
		c.fields(&m.Done.CPU, &m.Done.Memory)
		c.need(m.Done.CPU >= 0 && m.Done.Memory >= 0)
	}
	if m.Kind != Start || !c.more(m.Pool != "" || m.Account != nil) {
		return
	}
	if c.fields(&m.Pool, &m.Vars); c.more(m.Account != nil) {
		if c.reads {
			m.Account = &proc.Account{}
		}
		c.fields(&m.Account.Name)
		number(c, &m.Account.UID)
		number(c, &m.Account.GID)
		list(c, &m.Account.Groups, func(group *uint32) { number(c, group) })
	}
	c.need(m.Pool != "" || m.Account != nil)
}

// done has an outcome. The field of the exit code is one more than the code; 0: there is none.
func (c *codec) done(m *Message) {
	d, code, later := &m.Done, 0, 0
	if d.Code != nil {
		code = *d.Code + 1
	}
	if m.Later {
		later = 1
	}
	c.fields(&code, &d.Result, &d.Signal, &d.Reason, &d.Note, &later)
	if m.Later = later != 0; c.reads && code > 0 {
		exit := code - 1
		d.Code = &exit
	}
	for _, o := range []*journal.Output{&d.Stdout, &d.Stderr} {
		kept := len(o.Kept)
		c.fields(&kept, &o.Size)
		c.need(kept >= 0 && (!c.reads || kept <= c.limit))
		if c.reads && !c.bad && !m.Later {
			o.Kept = make([]byte, kept)
		}
	}
	c.fields(&d.Elapsed, &d.Timeout)
	c.need(d.Elapsed >= 0 && d.Timeout >= 0)
}

// pooled is the body of messages about pools. They are rare, and their fields grow, so they stand in
// JSON: a reader passes over a field that it does not know.
type pooled struct {
	Wanted    []Pool     `json:"wanted,omitempty"`
	Standings []Standing `json:"standings,omitempty"`
	Notes     []Note     `json:"notes,omitempty"`
}

func (c *codec) pools(m *Message) {
	var body []byte
	var err error
	p := pooled{m.Wanted, m.Standings, m.Notes}
	if !c.reads {
		if body, err = json.Marshal(p); err != nil {
			panic("wire: " + err.Error()) // there is nothing in it that JSON can't say
		}
	}
	if c.bytes(&body); c.reads && !c.bad {
		c.need(json.Unmarshal(body, &p) == nil)
		m.Wanted, m.Standings, m.Notes = p.Wanted, p.Standings, p.Notes
	}
}

// fields have fields of the types that many messages have.
func (c *codec) fields(fields ...any) {
	for _, field := range fields {
		switch f := field.(type) {
		case *int:
			number(c, f)
		case *int64:
			number(c, f)
		case *string:
			c.text(f)
		case *[]byte:
			c.bytes(f)
		case *[]string:
			list(c, f, c.text)
		case *Limit:
			number(c, &f.Timeout)
			number(c, &f.Kill)
			c.need(f.Timeout >= 0 && f.Kill >= 0)
		case *journal.Started:
			number(c, &f.Pid)
			number(c, &f.StartTime)
			c.text(&f.BootID)
		}
	}
}

// list has things, behind how many they are.
func list[T any](c *codec, things *[]T, each func(*T)) {
	n := len(*things)
	if c.count(&n); c.reads {
		*things = make([]T, n)
	}
	for i := range *things {
		each(&(*things)[i])
	}
}

func (c *codec) text(s *string) {
	n := len(*s)
	if c.count(&n); !c.reads {
		c.b = append(c.b, *s...)
		return
	}
	*s, c.b = string(c.b[:n]), c.b[n:]
}

// bytes has bytes; what it has read is a copy.
func (c *codec) bytes(b *[]byte) {
	n := len(*b)
	if c.count(&n); !c.reads {
		c.b = append(c.b, *b...)
		return
	}
	*b, c.b = bytes.Clone(c.b[:n]), c.b[n:]
}

// count has how many things follow, each of which takes a byte at least.
func (c *codec) count(n *int) {
	if number(c, n); c.reads && (*n < 0 || *n > len(c.b)) {
		c.need(false)
		*n = 0
	}
}

// number has a number.
func number[N ~int | ~int64 | ~uint64 | ~uint32](c *codec, n *N) {
	if !c.reads {
		c.b = binary.AppendVarint(c.b, int64(*n))
		return
	}
	read, size := binary.Varint(c.b)
	if c.need(size > 0); c.bad {
		read, size = 0, len(c.b)
	}
	*n, c.b = N(read), c.b[size:]
}

// more tells whether more fields follow, which a peer may leave out.
func (c *codec) more(some bool) bool {
	if c.reads {
		return len(c.b) > 0
	}
	return some
}

// need notes what no peer sends.
func (c *codec) need(ok bool) {
	c.bad = c.bad || !ok && c.reads
}
