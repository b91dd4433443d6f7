package net

import "encoding/json"

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
