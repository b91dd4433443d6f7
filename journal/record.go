package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"
)

// record is an event as it is stored: one row of the events table.
type record struct {
	seq            uint64
	micros         int64 // microseconds since 1970
	job            int64
	kind           Kind
	payload        []byte // JSON
	stdout, stderr []byte // of a done event
	hash           Hash
}

// encode is the event as a record, without its hash.
func encode(e Event) (record, error) {
	payload, err := json.Marshal(e.Payload)
	if err != nil {
		return record{}, fmt.Errorf("encode %s of job %d: %w", e.Kind(), e.Job, err)
	}
	r := record{
		seq: e.Seq, micros: e.Time.UnixMicro(), job: e.Job,
		kind: e.Kind(), payload: payload,
	}
	if done, ok := e.Payload.(Done); ok {
		r.stdout, r.stderr = done.Stdout.Kept, done.Stderr.Kept
	}
	return r, nil
}

// decode is the record as an event.
func (r *record) decode(p *payloads) (Event, error) {
	payload, err := p.decode(r)
	if err != nil {
		return Event{}, &DamagedError{Seq: r.seq, Detail: fmt.Sprintf("payload of kind %q", r.kind), Err: err}
	}
	return Event{
		Seq: r.seq, Time: time.UnixMicro(r.micros).UTC(), Job: r.job,
		Payload: payload, Hash: r.hash,
	}, nil
}

// size is about how many bytes the record takes on the disk and in memory.
func (r *record) size() int {
	return recordOverhead + len(r.payload) + len(r.stdout) + len(r.stderr)
}

const recordOverhead = 128

// chain is the record's hash where previous is the hash of the record before
// it: SHA-256 over previous and the canonical bytes, which are those of appendFixed, then
// stdout and stderr, each behind its length (four bytes, big endian).
func (r *record) chain(previous Hash) Hash {
	var small [1024]byte
	b := r.appendFixed(append(small[:0], previous[:]...))
	if len(r.stdout)+len(r.stderr) <= len(small)/2 {
		b = appendSized(b, r.stdout)
		return sha256.Sum256(appendSized(b, r.stderr))
	}
	sum := sha256.New()
	sum.Write(binary.BigEndian.AppendUint32(b, uint32(len(r.stdout))))
	sum.Write(r.stdout)
	sum.Write(binary.BigEndian.AppendUint32(nil, uint32(len(r.stderr))))
	sum.Write(r.stderr)
	var h Hash
	sum.Sum(h[:0])
	return h
}

// appendFixed appends what comes before the output in the canonical bytes: the sequence
// number, time and job (eight bytes each, big endian), then kind and payload, each behind its length.
func (r *record) appendFixed(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, r.seq)
	b = binary.BigEndian.AppendUint64(b, uint64(r.micros))
	b = binary.BigEndian.AppendUint64(b, uint64(r.job))
	b = appendSized(b, r.kind)
	return appendSized(b, r.payload)
}

func appendSized[T []byte | Kind](b []byte, value T) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// decodePayload reads the record's payload, of any form.
func (r *record) decodePayload() (Payload, error) {
	return DecodePayload(r.kind, r.payload, r.stdout, r.stderr)
}
