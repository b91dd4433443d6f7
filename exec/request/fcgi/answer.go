package fcgi

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// Record is a piece of an answer.
type Record struct {
	Type    Type   // Stdout, Stderr or EndRequest
	Content []byte // valid until the next record is read
}

// Reader reads the records of an answer.
type Reader struct {
	from    io.Reader
	content []byte
}

// NewReader makes one that reads from a connection, and no further than each record goes.
func NewReader(from io.Reader) *Reader { return &Reader{from: from} }

// Next reads a record. When the connection ends the error is io.EOF between two records, and
// io.ErrUnexpectedEOF within one; then the content is what came of it.
func (r *Reader) Next() (Record, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(r.from, head[:]); err != nil {
		return Record{}, err
	}
	record := Record{Type: Type(head[1])}
	if err := check(head); err != nil {
		return record, err
	}
	length, padding := int(binary.BigEndian.Uint16(head[4:])), int(head[6])
	r.content = slices.Grow(r.content[:0], length+padding)[:length+padding]
	n, err := io.ReadFull(r.from, r.content)
	record.Content = r.content[:min(n, length)]
	if err != nil {
		return record, io.ErrUnexpectedEOF
	}
	return record, nil
}

// check tells whether a record's head can be part of the answer.
func check(head [headSize]byte) error {
	id := binary.BigEndian.Uint16(head[2:])
	switch of := Type(head[1]); {
	case head[0] != version:
		return fmt.Errorf("the answer is none of FastCGI: a record of version %d", head[0])
	case id != requestID:
		return fmt.Errorf("the answer is none of FastCGI: a record about request %d", id)
	case of != Stdout && of != Stderr && of != EndRequest:
		return fmt.Errorf("the answer is none of FastCGI: a record of type %d", of)
	}
	return nil
}

// End is what an EndRequest says.
type End struct {
	App      uint32 // the status of the application, which each server has its own notion of
	Protocol uint8  // Complete, or why the request was refused
}

// Complete is the Protocol of a request that was not refused.
const Complete = 0

// refusals are the other ones.
var refusals = map[uint8]string{1: "FCGI_CANT_MPX_CONN", 2: "FCGI_OVERLOADED", 3: "FCGI_UNKNOWN_ROLE"}

// Refusal names why the request was refused.
func (e End) Refusal() string {
	if name, known := refusals[e.Protocol]; known {
		return name
	}
	return fmt.Sprintf("protocol status %d", e.Protocol)
}

// End reads the content of an EndRequest.
func (r Record) End() (End, error) {
	if r.Type != EndRequest || len(r.Content) < endSize {
		return End{}, fmt.Errorf("the answer is none of FastCGI: an end of the request with %d bytes", len(r.Content))
	}
	return End{App: binary.BigEndian.Uint32(r.Content), Protocol: r.Content[4]}, nil
}
