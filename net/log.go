package net

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"golang.org/x/time/rate"
)

// What peers may have us log, all of them together: linesAtOnce, and then one each lineEvery. The
// rest is counted, and the next line says how many were left out. Lines for debugging don't count.
const (
	linesAtOnce = 100
	lineEvery   = 200 * time.Millisecond
)

// lines bounds what peers have us log. It is safe for concurrent use.
type lines struct {
	rate    *rate.Limiter
	leftOut atomic.Int64
}

func newLines() *lines { return &lines{rate: rate.NewLimiter(rate.Every(lineEvery), linesAtOnce)} }

// logger gives the logger for what is said of a peer.
func (b *lines) logger(log *slog.Logger, remote net.Addr) *slog.Logger {
	return slog.New(&peerHandler{log.Handler(), b}).With("peer", remote.String())
}

// peerHandler hands on what the bound allows.
type peerHandler struct {
	slog.Handler
	bound *lines
}

func (h *peerHandler) Handle(ctx context.Context, record slog.Record) error {
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

func (h *peerHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &peerHandler{h.Handler.WithAttrs(attrs), h.bound}
}

func (h *peerHandler) WithGroup(name string) slog.Handler {
	return &peerHandler{h.Handler.WithGroup(name), h.bound}
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
