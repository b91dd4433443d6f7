package wire

import (
	"bytes"
	"encoding/binary"
	"time"

	"jobd/journal"
)

// encode appends a message to b, without the output that follows it.
func (m *Message) encode(b []byte) []byte {
	begin := len(b)
	b = append(b, 0, 0, 0, 0, byte(m.Kind))
	switch m.Kind {
	case Hello:
		b = m.encodeHello(b)
	case Environment:
		b = putStrings(b, m.Env)
	case Pools, Recycle:
		b = m.encodePools(b)
	default:
		b = m.encodeToken(m.encodeJob(putID(b, m.ID)))
	}
	binary.LittleEndian.PutUint32(b[begin:], uint32(len(b)-begin-lengthBytes))
	return b
}

func (m *Message) encodeHello(b []byte) []byte {
	b = putInt(b, int64(m.Version))
	b = putString(b, m.Instance)
	b = putInt(b, int64(len(m.Jobs)))
	for _, p := range m.Jobs {
		b = putStarted(putID(b, p.ID), p.Started)
	}
	if m.Tokens {
		for _, p := range m.Jobs {
			b = putString(putLimit(b, p.Limit), p.ID.Token)
		}
	}
	return b
}

// encodeJob appends the fields of a message about one job.
func (m *Message) encodeJob(b []byte) []byte {
	switch m.Kind {
	case Start:
		return putInt(putString(putStrings(b, m.Argv), m.Dir), int64(m.MaxOutput))
	case Started:
		return putStarted(b, m.Started)
	case Refused:
		return m.encodeRefusal(b)
	case Signalled:
		return putString(b, m.Text)
	case Signal:
		return putInt(b, int64(m.Signo))
	case Ended, Output:
		return m.encodeDone(putStarted(b, m.Started))
	case Peek:
		return putInt(putInt(putInt(b, m.Peek.From[0]), m.Peek.From[1]), int64(m.Peek.Most))
	case Peeked:
		b = putString(b, m.Text)
		for _, p := range m.Peek.Parts {
			b = putBytes(putInt(putInt(b, p.At), p.Size), p.Bytes)
		}
	}
	return b
}

// encodeToken appends, to one who understands them, the token and what is said of limits.
func (m *Message) encodeToken(b []byte) []byte {
	if !m.Tokens {
		return b
	}
	switch m.Kind {
	case Start:
		b = putLimit(b, m.Limit)
	case Ended, Output:
		b = putInt(b, m.Done.Timeout)
	}
	b = putString(b, m.ID.Token)
	if m.Kind == Start && m.Pool != "" {
		b = putStrings(putString(b, m.Pool), m.Vars)
	}
	return b
}

func (m *Message) encodeRefusal(b []byte) []byte {
	b = putString(b, m.Text)
	if m.Class != 0 || m.Tokens {
		b = putInt(b, int64(m.Class))
	}
	return b
}

// encodeDone appends an outcome. The field of the exit code is one more than the code; 0: there is
// none.
func (m *Message) encodeDone(b []byte) []byte {
	d := &m.Done
	code := int64(0)
	if d.Code != nil {
		code = int64(*d.Code) + 1
	}
	b = putInt(b, code)
	for _, text := range []string{d.Result, d.Signal, d.Reason, d.Note} {
		b = putString(b, text)
	}
	later := int64(0)
	if m.Later {
		later = 1
	}
	b = putInt(b, later)
	for _, o := range []journal.Output{d.Stdout, d.Stderr} {
		b = putInt(putInt(b, int64(len(o.Kept))), o.Size)
	}
	if m.Tokens {
		b = putInt(b, d.Elapsed)
	}
	return b
}

func putInt(b []byte, n int64) []byte { return binary.AppendVarint(b, n) }

func putString(b []byte, s string) []byte { return append(putInt(b, int64(len(s))), s...) }

func putBytes(b, bytes []byte) []byte { return append(putInt(b, int64(len(bytes))), bytes...) }

func putStrings(b []byte, list []string) []byte {
	b = putInt(b, int64(len(list)))
	for _, s := range list {
		b = putString(b, s)
	}
	return b
}

func putID(b []byte, id ID) []byte { return putInt(putInt(b, id.Job), int64(id.Attempt)) }

func putLimit(b []byte, l Limit) []byte { return putInt(putInt(b, int64(l.Timeout)), int64(l.Kill)) }

func putStarted(b []byte, s journal.Started) []byte {
	return putString(putInt(putInt(b, int64(s.Pid)), int64(s.StartTime)), s.BootID)
}

// decoder reads the fields of one body after the other. What its methods return once bad is set
// means nothing.
type decoder struct {
	rest   []byte
	bad    bool
	bootID string // the last one: almost all messages have the same, and share this string
}

// decode is encode's inverse. It makes the buffers for the output that follows, for the caller to
// fill. A message that announces more output than limit is malformed.
func (d *decoder) decode(body []byte, limit int) (Message, error) {
	d.rest, d.bad = body, len(body) == 0
	if d.bad {
		return Message{}, ErrMalformed
	}
	m := Message{Kind: Kind(body[0])}
	d.rest = body[1:]
	switch m.Kind {
	case Hello:
		d.hello(&m)
	case Environment:
		m.Env = d.texts()
	case Pools, Recycle:
		d.pools(&m)
	default:
		m.ID = d.id()
		d.job(&m, limit)
		d.token(&m)
	}
	if d.bad || len(d.rest) > 0 {
		return Message{}, ErrMalformed
	}
	return m, nil
}

func (d *decoder) hello(m *Message) {
	m.Version, m.Instance = int(d.int()), d.text()
	for range d.count() {
		m.Jobs = append(m.Jobs, Job{ID: d.id(), Started: d.started()})
	}
	if m.Tokens = len(d.rest) > 0; m.Tokens {
		for i := range m.Jobs {
			m.Jobs[i].Limit, m.Jobs[i].ID.Token = d.limit(), d.text()
		}
	}
}

// token reads what a peer says of tokens and limits that understands them.
func (d *decoder) token(m *Message) {
	if m.Tokens = len(d.rest) > 0; !m.Tokens {
		return
	}
	switch m.Kind {
	case Start:
		m.Limit = d.limit()
	case Ended, Output:
		m.Done.Timeout = d.int()
		d.bad = d.bad || m.Done.Timeout < 0
	}
	m.ID.Token = d.text()
	if m.Kind == Start && len(d.rest) > 0 {
		m.Pool, m.Vars = d.text(), d.texts()
		d.bad = d.bad || m.Pool == ""
	}
}

func (d *decoder) limit() Limit {
	l := Limit{Timeout: time.Duration(d.int()), Kill: time.Duration(d.int())}
	d.bad = d.bad || l.Timeout < 0 || l.Kill < 0
	return l
}

func (d *decoder) job(m *Message, limit int) {
	switch m.Kind {
	case Start:
		m.Argv, m.Dir, m.MaxOutput = d.texts(), d.text(), int(d.int())
		d.bad = d.bad || len(m.Argv) == 0 || m.MaxOutput < 0
	case Started:
		m.Started = d.started()
	case Refused:
		if m.Text = d.text(); len(d.rest) > 0 {
			m.Class = Class(d.int())
		}
	case Signalled:
		m.Text = d.text()
	case Signal:
		m.Signo = int(d.int())
	case Ended, Output:
		m.Started = d.started()
		d.done(m, limit)
	case Peek:
		m.Peek = &Glance{From: [2]int64{d.int(), d.int()}, Most: int(d.int())}
		d.bad = d.bad || m.Peek.Most < 0
	case Peeked:
		m.Text, m.Peek = d.text(), &Glance{}
		for i := range m.Peek.Parts {
			m.Peek.Parts[i] = Part{At: d.int(), Size: d.int(), Bytes: bytes.Clone(d.bytes())}
		}
	case Fetch, Forget, Withdraw:
	default:
		d.bad = true
	}
}

func (d *decoder) done(m *Message, limit int) {
	if code := int(d.int()) - 1; code >= 0 {
		m.Done.Code = &code
	}
	for _, text := range []*string{&m.Done.Result, &m.Done.Signal, &m.Done.Reason, &m.Done.Note} {
		*text = d.text()
	}
	m.Later = d.int() != 0
	for _, o := range []*journal.Output{&m.Done.Stdout, &m.Done.Stderr} {
		kept := d.int()
		o.Size = d.int()
		if kept < 0 || kept > int64(limit) {
			d.bad = true
		}
		if !d.bad && !m.Later {
			o.Kept = make([]byte, kept)
		}
	}
	if len(d.rest) > 0 {
		m.Done.Elapsed = d.int()
		d.bad = d.bad || m.Done.Elapsed < 0
	}
}

func (d *decoder) int() int64 {
	n, size := binary.Varint(d.rest)
	if size <= 0 {
		d.bad, d.rest = true, nil
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

// count reads how many things follow, each of which takes a byte at least.
func (d *decoder) count() int {
	n := d.int()
	if n < 0 || n > int64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return 0
	}
	return int(n)
}

func (d *decoder) bytes() []byte {
	n := d.count()
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) text() string { return string(d.bytes()) }

func (d *decoder) texts() []string {
	list := make([]string, d.count())
	for i := range list {
		list[i] = d.text()
	}
	return list
}

func (d *decoder) id() ID { return ID{Job: d.int(), Attempt: int(d.int())} }

func (d *decoder) started() journal.Started {
	s := journal.Started{Pid: int(d.int()), StartTime: uint64(d.int())}
	if b := d.bytes(); string(b) != d.bootID {
		d.bootID = string(b)
	}
	s.BootID = d.bootID
	return s
}
