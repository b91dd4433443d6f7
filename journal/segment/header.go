package segment

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"jobd/journal"
)

// Header is what a segment opens with. Its hash is the link between the last event of the
// segment before and its own first event.
type Header struct {
	Number     int          // 1, 2, 3, …
	First      uint64       // the sequence number of its first event, whether or not there is one yet
	Previous   journal.Hash // of the event before the first; zero where there is none
	Checkpoint []byte       // the state before the first event, see encodeCheckpoint
}

// Opening is the hash that the segment's first event covers as the one before it: SHA-256 over the
// header's bytes.
func (h Header) Opening() journal.Hash { return sha256.Sum256(h.bytes()) }

const headerFixed = 8 + 8 + len(journal.Hash{})

// bytes is number and first (eight bytes each, big endian), the previous hash and the checkpoint.
func (h Header) bytes() []byte {
	b := make([]byte, 0, headerFixed+len(h.Checkpoint))
	b = binary.BigEndian.AppendUint64(b, uint64(h.Number))
	b = binary.BigEndian.AppendUint64(b, h.First)
	b = append(b, h.Previous[:]...)
	return append(b, h.Checkpoint...)
}

// parseHeader is the reverse of bytes.
func parseHeader(b []byte) (Header, error) {
	if len(b) < headerFixed {
		return Header{}, &journal.DamagedError{Detail: "a segment's header is too short"}
	}
	h := Header{
		Number: int(binary.BigEndian.Uint64(b)), First: binary.BigEndian.Uint64(b[8:]),
		Checkpoint: b[headerFixed:],
	}
	copy(h.Previous[:], b[16:])
	return h, nil
}

// Link is the hash that the event after seq covers, where hash is that of seq itself.
func (h Header) Link(seq uint64, hash journal.Hash) journal.Hash {
	if seq+1 == h.First {
		return h.Opening()
	}
	return hash
}

// State is what held before the segment's first event.
func (h Header) State() (*journal.State, error) {
	s, err := journal.DecodeCheckpoint(h.Checkpoint)
	if err != nil {
		return nil, &journal.DamagedError{Seq: h.First, Detail: fmt.Sprintf("the checkpoint of segment %d is not readable", h.Number), Err: err}
	}
	s.Seq, s.Hash = h.First-1, h.Previous
	return s, nil
}

// NewHeader is the header of the segment that follows a state.
func NewHeader(number int, s *journal.State) (Header, error) {
	checkpoint, err := journal.EncodeCheckpoint(s)
	if err != nil {
		return Header{}, err
	}
	return Header{Number: number, First: s.Seq + 1, Previous: s.Hash, Checkpoint: checkpoint}, nil
}
