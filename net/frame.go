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

// message is what one frame says. Only the data of a response shares the frame's memory.
type message struct {
	kind     int
	no       int64
	typ      string          // of a request
	password string          // of a request
	data     json.RawMessage // of a request or a response; nil where absent or null
	values   int             // of a request: about how many it is made of
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
		m, err := parseRequest(body)
		m.coded = string(parts[2]) == wantsCodes
		return m, err
	case isInteger && number == kindResponse:
		return parseResponse(body)
	case isInteger && (number == kindPing || number == kindPong):
		return message{kind: int(number)}, nil
	}
	return message{}, Refusef("unexpected type %s", quoted(kind))
}

func parseRequest(body json.RawMessage) (message, error) {
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
	m.data, m.values = bytes.Clone(m.data), 1+bytes.Count(m.data, []byte(","))
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

// valueEnd is the index behind the value that begins at i.
func valueEnd(text []byte, i int) int {
	level := 0
	for ; i < len(text); i++ {
		switch text[i] {
		case '"':
			if i = stringEnd(text, i) - 1; level == 0 {
				return i + 1
			}
		case '[', '{':
			level++
		case ']', '}':
			if level == 0 {
				return i // of the list that it is in
			}
			if level--; level == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if level == 0 {
				return i
			}
		}
	}
	return i
}

func spaceEnd(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n') {
		i++
	}
	return i
}

// items gives the items of a valid list, or the members of a valid object with their names as they
// are written. They share the memory of the text.
func items(text []byte) func(yield func(name, value json.RawMessage) bool) {
	return func(yield func(name, value json.RawMessage) bool) {
		i := spaceEnd(text, 0)
		named := text[i] == '{'
		for i = spaceEnd(text, i+1); text[i] != ']' && text[i] != '}'; {
			var name json.RawMessage
			if named {
				end := stringEnd(text, i)
				name = text[i:end:end]
				i = spaceEnd(text, spaceEnd(text, end)+len(":"))
			}
			end := valueEnd(text, i)
			if !yield(name, text[i:end:end]) {
				return
			}
			if i = spaceEnd(text, end); text[i] == ',' {
				i = spaceEnd(text, i+1)
			}
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

// Fields are the members of a JSON object that a peer sent, with the protocol's checks. Names are
// matched exactly; of two members of one name the last counts.
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

// Text is a required string. Refusals: "missing required field NAME", "'NAME' must be string".
func (f Fields) Text(name string) (string, error) { return textField(name, f[name]) }

// Int is a required integer; 2.0 is one too. Refusals: "missing required field NAME", "'NAME' must
// be integer".
func (f Fields) Int(name string) (int64, error) { return intField(name, f[name]) }

// Whole is a required whole number of 64 bits. Refusals: "missing required field NAME", "'NAME'
// must be integer".
func (f Fields) Whole(name string) (Whole, error) {
	if !f.Has(name) {
		return 0, Refusef("missing required field %s", name)
	}
	number, err := ParseWhole(f[name])
	if err != nil {
		return 0, Refusef("'%s' must be integer", name)
	}
	return number, nil
}

// Flag is an optional boolean: what JavaScript takes for true is true.
func (f Fields) Flag(name string) bool { return truthy(f[name]) }

// List is a required array. Its refusal: "NAME must be array".
func (f Fields) List(name string) (list []json.RawMessage, err error) {
	err = f.Each(name, func(item json.RawMessage) error {
		list = append(list, item)
		return nil
	})
	return list, err
}

// Each gives the items of a required array to a function, until that fails. Its own refusal: "NAME
// must be array".
func (f Fields) Each(name string, use func(item json.RawMessage) error) error {
	if firstByte(f[name]) != '[' {
		return Refusef("%s must be array", name)
	}
	for _, item := range items(f[name]) {
		if err := use(item); err != nil {
			return err
		}
	}
	return nil
}

// textField is a required string.
func textField(name string, value json.RawMessage) (string, error) {
	switch {
	case value == nil:
		return "", Refusef("missing required field %s", name)
	case TypeOf(value) != "string":
		return "", Refusef("'%s' must be string", name)
	}
	return Text(value), nil
}

// intField is a required integer.
func intField(name string, value json.RawMessage) (int64, error) {
	if value == nil {
		return 0, Refusef("missing required field %s", name)
	}
	number, ok := Integer(value)
	if !ok {
		return 0, Refusef("'%s' must be integer", name)
	}
	return number, nil
}
