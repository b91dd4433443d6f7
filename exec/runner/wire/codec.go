package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"time"

	"jobd/exec/runner/proc"
	"jobd/journal"
)

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
		c.texts(&m.Env)
	case Pools, Recycle:
		c.pools(m)
	default:
		c.id(&m.ID)
		c.job(m)
		c.token(m)
	}
}

func (c *codec) hello(m *Message) {
	number(c, &m.Version)
	c.text(&m.Instance)
	n := len(m.Jobs)
	if c.count(&n); c.reads && n > 0 {
		m.Jobs = make([]Job, n)
	}
	for i := range m.Jobs {
		c.id(&m.Jobs[i].ID)
		c.started(&m.Jobs[i].Started)
	}
	for i := range m.Jobs {
		if m.Instance != wordElapsed && c.more(true) { // a worker has none
			c.limits(&m.Jobs[i].Limit)
			c.text(&m.Jobs[i].ID.Token)
		}
	}
}

// job has the fields of a message about one job.
func (c *codec) job(m *Message) {
	switch m.Kind {
	case Start:
		c.texts(&m.Argv)
		c.text(&m.Dir)
		number(c, &m.MaxOutput)
		c.need(len(m.Argv) > 0 && m.MaxOutput >= 0)
	case Started:
		c.started(&m.Started)
	case Refused:
		c.text(&m.Text)
		number(c, &m.Class)
	case Signalled:
		c.text(&m.Text)
	case Signal:
		number(c, &m.Signo)
	case Ended, Output:
		c.started(&m.Started)
		c.done(m)
	case Peek, Peeked:
		if c.reads {
			m.Peek = &Glance{}
		}
		c.peek(m)
	case Fetch, Forget, Withdraw:
	default:
		c.need(false)
	}
}

func (c *codec) peek(m *Message) {
	if m.Kind == Peek {
		number(c, &m.Peek.From[0])
		number(c, &m.Peek.From[1])
		number(c, &m.Peek.Most)
		c.need(m.Peek.Most >= 0)
		return
	}
	c.text(&m.Text)
	for i := range m.Peek.Parts {
		p := &m.Peek.Parts[i]
		number(c, &p.At)
		number(c, &p.Size)
		c.bytes(&p.Bytes)
	}
}

// token has the token, what is said of limits, and of pools, where there is one.
func (c *codec) token(m *Message) {
	switch m.Kind {
	case Start:
		c.limits(&m.Limit)
	case Ended, Output:
		number(c, &m.Done.Timeout)
		c.need(m.Done.Timeout >= 0)
	}
	c.text(&m.ID.Token)
	if m.Kind == Start && c.more(m.Pool != "" || m.Account != nil) {
		c.text(&m.Pool)
		c.texts(&m.Vars)
		if c.more(m.Account != nil) {
			c.account(m)
		}
		c.need(m.Pool != "" || m.Account != nil)
	}
}

func (c *codec) account(m *Message) {
	if c.reads {
		m.Account = &proc.Account{}
	}
	a := m.Account
	c.text(&a.Name)
	number(c, &a.UID)
	number(c, &a.GID)
	n := len(a.Groups)
	if c.count(&n); c.reads {
		a.Groups = make([]uint32, n)
	}
	for i := range a.Groups {
		number(c, &a.Groups[i])
	}
}

// done has an outcome. The field of the exit code is one more than the code; 0: there is none.
func (c *codec) done(m *Message) {
	d, code, later := &m.Done, 0, 0
	if d.Code != nil {
		code = *d.Code + 1
	}
	if number(c, &code); c.reads && code > 0 {
		exit := code - 1
		d.Code = &exit
	}
	for _, text := range []*string{&d.Result, &d.Signal, &d.Reason, &d.Note} {
		c.text(text)
	}
	if m.Later {
		later = 1
	}
	number(c, &later)
	m.Later = later != 0
	for _, o := range []*journal.Output{&d.Stdout, &d.Stderr} {
		kept := len(o.Kept)
		number(c, &kept)
		number(c, &o.Size)
		c.need(kept >= 0 && (!c.reads || kept <= c.limit))
		if c.reads && !c.bad && !m.Later {
			o.Kept = make([]byte, kept)
		}
	}
	number(c, &d.Elapsed)
	c.need(d.Elapsed >= 0)
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

func (c *codec) id(id *ID) {
	number(c, &id.Job)
	number(c, &id.Attempt)
}

func (c *codec) limits(l *Limit) {
	for _, d := range []*time.Duration{&l.Timeout, &l.Kill} {
		number(c, d)
		c.need(*d >= 0)
	}
}

func (c *codec) started(s *journal.Started) {
	number(c, &s.Pid)
	number(c, &s.StartTime)
	c.text(&s.BootID)
}

func (c *codec) texts(list *[]string) {
	n := len(*list)
	if c.count(&n); c.reads {
		*list = make([]string, n)
	}
	for i := range *list {
		c.text(&(*list)[i])
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
