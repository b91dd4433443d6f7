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
	coded    bool            // a request whose error is to bear its code
	failed   bool            // a response that tells an error
	failure  string          // the error it tells
	code     Code            // of that error; "" where none came
}

// envelope is what the body of a message may hold; nil where it does not.
type envelope struct{ no, typ, data, password, failure, code json.RawMessage }

// envelopeOf takes a body apart, whose other members are ignored. It is not ok where the body is no
// object.
func envelopeOf(body json.RawMessage) (e envelope, ok bool) {
	if firstByte(body) != '{' {
		return e, false
	}
	for name, value := range items(body) {
		if bytes.IndexByte(name, '\\') >= 0 {
			name = json.RawMessage(`"` + Text(name) + `"`)
		}
		switch string(name) {
		case `"no"`:
			e.no = value
		case `"type"`:
			e.typ = value
		case `"data"`:
			e.data = value
		case `"password"`:
			e.password = value
		case `"error"`:
			e.failure = value
		case `"code"`:
			e.code = value
		}
	}
	return e, true
}

// payload is the data of a message; nil where it is absent or null.
func (e envelope) payload() (json.RawMessage, error) {
	switch {
	case firstByte(e.data) == 'n':
		return nil, nil
	case TypeOf(e.data) == "boolean":
		return nil, Refusal("'data' must be any of: string, number, object, array")
	}
	return e.data, nil
}

// wantsCodes is the third item of the array of a request whose error is to bear its code. The
// original ignores it, as everybody does all further items.
const wantsCodes = `"codes"`

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
	var parts [3]json.RawMessage
	at := 0
	for _, item := range items(frame) {
		if parts[at] = item; at == len(parts)-1 {
			break // what follows is ignored
		}
		at++
	}
	kind, body := parts[0], parts[1]
	number, isInteger := Integer(kind)
	switch {
	case isInteger && number == kindRequest:
		m, err := parseRequest(body, found)
		m.coded = string(parts[2]) == wantsCodes
		return m, err
	case isInteger && number == kindResponse:
		return parseResponse(body)
	case isInteger && (number == kindPing || number == kindPong):
		return message{kind: int(number)}, nil
	}
	return message{}, Refusef("unexpected type %s", quoted(kind))
}

func parseRequest(body json.RawMessage, found shape) (message, error) {
	e, ok := envelopeOf(body)
	if !ok {
		return message{}, Refusal("malformed REQUEST message: data is not an object")
	}
	m := message{kind: kindRequest}
	var err error
	if m.typ, err = textField("type", e.typ); err != nil {
		return message{}, malformed("REQUEST", err)
	}
	if m.no, err = intField("no", e.no); err != nil {
		return message{}, malformed("REQUEST", err)
	}
	if e.password != nil {
		if m.password, err = textField("password", e.password); err != nil {
			return message{}, malformed("REQUEST", err)
		}
	}
	if m.data, err = e.payload(); err != nil {
		return message{}, malformed("REQUEST", err)
	}
	m.data, m.weight, m.excess = bytes.Clone(m.data), found.weight(len(m.data)), found.isTooMuch()
	return m, nil
}

func parseResponse(body json.RawMessage) (message, error) {
	e, ok := envelopeOf(body)
	if !ok {
		return message{}, Refusal("malformed RESPONSE message: data is not an object")
	}
	m := message{kind: kindResponse}
	var err error
	if m.no, err = intField("no", e.no); err != nil {
		return message{}, malformed("RESPONSE", err)
	}
	if m.failed = e.failure != nil; m.failed {
		if m.failure, err = textField("error", e.failure); err != nil {
			return message{}, malformed("RESPONSE", err)
		}
		m.failure = cut(m.failure)
		if TypeOf(e.code) == "string" {
			m.code = Code(cut(Text(e.code)))
		}
	}
	if m.data, err = e.payload(); err != nil {
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
