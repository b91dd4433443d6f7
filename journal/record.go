package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
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
func (r record) decode() (Event, error) {
	payload, err := r.decodePayload()
	if err != nil {
		return Event{}, &DamagedError{Seq: r.seq, Detail: fmt.Sprintf("payload of kind %q", r.kind), Err: err}
	}
	return Event{
		Seq: r.seq, Time: time.UnixMicro(r.micros).UTC(), Job: r.job,
		Payload: payload, Hash: r.hash,
	}, nil
}

// chain is the record's hash where previous is the hash of the record before
// it: SHA-256 over previous and the canonical bytes, which are the sequence number,
// time and job (eight bytes each, big endian), then kind, payload, stdout and stderr, each
// behind its length (four bytes, big endian).
func (r record) chain(previous Hash) Hash {
	sum := sha256.New()
	sum.Write(previous[:])
	var fixed [24]byte
	binary.BigEndian.PutUint64(fixed[0:], r.seq)
	binary.BigEndian.PutUint64(fixed[8:], uint64(r.micros))
	binary.BigEndian.PutUint64(fixed[16:], uint64(r.job))
	sum.Write(fixed[:])
	writeSized(sum, []byte(r.kind))
	writeSized(sum, r.payload)
	writeSized(sum, r.stdout)
	writeSized(sum, r.stderr)
	var h Hash
	sum.Sum(h[:0])
	return h
}

func writeSized(sum hash.Hash, b []byte) {
	var size [4]byte
	binary.BigEndian.PutUint32(size[:], uint32(len(b)))
	sum.Write(size[:])
	sum.Write(b)
}

func (r record) decodePayload() (Payload, error) {
	switch r.kind {
	case KindAccepted:
		return payloadOf[Accepted](r.payload)
	case KindIgnored:
		return payloadOf[Ignored](r.payload)
	case KindReleased:
		return payloadOf[Released](r.payload)
	case KindRunning:
		return payloadOf[Running](r.payload)
	case KindStarted:
		return payloadOf[Started](r.payload)
	case KindSignal:
		return payloadOf[Signal](r.payload)
	case KindDone:
		done, err := payloadOf[Done](r.payload)
		done.Stdout.Kept, done.Stderr.Kept = r.stdout, r.stderr
		return done, err
	case KindConflict:
		return payloadOf[Conflict](r.payload)
	case KindOpened:
		return payloadOf[Opened](r.payload)
	case KindClosed:
		return payloadOf[Closed](r.payload)
	case KindPaused:
		return payloadOf[Paused](r.payload)
	case KindContinued:
		return payloadOf[Continued](r.payload)
	case KindTargetAdded:
		return payloadOf[TargetAdded](r.payload)
	case KindTargetRemoved:
		return payloadOf[TargetRemoved](r.payload)
	case KindConcurrencySet:
		return payloadOf[ConcurrencySet](r.payload)
	}
	return nil, fmt.Errorf("unknown kind")
}

func payloadOf[P Payload](data []byte) (P, error) {
	var p P
	err := json.Unmarshal(data, &p)
	return p, err
}
