package net

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"golang.org/x/time/rate"
)

// What a peer is told of an error, and what peers can have us log.

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

// What the peers of a server, or of a link that we made, may have us log: linesAtOnce, and then one
// each lineEvery.
const (
	linesAtOnce = 100
	lineEvery   = 200 * time.Millisecond
)

// Bounded is a logger for what others may have us log: so many lines at once, and then one every so
// often. The rest is counted, and the next line says how many were left out. Lines for debugging don't
// count.
func Bounded(log *slog.Logger, atOnce int, every time.Duration) *slog.Logger {
	return slog.New(&boundedHandler{log.Handler(), &lines{rate: rate.NewLimiter(rate.Every(every), atOnce)}})
}

// lines is what was logged. It is safe for concurrent use.
type lines struct {
	rate    *rate.Limiter
	leftOut atomic.Int64
}

// boundedHandler hands on what the bound allows.
type boundedHandler struct {
	slog.Handler
	bound *lines
}

func (h *boundedHandler) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelInfo {
		if !h.bound.rate.Allow() {
			h.bound.leftOut.Add(1)
			return nil
		}
		if n := h.bound.leftOut.Swap(0); n > 0 {
			record = record.Clone()
			record.AddAttrs(slog.Int64("lines_left_out", n))
		}
	}
	return h.Handler.Handle(ctx, record)
}

func (h *boundedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &boundedHandler{h.Handler.WithAttrs(attrs), h.bound}
}

func (h *boundedHandler) WithGroup(name string) slog.Handler {
	return &boundedHandler{h.Handler.WithGroup(name), h.bound}
}

// Excerpt is what a peer said, in a form that a log may hold: 200 bytes of it at most, and nothing
// that a terminal takes for more than letters.
func Excerpt(text string) string {
	const most = 200
	shown, rest := text, ""
	if len(text) > most {
		shown, rest = text[:most], "… ("+strconv.Itoa(len(text))+" bytes)"
	}
	shown = strings.ToValidUTF8(shown, "")
	if strings.IndexFunc(shown, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
		quoted := strconv.Quote(shown)
		shown = quoted[1 : len(quoted)-1]
	}
	return shown + rest
}
