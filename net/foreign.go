package net

import (
	"bytes"
	"errors"
)

// errForeign ends a link whose peer speaks some other protocol.
var errForeign = errors.New("peer speaks another protocol")

// A browser can be led to send a request of HTTP to any port, and puts what it is told into the
// body. So nothing is run of a link that does not begin as this protocol does: with a byte that can
// begin a JSON value, and not with a request line of HTTP or its kin, whose method may begin with
// such a byte too. Broken JSON is nonsense as anywhere else.

// recognise looks at what a link begins with, until that is known. It is given what came so far
// of the first frame that is not blank, and whether that is all of it.
func (r *receiver) recognise(text []byte, whole bool) error {
	if r.recognised {
		return nil
	}
	said := bytes.TrimLeft(text, " \t\r\n")
	if len(said) == 0 {
		return nil // a blank frame says nothing
	}
	if bytes.IndexByte([]byte(`[{"-0123456789tfn`), said[0]) < 0 {
		return errForeign
	}
	fresh := text[min(r.looked, len(text)):]
	r.looked = len(text)
	if !whole && bytes.IndexByte(fresh, '\n') < 0 {
		return nil
	}
	line, _, ends := bytes.Cut(said, []byte("\n"))
	if ends && isRequestLine(line) {
		return errForeign
	}
	r.recognised = whole || ends
	return nil
}

// isRequestLine tells whether a line ends as `GET / HTTP/1.1` does. No line of JSON does.
func isRequestLine(line []byte) bool {
	line = bytes.TrimRight(line, " \t\r")
	protocol, version, found := bytes.Cut(line[bytes.LastIndexByte(line, ' ')+1:], []byte("/"))
	if !found || len(protocol) == 0 || len(version) == 0 || len(protocol) == len(line) {
		return false
	}
	for _, b := range protocol {
		if b|0x20 < 'a' || b|0x20 > 'z' {
			return false
		}
	}
	return len(bytes.Trim(version, "0123456789.")) == 0
}
