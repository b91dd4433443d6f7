package net

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

var (
	pingFrame = []byte{'[', '0' + kindPing, ']', endOfFrame}
	pongFrame = []byte{'[', '0' + kindPong, ']', endOfFrame}
)

// requestBody and answerBody are what a message says beside its data.
type requestBody struct {
	No       int64  `json:"no"`
	Type     string `json:"type"`
	Password string `json:"password,omitempty"`
	By       *asker `json:"by,omitempty"` // for whom it is passed on
}

type answerBody struct {
	No    int64   `json:"no"`
	Error *string `json:"error,omitempty"`
	Code  Code    `json:"code,omitempty"`
}

// Encoded is the data of a request as JSON. It may be asked of any number of links, which share its
// memory: only what is around it is made for each.
type Encoded struct{ text []byte }

// Encode makes the data of requests; nil is none. It fails where data has no JSON form.
func Encode(data any) (Encoded, error) {
	if data == nil {
		return Encoded{}, nil
	}
	text, err := marshal(data)
	return Encoded{text}, err
}

// Len is the length in bytes.
func (e Encoded) Len() int { return len(e.text) }

// Joined is the data of an answer as JSON in parts, which are sent one behind the other. So what a
// worker has said, which may be long, goes to a client without a copy. Nobody may change the parts.
type Joined [][]byte

// With is the JSON of an object with one more member, whose value is JSON already; nil: with none.
func (e Encoded) With(name string, value json.RawMessage) Joined {
	if value == nil {
		return Joined{e.text}
	}
	end := len(e.text) - len("}")
	return Joined{e.text[:end], []byte(`,"` + name + `":`), value, e.text[end:]}
}

// encodeRequest gives a whole frame in parts, the last of which ends the array's items with further
// ones. It fails where data has no JSON form.
func encodeRequest(body requestBody, data any, further string) ([][]byte, error) {
	if shared, ok := data.(Encoded); data == nil || ok && shared.text == nil {
		return encode(kindRequest, body, nil, further), nil
	}
	parts, err := encodeData(data)
	return encode(kindRequest, body, parts, further), err
}

// encodeResponse gives a whole frame in parts. It fails where data has no JSON form.
func encodeResponse(no int64, data any) ([][]byte, error) {
	parts, err := encodeData(data)
	return encode(kindResponse, answerBody{No: no}, parts, ""), err
}

// encodeError gives a whole frame, with a code where there is one: it answers a request whose sender
// asked for codes.
func encodeError(no int64, text string, code Code) []byte {
	return bytes.Join(encode(kindResponse, answerBody{no, &text, code}, nil, ""), nil)
}

// encode makes a frame: its body with the data, and what stands behind the body.
func encode(kind byte, body any, data [][]byte, further string) [][]byte {
	text, _ := marshal(body) // numbers and texts never fail
	head := append([]byte{'[', '0' + kind, ','}, text...)
	if data == nil {
		return [][]byte{append(head, further+"]\x04"...)}
	}
	head = append(head[:len(head)-len("}")], `,"data":`...)
	return slices.Concat([][]byte{head}, data, [][]byte{[]byte("}" + further + "]\x04")})
}

// encodeData makes JSON of data, in parts where it is parts.
func encodeData(data any) (Joined, error) {
	switch data := data.(type) {
	case Encoded:
		return Joined{data.text}, nil
	case Joined:
		parts := slices.Clone(data)
		for i, part := range parts {
			parts[i] = validText(part)
		}
		return parts, nil
	}
	text, err := marshal(data)
	return Joined{text}, err
}

// marshal makes JSON, in which HTML is left alone.
func marshal(value any) ([]byte, error) {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return validText(buf.Bytes()[:buf.Len()-len("\n")]), nil
}

// validText is UTF-8, which encoding/json does not make of a RawMessage, and clients need.
func validText(text []byte) []byte {
	if utf8.Valid(text) {
		return text
	}
	return bytes.ToValidUTF8(text, []byte("\uFFFD"))
}

// refused is the frame that answers a request with the part of an error that its peer may see.
func (m message) refused(err error) []byte {
	text, _ := publicText(err)
	if !m.coded {
		return encodeError(m.no, text, "")
	}
	return encodeError(m.no, text, CodeOf(err))
}

// maxSafe is the largest integer n such that n and n+1 are both exact in a float64,
// which is all that a JavaScript peer has for numbers.
const maxSafe = 1<<53 - 1

// TypeOf is JavaScript's typeof of a JSON value: "string", "number", "boolean" or "object",
// the last also for null and arrays, and "undefined" where there is not a value.
func TypeOf(value json.RawMessage) string {
	switch firstByte(value) {
	case 0:
		return "undefined"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case '{', '[', 'n':
		return "object"
	default:
		return "number"
	}
}

// Integer is a JSON value as an integer, if it is one the way JavaScript sees it (1, 1.0 and 10e-1
// all are). Numbers that a float64 does not hold exactly are none.
func Integer(value json.RawMessage) (int64, bool) {
	if TypeOf(value) != "number" {
		return 0, false
	}
	number, err := strconv.ParseFloat(string(bytes.TrimSpace(value)), 64)
	if err != nil || math.Trunc(number) != number || math.Abs(number) > maxSafe {
		return 0, false
	}
	return int64(number), true
}

// truthy tells whether JavaScript takes a JSON value for true in a condition.
func truthy(value json.RawMessage) bool {
	switch string(bytes.TrimSpace(value)) {
	case "", "null", "false", `""`:
		return false
	}
	number, whole := Integer(value)
	return !whole || number != 0
}

// toString is JavaScript's String() of a JSON value; a number and a list are as they came.
func toString(value json.RawMessage) string {
	switch firstByte(value) {
	case 0:
		return "undefined"
	case '{':
		return "[object Object]"
	case '"':
		return Text(bytes.TrimSpace(value))
	}
	return string(bytes.TrimSpace(value))
}

// firstByte is the first byte of a JSON value that is not white space, 0 where there is none.
func firstByte(value []byte) byte {
	for _, b := range value {
		switch b {
		case ' ', '\t', '\r', '\n':
		default:
			return b
		}
	}
	return 0
}
