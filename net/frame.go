package net

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// endOfFrame ends every frame. JSON text never holds it: inside strings it is escaped.
const endOfFrame = 0x04

// The read buffer of a link that has nothing to say is smallBuffer bytes; one that grew
// beyond keptBuffer for a long frame is given back afterwards.
const (
	smallBuffer = 512
	keptBuffer  = 4 << 10
)

// errFrameTooLong ends a link: the stream can't be read on from the middle of a frame.
var errFrameTooLong = errors.New("frame too long")

// splitter cuts the bytes of a connection into frames. The zero value is ready.
type splitter struct {
	buf        []byte
	start, end int // buf[start:end] was read and not handed out yet
	scanned    int // there is no endOfFrame in buf[start:scanned]
}

// next is the next whole frame without its end, or nil when more must be read first. The frame lies
// in the buffer: it is valid until the next call of fill. A frame, whole or begun, of more than
// limit bytes is errFrameTooLong.
func (s *splitter) next(limit int) ([]byte, error) {
	at := bytes.IndexByte(s.buf[s.scanned:s.end], endOfFrame)
	if at < 0 {
		s.scanned = s.end
		if s.end-s.start > limit {
			return nil, errFrameTooLong
		}
		return nil, nil
	}
	frame := s.buf[s.start : s.scanned+at : s.scanned+at]
	s.start = s.scanned + at + 1
	s.scanned = s.start
	if len(frame) > limit {
		return nil, errFrameTooLong
	}
	return frame, nil
}

// begun tells whether a frame has begun and not ended.
func (s *splitter) begun() bool { return s.end > s.start }

// pending is the frame that has begun, as far as it was read. It is valid until the next call of
// fill.
func (s *splitter) pending() []byte { return s.buf[s.start:s.end] }

// grown is how long the buffer is for the next fill.
func (s *splitter) grown() int {
	if len(s.buf) > 0 && s.end-s.start == len(s.buf) {
		return 2 * len(s.buf)
	}
	return len(s.buf)
}

// fill reads once. It must be called only after next had nothing more to give.
func (s *splitter) fill(r io.Reader) error {
	s.makeRoom()
	n, err := r.Read(s.buf[s.end:])
	s.end += n
	if n > 0 {
		return nil // an error comes again with the next read
	}
	return err
}

// shrink gives back a buffer that grew for a long frame which was handed out, and is not needed any
// more.
func (s *splitter) shrink() {
	if len(s.buf) > keptBuffer && 2*len(s.pending()) <= len(s.buf) {
		s.handOver()
	}
}

// handOver leaves the buffer to the frame that was given last, and goes on with another one.
func (s *splitter) handOver() {
	rest, size := s.pending(), smallBuffer
	for size < len(rest) {
		size *= 2
	}
	s.buf = append(make([]byte, 0, size), rest...)[:size]
	s.scanned -= s.start
	s.start, s.end = 0, len(rest)
}

// makeRoom moves what is begun to the buffer's front, and doubles a full buffer.
func (s *splitter) makeRoom() {
	begun := s.buf[s.start:s.end]
	switch {
	case len(begun) == 0 && (s.buf == nil || len(s.buf) > keptBuffer):
		s.buf = make([]byte, smallBuffer)
	case len(begun) == len(s.buf):
		s.buf = append(make([]byte, 0, 2*len(s.buf)), begun...)
		s.buf = s.buf[:cap(s.buf)]
	case s.start > 0:
		copy(s.buf, begun)
	}
	s.scanned -= s.start
	s.start, s.end = 0, len(begun)
}

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

// What a message may be made of, whatever its length in bytes: what is made of a byte in memory
// depends on what it says. A value counts once, whether it is in a list, an object or alone.
const (
	mostLevels = 64      // of lists and objects in each other
	mostItems  = 100_000 // of one list or object of a request
	mostValues = 500_000 // of a request altogether
)

// shape is what a message is made of.
type shape struct {
	levels int // the deepest
	items  int // of the longest list or object
	values int // of all of them
}

// weight is about how much memory is taken by what a handler reads out of so many bytes.
func (s shape) weight(bytes int) int { return bytes + 100*s.values }

// shapeOf counts in valid JSON, and stops where there are too many levels.
func shapeOf(text []byte) (s shape) {
	var items [mostLevels + 1]int
	level := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = stringEnd(text, i) - 1
		case '[', '{':
			if level++; level > mostLevels {
				s.levels = level
				return s
			}
			s.levels = max(s.levels, level)
			items[level] = 1
			s.values++
		case ',':
			s.values++
			items[level]++
			s.items = max(s.items, items[level])
		case ']', '}':
			level--
		}
	}
	s.values++
	return s
}

// isTooMuch is the refusal of a request of this shape, if it is to be refused.
func (s shape) isTooMuch() error {
	switch {
	case s.items > mostItems:
		return Refusef("too many items: at most %d are allowed in a list or object", mostItems).With(CodeLimit)
	case s.values > mostValues:
		return Refusef("too many values: at most %d are allowed in a message", mostValues).With(CodeLimit)
	}
	return nil
}

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
