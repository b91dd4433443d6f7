package net

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// What a frame says: a message as bytes, both ways, and JSON's values as JavaScript takes them.

// The kinds of message: the first item of each array.
const (
	kindRequest  = 0
	kindResponse = 1
	kindPing     = 2
	kindPong     = 3
)

// message is what one frame says. Only the data of a response and the field by share the frame's memory.
type message struct {
	kind     int
	no       int64
	typ      string          // of a request
	password string          // of a request
	by       json.RawMessage // of a request that is passed on: who asked, see asker
	data     json.RawMessage // of a request or a response; nil where absent or null
	values   int             // of a request: about how many it is made of
	coded    bool            // a request whose error bears its code
	failed   bool            // a response that tells an error
	failure  string          // the error it tells
	code     Code            // of that error; "" where none came
}

// wantsCodes is the third item of the array of a request whose error bears its code. The original
// ignores it, as everybody does all further items.
const wantsCodes = `"codes"`

// errNotJSON is the one mistake that is logged and not answered.
var errNotJSON = errors.New("not JSON")

// parse reads one frame. Errors are errNotJSON, or a Refusal whose text the peer gets
// in a response with number 0.
func parse(frame []byte) (message, error) {
	if !json.Valid(frame) {
		return message{}, errNotJSON
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
	case isInteger && (number == kindRequest || number == kindResponse):
		m, err := parseBody(int(number), body)
		m.coded = string(parts[2]) == wantsCodes
		return m, err
	case isInteger && (number == kindPing || number == kindPong):
		return message{kind: int(number)}, nil
	}
	return message{}, Refusef("unexpected type %s", quoted(kind))
}

// parseBody reads the body of a request or a response. Its members of other names are ignored.
func parseBody(kind int, body json.RawMessage) (message, error) {
	name, m := "REQUEST", message{kind: kind}
	if kind == kindResponse {
		name = "RESPONSE"
	}
	err := error(Refusal("data is not an object"))
	if firstByte(body) == '{' {
		known := make(Fields, 4)
		for name, value := range items(body) {
			switch name := Text(name); name {
			case "no", "type", "data", "password", "by", "error", "code":
				known[name] = value
			}
		}
		err = m.read(&Reader{Fields: known})
	}
	if err != nil {
		return message{}, Refusef("malformed %s message: %v", name, err)
	}
	return m, nil
}

// read takes over the members of a body, and tells the first that is wrong.
func (m *message) read(f *Reader) error {
	asks := m.kind == kindRequest
	if asks {
		m.typ = f.Text("type")
	}
	m.no = f.Int("no")
	if asks && f.Has("password") {
		m.password = f.Text("password")
	}
	if m.failed = !asks && f.Has("error"); m.failed {
		m.failure = cut(f.Text("error"))
		if code := f.Fields["code"]; TypeOf(code) == "string" {
			m.code = Code(cut(Text(code)))
		}
	}
	switch m.data = f.Fields["data"]; {
	case TypeOf(m.data) == "boolean":
		f.Fail(Refusal("'data' must be any of: string, number, object, array"))
	case firstByte(m.data) == 'n':
		m.data = nil
	}
	if f.Err != nil {
		return f.Err
	}
	if asks {
		m.by = f.Fields["by"]
		m.data, m.values = bytes.Clone(m.data), 1+bytes.Count(m.data, []byte(","))
	}
	return nil
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

// mostValues is how many values a request may be made of, whatever its length in bytes. Each takes
// some valueBytes of memory when a handler reads it.
const (
	mostValues = 500_000
	valueBytes = 100
)

// weight is about how much memory a handler takes for what it reads.
func (m message) weight() int { return len(m.data) + valueBytes*m.values }

// stringEnd is the index behind the string that begins at i.
func stringEnd(text []byte, i int) int {
	for i++; text[i] != '"'; i++ {
		if text[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// items gives the items of a valid list, or the members of a valid object with their names as they
// are written. They share the memory of the text.
func items(text []byte) iter.Seq2[json.RawMessage, json.RawMessage] {
	return func(yield func(name, value json.RawMessage) bool) {
		var name json.RawMessage
		level, begun := 0, 0 // begun is where the name or the value begins
		for i := 0; i < len(text); i++ {
			switch text[i] {
			case '"':
				i = stringEnd(text, i) - 1
				continue
			case '[', '{':
				if level++; level > 1 {
					continue
				}
			case ':':
				if level > 1 {
					continue
				}
				name = bytes.TrimSpace(text[begun:i])
			case ',', ']', '}':
				if text[i] != ',' {
					level--
				}
				if level > 1 || level == 1 && text[i] != ',' {
					continue // it belongs to a value
				}
				value := bytes.TrimSpace(text[begun:i:i])
				if len(value) > 0 && !yield(name, value) {
					return
				}
			default:
				continue
			}
			begun = i + 1
		}
	}
}

// Text is a string as JSON writes it.
func Text(quoted json.RawMessage) string {
	plain := true
	for _, b := range quoted {
		plain = plain && b != '\\' && b < 0x80
	}
	if plain {
		return string(quoted[1 : len(quoted)-1])
	}
	var text string
	_ = json.Unmarshal(quoted, &text) // valid, as everything here
	return text
}

// Fields are the members of a JSON object that a peer sent. Names are matched exactly; of two members of
// one name the last counts.
type Fields map[string]json.RawMessage

// FieldsOf gives the members of a JSON value; none where it is not an object, which is no error of
// its own in this protocol. The value must be valid JSON, as everything is that came in a frame: it
// is not looked at once more.
func FieldsOf(value json.RawMessage) Fields {
	if firstByte(value) != '{' {
		return nil
	}
	fields := make(Fields)
	for name, item := range items(value) {
		fields[Text(name)] = item
	}
	return fields
}

// Has tells whether the field is there, null included.
func (f Fields) Has(name string) bool { return f[name] != nil }

// Flag is an optional boolean: what JavaScript takes for true is true.
func (f Fields) Flag(name string) bool { return truthy(f[name]) }

// Text is a required string, as Reader.Text.
func (f Fields) Text(name string) (string, error) {
	r := &Reader{Fields: f}
	return r.Text(name), r.Err
}

// Reader reads fields with the protocol's checks. Of several that are wrong the first counts, in the
// order in which they are read; what is read is worth nothing then.
type Reader struct {
	Fields
	Err error // a Refusal
}

// Fail takes in why something is wrong, unless something was before.
func (r *Reader) Fail(err error) {
	if r.Err == nil {
		r.Err = err
	}
}

// Text is a required string. Refusals: "missing required field NAME", "'NAME' must be string".
func (r *Reader) Text(name string) string {
	return required(r, name, "string", func(value json.RawMessage) (text string, ok bool) {
		if ok = TypeOf(value) == "string"; ok {
			text = Text(value)
		}
		return text, ok
	})
}

// Int is a required integer; 2.0 is one too. Refusals: "missing required field NAME", "'NAME' must
// be integer".
func (r *Reader) Int(name string) int64 { return required(r, name, "integer", Integer) }

// Whole is a required whole number of 64 bits, with the refusals of Int.
func (r *Reader) Whole(name string) Whole {
	return required(r, name, "integer", func(value json.RawMessage) (Whole, bool) {
		number, err := ParseWhole(value)
		return number, err == nil
	})
}

func required[V any](r *Reader, name, what string, read func(json.RawMessage) (V, bool)) (value V) {
	if !r.Has(name) {
		r.Fail(Refusef("missing required field %s", name))
		return value
	}
	value, ok := read(r.Fields[name])
	if !ok {
		r.Fail(Refusef("'%s' must be %s", name, what))
	}
	return value
}

// Each gives the items of a required array to a function, until something is wrong. Its own refusal:
// "NAME must be array".
func (r *Reader) Each(name string, use func(item json.RawMessage)) {
	if firstByte(r.Fields[name]) != '[' {
		r.Fail(Refusef("%s must be array", name))
		return
	}
	for _, item := range items(r.Fields[name]) {
		if use(item); r.Err != nil {
			return
		}
	}
}

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
