package net

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
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
	weight   int             // of a request: about what it takes in memory
	excess   error           // of a request: why it is made of too much
	failed   bool            // a response that tells an error
	failure  string          // the error it tells
}

// errNotJSON is the one mistake that is logged and not answered.
var errNotJSON = errors.New("not JSON")

// parse reads one frame. Errors are errNotJSON, or a Refusal whose text the peer gets
// in a response with number 0.
func parse(frame []byte) (message, error) {
	if !json.Valid(frame) {
		return message{}, errNotJSON
	}
	found := shapeOf(frame)
	if found.levels > mostLevels {
		return message{}, Refusef("nested too deeply: at most %d levels are allowed", mostLevels)
	}
	if firstByte(frame) != '[' {
		return message{}, Refusef("JSON array expected, got: %s", quoted(frame))
	}
	var kind, body json.RawMessage
	at := 0
	for _, item := range items(frame) {
		switch at++; at {
		case 1:
			kind = item
		case 2:
			body = item
		default: // ignored
		}
		if at == 2 {
			break
		}
	}
	number, isInteger := Integer(kind)
	switch {
	case isInteger && number == kindRequest:
		return parseRequest(body, found)
	case isInteger && number == kindResponse:
		return parseResponse(body)
	case isInteger && (number == kindPing || number == kindPong):
		return message{kind: int(number)}, nil
	}
	return message{}, Refusef("unexpected type %s", quoted(kind))
}

func parseRequest(body json.RawMessage, found shape) (message, error) {
	fields, ok := membersOf(body)
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
	m.data, m.weight, m.excess = bytes.Clone(m.data), found.weight(len(m.data)), found.isTooMuch()
	return m, nil
}

func parseResponse(body json.RawMessage) (message, error) {
	fields, ok := membersOf(body)
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
		m.failure = cut(m.failure)
	}
	if m.data, err = fields.payload(); err != nil {
		return message{}, malformed("RESPONSE", err)
	}
	m.data = bytes.Clone(m.data)
	return m, nil
}

// quoted is a value as JavaScript prints it; of a long one, how it begins.
func quoted(value json.RawMessage) string {
	const most = 4 << 10
	if len(value) > most {
		return Excerpt(string(value[:most]))
	}
	return toString(value)
}

// cut bounds a peer's error: it goes into logs and into other errors.
func cut(text string) string {
	const most = 4 << 10
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

func malformed(kind string, err error) Refusal {
	return Refusef("malformed %s message: %v", kind, err)
}
