package net

import (
	"bytes"
	"encoding/json"
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
}

type responseBody struct {
	No   int64 `json:"no"`
	Data any   `json:"data"`
}

type errorBody struct {
	No    int64  `json:"no"`
	Error string `json:"error"`
}

// encodeRequest gives a whole frame. It fails where data has no JSON form.
func encodeRequest(body requestBody) ([]byte, error) { return encode(kindRequest, body) }

// encodeResponse gives a whole frame. It fails where data has no JSON form.
func encodeResponse(no int64, data any) ([]byte, error) {
	return encode(kindResponse, responseBody{No: no, Data: data})
}

// encodeError gives a whole frame.
func encodeError(no int64, text string) []byte {
	frame, _ := encode(kindResponse, errorBody{No: no, Error: text}) // a number and a text never fail
	return frame
}

// encode writes a frame as JSON.stringify would have written it.
func encode(kind byte, body any) ([]byte, error) {
	var buf bytes.Buffer
	buf.Write([]byte{'[', '0' + kind, ','})
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		return nil, err
	}
	buf.Truncate(buf.Len() - len("\n"))
	buf.Write([]byte{']', endOfFrame})
	return stringified(buf.Bytes()), nil
}

// stringified undoes what encoding/json does otherwise than JSON.stringify: it escapes three characters that
// stand for themselves there, and lets through bytes of a RawMessage that are not UTF-8.
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
