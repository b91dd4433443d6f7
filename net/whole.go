package net

import (
	"encoding/json"
	"math"
	"strconv"
)

// Whole is a whole number on the wire. JavaScript's numbers are exact up to 2⁵³−1 in either
// direction; a number beyond that is a string of its decimal digits, in both directions, so that no
// peer rounds it.
type Whole int64

// isExact tells whether a JavaScript number holds n, and no other whole number rounds to it.
func (n Whole) isExact() bool { return -maxSafe <= n && n <= maxSafe }

// MarshalJSON implements json.Marshaler.
func (n Whole) MarshalJSON() ([]byte, error) {
	text := strconv.FormatInt(int64(n), 10)
	if n.isExact() {
		return []byte(text), nil
	}
	return []byte(`"` + text + `"`), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Whole) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil // as of any number
	}
	number, err := ParseWhole(data)
	*n = number
	return err
}

// ParseWhole reads a whole number that a peer sent. Its error is a Refusal that says what is
// allowed.
func ParseWhole(value json.RawMessage) (Whole, error) {
	if number, ok := Integer(value); ok {
		return Whole(number), nil
	}
	var text string
	if TypeOf(value) == "string" && json.Unmarshal(value, &text) == nil {
		number, err := strconv.ParseInt(text, 10, 64)
		if err == nil && strconv.FormatInt(number, 10) == text && !Whole(number).isExact() {
			return Whole(number), nil
		}
	}
	return 0, Refusef("%s is not a 64-bit integer; write numbers beyond ±%d as decimal strings",
		Excerpt(string(value)), int64(math.Trunc(maxSafe)))
}
