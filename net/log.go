package net

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"golang.org/x/time/rate"
)

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
