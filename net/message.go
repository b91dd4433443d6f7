package net

import (
	"encoding/json"
	"errors"
)

// The kinds of message: the first item of each array.
const (
	kindRequest  = 0
	kindResponse = 1
	kindPing     = 2
	kindPong     = 3
)

// message is what one frame says. It shares no memory with the frame.
type message struct {
	kind     int
	no       int64
	typ      string          // of a request
	password string          // of a request
	data     json.RawMessage // of a request or a response; nil where absent or null
	failed   bool            // a response that tells an error
	failure  string          // the error it tells
}

// errNotJSON is the one mistake that is logged and not answered.
var errNotJSON = errors.New("not JSON")

// parse reads one frame. Errors are errNotJSON, or a Refusal whose text the peer gets
// in a response with number 0.
func parse(frame []byte) (message, error) {
	if firstByte(frame) != '[' {
		if !json.Valid(frame) {
			return message{}, errNotJSON
		}
		return message{}, Refusef("JSON array expected, got: %s", toString(frame))
	}
	var items []json.RawMessage
	if err := json.Unmarshal(frame, &items); err != nil {
		return message{}, errNotJSON
	}
	var kind, body json.RawMessage
	if len(items) > 0 {
		kind = items[0]
	}
	if len(items) > 1 {
		body = items[1]
	}
	number, isInteger := Integer(kind)
	switch {
	case isInteger && number == kindRequest:
		return parseRequest(body)
	case isInteger && number == kindResponse:
		return parseResponse(body)
	case isInteger && (number == kindPing || number == kindPong):
		return message{kind: int(number)}, nil
	}
	return message{}, Refusef("unexpected type %s", toString(kind))
}

func parseRequest(body json.RawMessage) (message, error) {
	fields, ok := objectOf(body)
	if !ok {
		return message{}, Refusal("malformed REQUEST message: data is not an object")
	}
	m := message{kind: kindRequest}
	var err error
	if m.typ, err = fields.Text("type"); err != nil {
		return message{}, malformed("REQUEST", err)
	}
	if m.no, err = fields.Int("no"); err != nil {
		return message{}, malformed("REQUEST", err)
	}
	if fields.Has("password") {
		if m.password, err = fields.Text("password"); err != nil {
			return message{}, malformed("REQUEST", err)
		}
	}
	if m.data, err = fields.payload(); err != nil {
		return message{}, malformed("REQUEST", err)
	}
	return m, nil
}

func parseResponse(body json.RawMessage) (message, error) {
	fields, ok := objectOf(body)
	if !ok {
		return message{}, Refusal("malformed RESPONSE message: data is not an object")
	}
	m := message{kind: kindResponse}
	var err error
	if m.no, err = fields.Int("no"); err != nil {
		return message{}, malformed("RESPONSE", err)
	}
	if m.failed = fields.Has("error"); m.failed {
		if m.failure, err = fields.Text("error"); err != nil {
			return message{}, malformed("RESPONSE", err)
		}
	}
	if m.data, err = fields.payload(); err != nil {
		return message{}, malformed("RESPONSE", err)
	}
	return m, nil
}

func malformed(kind string, err error) Refusal {
	return Refusef("malformed %s message: %v", kind, err)
}
