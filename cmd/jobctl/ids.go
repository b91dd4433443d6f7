package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"

	jobnet "jobd/net"
)

// errID says what an id is.
var errID = errors.New("a whole number of 64 bits other than 0")

// parseID reads a job's id. A negative one is an id like others: tables have them.
func parseID(text string) (jobnet.Whole, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id == 0 {
		return 0, errID
	}
	return jobnet.Whole(id), nil
}

// negative knows a negative number where a flag might stand: no flag is a number.
var negative = regexp.MustCompile(`^-[0-9]+$`)

// idFlag is a flag.Value for a job's id.
type idFlag struct{ id *int64 }

// String implements flag.Value.
func (f idFlag) String() string { return "" }

// Set implements flag.Value.
func (f idFlag) Set(text string) error {
	id, err := parseID(text)
	if err != nil {
		return errors.New(strconv.Quote(text) + " is not allowed; allowed is " + err.Error())
	}
	*f.id = int64(id)
	return nil
}

// roundable is the length from which on a number may be rounded: 2⁵³ has so many digits.
const roundable = len("9007199254740992")

// exact is JSON in which whole numbers that JavaScript would round are strings of their digits:
// what net.Whole does for one number, for all of them.
func exact(text []byte) []byte {
	var out []byte
	for len(text) > 0 {
		switch at := bytes.IndexAny(text, `"-0123456789`); {
		case at < 0:
			return append(out, text...)
		case at > 0:
			out, text = append(out, text[:at]...), text[at:]
		}
		end := endOfToken(text)
		if token := text[:end]; text[0] == '"' {
			out = append(out, token...)
		} else if whole, err := strconv.ParseInt(string(token), 10, 64); len(token) >= roundable && err == nil {
			number, _ := jobnet.Whole(whole).MarshalJSON()
			out = append(out, number...)
		} else {
			out = append(out, token...)
		}
		text = text[end:]
	}
	return out
}

// endOfToken is where the string or number ends with which JSON text begins.
func endOfToken(text []byte) int {
	if text[0] != '"' {
		if end := bytes.IndexFunc(text, func(r rune) bool { return !bytes.ContainsRune([]byte("+-.eE0123456789"), r) }); end > 0 {
			return end
		}
		return len(text)
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// printJSON prints a value in one line.
func (p *program) printJSON(value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := p.out.Write(exact(text.Bytes()))
	return err
}
