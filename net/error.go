package net

import (
	"errors"
	"fmt"
	"strings"
)

// Refusal is an error whose text the peer may see as it is. Any other error that a
// handler returns is logged with its chain, and the peer gets "internal error".
type Refusal string

// Error implements error.
func (r Refusal) Error() string { return string(r) }

// Refusef makes a Refusal the way fmt.Sprintf does.
func Refusef(format string, args ...any) Refusal { return Refusal(fmt.Sprintf(format, args...)) }

// RemoteError is what the peer answered instead of data.
type RemoteError struct {
	Text string
	Code Code // "" where the peer sent none: ask CodeOf
}

// Error implements error.
func (e *RemoteError) Error() string { return e.Text }

// ErrLinkClosed is among the causes of every request that got no answer because its link ended.
var ErrLinkClosed = errors.New("link closed")

// ErrUnsent is among the causes of a request's failure where not all of its frame was handed to
// the connection: the peer can't carry it out, now or later.
var ErrUnsent = errors.New("not sent")

// The texts of errors that are about no handler's subject.
const (
	refusedPassword = Refusal("invalid password")
	refusedStopping = Refusal("shutting down")
	refusedInternal = Refusal("internal error")
)

// publicText is the part of a handler's error that its peer may see, and
// whether that is all there is to know.
func publicText(err error) (text string, whole bool) {
	var refusal Refusal
	if errors.As(err, &refusal) {
		return string(refusal), true
	}
	return string(refusedInternal), false
}

// Code is what an error is, for programs; its text is for people, and is what clients have known
// for long. A peer gets a code with each error that answers a request, if it asked for codes.
type Code string

// The codes. docs/protocol.md says what each of them means to a client.
const (
	CodePassword  Code = "invalid-password"
	CodeForbidden Code = "forbidden"
	CodeUnknown   Code = "unknown-request"
	CodeInvalid   Code = "invalid-data"
	CodeNotFound  Code = "not-found"
	CodeLimit     Code = "over-limit"
	CodeRefused   Code = "refused"
	CodeStopping  Code = "stopping"
	CodeInternal  Code = "internal"
)

// With gives the refusal a code other than CodeRefused.
func (r Refusal) With(code Code) error { return &codedRefusal{r, code} }

// codedRefusal is a Refusal with a code of its own.
type codedRefusal struct {
	Refusal
	code Code
}

// Unwrap gives the refusal, which is what errors.As looks for.
func (c *codedRefusal) Unwrap() error { return c.Refusal }

// unknownRequest begins the text of the refusal of a request whose type the server does not know.
const unknownRequest = "unknown request type: '"

func refusedUnknown(typ string) error { return Refusal(unknownRequest + typ + "'").With(CodeUnknown) }

// CodeOf is the code of an error: of one that a peer answered, the code that came with it, or, from
// a peer that sends none, what its text means; of a handler's own, what a peer is told. An error
// that is neither has CodeInternal.
func CodeOf(err error) Code {
	var remote *RemoteError
	var coded *codedRefusal
	var refusal Refusal
	switch {
	case errors.As(err, &remote) && remote.Code != "":
		return remote.Code
	case errors.As(err, &remote):
		return codeOfText(remote.Text)
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &refusal):
		return codeOfText(string(refusal))
	}
	return CodeInternal
}

// codeOfText is what an error means that bears no code, as those of the original do.
func codeOfText(text string) Code {
	switch {
	case text == string(refusedPassword):
		return CodePassword
	case text == string(refusedStopping):
		return CodeStopping
	case text == string(refusedInternal):
		return CodeInternal
	case strings.HasPrefix(text, unknownRequest):
		return CodeUnknown
	}
	return CodeRefused
}
