package fcgi

import "encoding/binary"

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
