package segment

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"jobd/journal"
)

// Record is an event as it is stored: one row of the events table.
type Record struct {
	Seq            uint64
	Micros         int64 // microseconds since 1970
	Job            int64
	Kind           journal.Kind
	Payload        []byte // JSON
	Stdout, Stderr []byte // of a done event
	Hash           journal.Hash
}

// Encode is the event as a record, without its hash.
func Encode(e journal.Event) (Record, error) {
	payload, err := json.Marshal(e.Payload)
	if err != nil {
		return Record{}, fmt.Errorf("encode %s of job %d: %w", e.Kind(), e.Job, err)
	}
	r := Record{
		Seq: e.Seq, Micros: e.Time.UnixMicro(), Job: e.Job,
		Kind: e.Kind(), Payload: payload,
	}
	if done, ok := e.Payload.(journal.Done); ok {
		r.Stdout, r.Stderr = done.Stdout.Kept, done.Stderr.Kept
	}
	return r, nil
}

// Decode is the record as an event.
func (r *Record) Decode(p *Decoder) (journal.Event, error) {
	payload, err := p.decode(r)
	if err != nil {
		return journal.Event{}, &journal.DamagedError{Seq: r.Seq, Detail: fmt.Sprintf("payload of kind %q", r.Kind), Err: err}
	}
	return journal.Event{
		Seq: r.Seq, Time: r.Time(), Job: r.Job,
		Payload: payload, Hash: r.Hash,
	}, nil
}

// Time is when the event happened.
func (r *Record) Time() time.Time { return time.UnixMicro(r.Micros).UTC() }

// size is about how many bytes the record takes on the disk and in memory.
func (r *Record) size() int {
	return recordOverhead + len(r.Payload) + len(r.Stdout) + len(r.Stderr)
}

const recordOverhead = 128

// Chain is the record's hash where previous is the hash of the record before
// it: SHA-256 over previous and the canonical bytes, which are those of appendFixed, then
// stdout and stderr, each behind its length (four bytes, big endian).
func (r *Record) Chain(previous journal.Hash) journal.Hash {
	var small [1024]byte
	b := r.appendFixed(append(small[:0], previous[:]...))
	if len(r.Stdout)+len(r.Stderr) <= len(small)/2 {
		b = appendSized(b, r.Stdout)
		return sha256.Sum256(appendSized(b, r.Stderr))
	}
	sum := sha256.New()
	sum.Write(binary.BigEndian.AppendUint32(b, uint32(len(r.Stdout))))
	sum.Write(r.Stdout)
	sum.Write(binary.BigEndian.AppendUint32(nil, uint32(len(r.Stderr))))
	sum.Write(r.Stderr)
	var h journal.Hash
	sum.Sum(h[:0])
	return h
}

// appendFixed appends what comes before the output in the canonical bytes: the sequence number,
// time and job (eight bytes each, big endian), then kind and payload, each behind its length.
func (r *Record) appendFixed(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, r.Seq)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Micros))
	b = binary.BigEndian.AppendUint64(b, uint64(r.Job))
	b = appendSized(b, r.Kind)
	return appendSized(b, r.Payload)
}

func appendSized[T []byte | journal.Kind](b []byte, value T) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// DecodePayload reads the record's payload, of any form.
func (r *Record) DecodePayload() (journal.Payload, error) {
	return journal.DecodePayload(r.Kind, r.Payload, r.Stdout, r.Stderr)
}
