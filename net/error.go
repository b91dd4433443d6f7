package net

import (
	"errors"
	"fmt"
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
