package runner

import (
	"encoding/binary"
	"errors"

	"jobd/journal"
)

// lengthBytes is what a message's length takes.
const lengthBytes = 4

// encode puts a message behind b, without the output that follows it.
func (m *message) encode(b []byte) []byte {
	begin := len(b)
	b = append(b, 0, 0, 0, 0, byte(m.Kind))
	switch m.Kind {
	case kindHello:
		b = m.encodeHello(b)
	case kindEnvironment:
		b = putStrings(b, m.Env)
	default:
		b = m.encodeJob(putID(b, m.ID))
	}
	binary.LittleEndian.PutUint32(b[begin:], uint32(len(b)-begin-lengthBytes))
	return b
}

func (m *message) encodeHello(b []byte) []byte {
	b = putInt(b, int64(m.Version))
	b = putString(b, m.Instance)
	b = putInt(b, int64(len(m.Jobs)))
	for _, p := range m.Jobs {
		b = putStarted(putID(b, p.ID), p.Started)
	}
	return b
}

// encodeJob puts the fields of messages about one job.
func (m *message) encodeJob(b []byte) []byte {
	switch m.Kind {
	case kindStart:
		return putInt(putString(putStrings(b, m.Argv), m.Dir), int64(m.MaxOutput))
	case kindStarted:
		return putStarted(b, m.Started)
	case kindRefused:
		return m.encodeRefusal(b)
	case kindSignalled:
		return putString(b, m.Text)
	case kindSignal:
		return putInt(b, int64(m.Signo))
	case kindEnded, kindOutput:
		return m.encodeDone(putStarted(b, m.Started))
	}
	return b
}

func (m *message) encodeRefusal(b []byte) []byte {
	b = putString(b, m.Text)
	if m.Class != 0 {
		b = putInt(b, int64(m.Class))
	}
	return b
}

// encodeDone puts an outcome. There is a code where its field is not 0: it is one more than that.
func (m *message) encodeDone(b []byte) []byte {
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
	if m.Timed {
		b = putInt(b, d.Elapsed)
	}
	return b
}

func putInt(b []byte, n int64) []byte { return binary.AppendVarint(b, n) }

func putString(b []byte, s string) []byte { return append(putInt(b, int64(len(s))), s...) }

func putStrings(b []byte, list []string) []byte {
	b = putInt(b, int64(len(list)))
	for _, s := range list {
		b = putString(b, s)
	}
	return b
}

func putID(b []byte, id id) []byte { return putInt(putInt(b, id.Job), int64(id.Attempt)) }

func putStarted(b []byte, s journal.Started) []byte {
	return putString(putInt(putInt(b, int64(s.Pid)), int64(s.StartTime)), s.BootID)
}

// errMalformed says that a message is not what encode makes.
var errMalformed = errors.New("malformed message")

// decoder takes a body apart. What it gives after an error means nothing.
type decoder struct {
	rest   []byte
	bad    bool
	bootID string // the last one, which is that of almost all messages
}

// decode is encode's inverse. Of the output that follows it makes the buffers, for the receiver to
// fill; there is none where more is announced than limit.
func (d *decoder) decode(body []byte, limit int) (message, error) {
	d.rest, d.bad = body, len(body) == 0
	if d.bad {
		return message{}, errMalformed
	}
	m := message{Kind: kind(body[0])}
	d.rest = body[1:]
	switch m.Kind {
	case kindHello:
		d.hello(&m)
	case kindEnvironment:
		m.Env = d.texts()
	default:
		m.ID = d.id()
		d.job(&m, limit)
	}
	if d.bad || len(d.rest) > 0 {
		return message{}, errMalformed
	}
	return m, nil
}

func (d *decoder) hello(m *message) {
	m.Version, m.Instance = int(d.int()), d.text()
	for range d.count() {
		m.Jobs = append(m.Jobs, process{d.id(), d.started()})
	}
}

func (d *decoder) job(m *message, limit int) {
	switch m.Kind {
	case kindStart:
		m.Argv, m.Dir, m.MaxOutput = d.texts(), d.text(), int(d.int())
		d.bad = d.bad || len(m.Argv) == 0 || m.MaxOutput < 0
	case kindStarted:
		m.Started = d.started()
	case kindRefused:
		if m.Text = d.text(); len(d.rest) > 0 {
			m.Class = class(d.int())
		}
	case kindSignalled:
		m.Text = d.text()
	case kindSignal:
		m.Signo = int(d.int())
	case kindEnded, kindOutput:
		m.Started = d.started()
		d.done(m, limit)
	case kindFetch, kindForget:
	default:
		d.bad = true
	}
}

func (d *decoder) done(m *message, limit int) {
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
	if m.Timed = len(d.rest) > 0; m.Timed {
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

// count is a number of things that each take a byte at least.
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

func (d *decoder) id() id { return id{d.int(), int(d.int())} }

func (d *decoder) started() journal.Started {
	s := journal.Started{Pid: int(d.int()), StartTime: uint64(d.int())}
	if b := d.bytes(); string(b) != d.bootID {
		d.bootID = string(b)
	}
	s.BootID = d.bootID
	return s
}
