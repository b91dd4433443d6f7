// Package fcgi is the record format of FastCGI, as far as a client needs it: one request over one
// connection, and its answer.
//
//	Request ─► BEGIN_REQUEST  PARAMS…  PARAMS(empty)  STDIN(empty)
//	Reader  ◄─ STDOUT…  STDERR…  END_REQUEST
//
// A record is a head of 8 bytes, up to 65,535 bytes of content, and up to 255 of padding:
//
//	version 1 | type | request id, 2 bytes | content's length, 2 bytes | padding's length | 0
//
// The package knows no connections and no jobs. What a peer sends is checked for being an answer to the
// one request that was sent, and nothing of it is kept beyond a record.
package fcgi

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// Type is what a record has.
type Type uint8

// The types that there are in a request and its answer.
const (
	BeginRequest Type = 1
	EndRequest   Type = 3
	Params       Type = 4
	Stdin        Type = 5
	Stdout       Type = 6
	Stderr       Type = 7
)

const (
	version   = 1
	requestID = 1 // of the one request that a connection has
	responder = 1 // the role: it answers a request
	headSize  = 8
	endSize   = 8         // of the content of an EndRequest
	most      = 1<<16 - 1 // bytes of content
)

// Param is what a request tells its script by a name.
type Param struct{ Name, Value string }

// Request is a request without a body, after which the server closes the connection.
func Request(params []Param) []byte {
	var pairs []byte
	for _, p := range params {
		pairs = appendLength(pairs, len(p.Name))
		pairs = appendLength(pairs, len(p.Value))
		pairs = append(append(pairs, p.Name...), p.Value...)
	}
	b := appendRecord(nil, BeginRequest, []byte{0, responder, 0, 0, 0, 0, 0, 0})
	for len(pairs) > 0 {
		n := min(len(pairs), most)
		b = appendRecord(b, Params, pairs[:n])
		pairs = pairs[n:]
	}
	b = appendRecord(b, Params, nil)
	return appendRecord(b, Stdin, nil)
}

// appendLength appends the length of a name or a value: in a byte, or in four of which the first is
// above 127.
func appendLength(b []byte, n int) []byte {
	if n < 1<<7 {
		return append(b, byte(n))
	}
	return binary.BigEndian.AppendUint32(b, uint32(n)|1<<31)
}

func appendRecord(b []byte, of Type, content []byte) []byte {
	b = append(b, version, byte(of), 0, requestID)
	b = binary.BigEndian.AppendUint16(b, uint16(len(content)))
	b = append(b, 0, 0)
	return append(b, content...)
}

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
		return fmt.Errorf("the answer is not FastCGI: a record of version %d", head[0])
	case id != requestID:
		return fmt.Errorf("the answer is not FastCGI: a record about request %d", id)
	case of != Stdout && of != Stderr && of != EndRequest:
		return fmt.Errorf("the answer is not FastCGI: a record of type %d", of)
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
		return End{}, fmt.Errorf("the answer is not FastCGI: an end of the request with %d bytes", len(r.Content))
	}
	return End{App: binary.BigEndian.Uint32(r.Content), Protocol: r.Content[4]}, nil
}
