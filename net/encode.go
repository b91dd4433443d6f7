package net

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

var (
	pingFrame = []byte{'[', '0' + kindPing, ']', endOfFrame}
	pongFrame = []byte{'[', '0' + kindPong, ']', endOfFrame}
)

type requestBody struct {
	No       int64  `json:"no"`
	Type     string `json:"type"`
	Data     any    `json:"data,omitempty"`
	Password string `json:"password,omitempty"`

	coded bool // the answer's error is to bear its code
}

type responseBody struct {
	No   int64 `json:"no"`
	Data any   `json:"data"`
}

type errorBody struct {
	No    int64  `json:"no"`
	Error string `json:"error"`
	Code  Code   `json:"code,omitempty"`
}

// Encoded is the data of a request as JSON. It may be asked of any number of links, which share its
// memory: only what is around it is made for each.
type Encoded struct{ text []byte }

// Encode makes the data of requests. It fails where data has no JSON form.
func Encode(data any) (Encoded, error) {
	var buf bytes.Buffer
	if err := encodeTo(&buf, data); err != nil {
		return Encoded{}, err
	}
	return Encoded{stringified(buf.Bytes())}, nil
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

// encodeRequest gives a whole frame, in parts where its data is shared. It fails where data has no
// JSON form.
func encodeRequest(body requestBody) ([][]byte, error) {
	var further []byte
	if body.coded {
		further = []byte("," + wantsCodes)
	}
	shared, ok := body.Data.(Encoded)
	if !ok || shared.text == nil {
		if ok {
			body.Data = nil
		}
		frame, err := encode(kindRequest, body, further)
		return [][]byte{frame}, err
	}
	body.Data = nil
	frame, err := encode(kindRequest, body, further)
	if err != nil {
		return nil, err
	}
	end := len(frame) - len("}]\x04") - len(further)
	head := append(frame[:end:end], `,"data":`...)
	return [][]byte{head, shared.text, frame[end:]}, nil
}

// encodeResponse gives a whole frame, in parts where its data is. It fails where data has no JSON form.
func encodeResponse(no int64, data any) ([][]byte, error) {
	joined, inParts := data.(Joined)
	if !inParts {
		frame, err := encode(kindResponse, responseBody{No: no, Data: data}, nil)
		return [][]byte{frame}, err
	}
	parts := [][]byte{fmt.Appendf(nil, `[%d,{"no":%d,"data":`, kindResponse, no)}
	for _, part := range joined {
		parts = append(parts, stringified(part))
	}
	return append(parts, []byte("}]\x04")), nil
}

// encodeError gives a whole frame. It belongs to no request, or to one whose sender asked for no
// codes.
func encodeError(no int64, text string) []byte { return encodeCoded(no, text, "") }

// encodeCoded is encodeError with a code.
func encodeCoded(no int64, text string, code Code) []byte {
	frame, _ := encode(kindResponse, errorBody{no, text, code}, nil) // a number and two texts never fail
	return frame
}

// encode writes a frame as JSON.stringify would have written it, with further items behind the
// body.
func encode(kind byte, body any, further []byte) ([]byte, error) {
	var buf bytes.Buffer
	buf.Write([]byte{'[', '0' + kind, ','})
	if err := encodeTo(&buf, body); err != nil {
		return nil, err
	}
	buf.Write(further)
	buf.Write([]byte{']', endOfFrame})
	return stringified(buf.Bytes()), nil
}

// encodeTo appends a value's JSON.
func encodeTo(buf *bytes.Buffer, value any) error {
	encoder := json.NewEncoder(buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	buf.Truncate(buf.Len() - len("\n"))
	return nil
}

// stringified undoes what encoding/json does otherwise than JSON.stringify: it escapes three
// characters that stand for themselves there, and lets through bytes of a RawMessage that are not
// UTF-8.
func stringified(text []byte) []byte {
	if !utf8.Valid(text) {
		text = bytes.ToValidUTF8(text, []byte("\uFFFD"))
	}
	if !bytes.Contains(text, []byte(`\ufffd`)) && !bytes.Contains(text, []byte(`\u202`)) {
		return text
	}
	out := text[:0] // never longer than what has been read, so the text is rewritten in place
	for rest := text; len(rest) > 0; {
		if plain, ok := unescaped(rest); ok {
			out = append(out, plain...)
			rest = rest[len(`\uXXXX`):]
			continue
		}
		n := 1
		if rest[0] == '\\' {
			n = 2 // an escaped backslash must not be taken for the beginning of an escape
		}
		out = append(out, rest[:n]...)
		rest = rest[n:]
	}
	return out
}

// unescaped is the character that an escape at the beginning of text stands for, if it needs none.
func unescaped(text []byte) (string, bool) {
	if len(text) < len(`\uXXXX`) || text[0] != '\\' || text[1] != 'u' {
		return "", false
	}
	switch string(text[2:6]) {
	case "2028":
		return "\u2028", true
	case "2029":
		return "\u2029", true
	case "fffd":
		return "\uFFFD", true
	}
	return "", false
}

// refused is the frame that answers a request with an error.
func (m message) refused(err error) []byte { return errorFrame(m.no, m.coded, err) }

// errorFrame tells a peer the part of an error that it may see.
func errorFrame(no int64, coded bool, err error) []byte {
	text, _ := publicText(err)
	if !coded {
		return encodeError(no, text)
	}
	return encodeCoded(no, text, CodeOf(err))
}

// maxSafe is the largest integer n such that n and n+1 are both exact in a float64,
// which is all that a JavaScript peer has for numbers.
const maxSafe = 1<<53 - 1

// TypeOf is JavaScript's typeof of a JSON value: "string", "number", "boolean" or "object",
// the last also for null and arrays, and "undefined" where there is no value.
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
	whole, err := strconv.ParseInt(string(value), 10, 64) // as most are written
	if err == nil && -maxSafe <= whole && whole <= maxSafe {
		return whole, true
	}
	number := toNumber(json.Number(bytes.TrimSpace(value)))
	if math.Trunc(number) != number || math.Abs(number) > maxSafe {
		return 0, false
	}
	return int64(number), true
}

// truthy tells whether JavaScript takes a JSON value for true in a condition.
func truthy(value json.RawMessage) bool {
	switch firstByte(value) {
	case 0, 'n', 'f':
		return false
	case '"':
		return len(bytes.TrimSpace(value)) > len(`""`)
	case '{', '[', 't':
		return true
	default:
		return toNumber(json.Number(bytes.TrimSpace(value))) != 0
	}
}

// toString is JavaScript's String() of a JSON value.
func toString(value json.RawMessage) string {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	var decoded any
	if err := decoder.Decode(&decoded); err != nil {
		return "undefined" // no value: that is the only error left after the frame was parsed
	}
	return anyToString(decoded)
}

func anyToString(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(value)
	case json.Number:
		return formatNumber(toNumber(value))
	case string:
		return value
	case []any:
		items := make([]string, len(value))
		for i, item := range value {
			if item != nil {
				items[i] = anyToString(item)
			}
		}
		return strings.Join(items, ",")
	default:
		return "[object Object]"
	}
}

// toNumber is the float64 that JavaScript makes of a JSON number: infinite where it is too large.
func toNumber(number json.Number) float64 {
	parsed, _ := strconv.ParseFloat(string(number), 64) // out of range gives ±Inf, as wanted
	return parsed
}

// formatNumber is JavaScript's Number.prototype.toString.
func formatNumber(number float64) string {
	switch {
	case math.IsInf(number, 1):
		return "Infinity"
	case math.IsInf(number, -1):
		return "-Infinity"
	case number == 0:
		return "0" // so is -0
	}
	text, _ := json.Marshal(number) // finite numbers never fail; encoding/json follows the same rules
	return string(text)
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
