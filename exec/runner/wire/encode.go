package wire

import (
	"encoding/binary"

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
