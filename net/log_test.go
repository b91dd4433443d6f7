package net

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lineLog is a log that may be written while it is read.
type lineLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lineLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lineLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Regression: 640 frames without the password made a log of 21 MiB.
func TestPeersDoNotWriteTheLog(t *testing.T) {
	t.Parallel()
	const secret = "written by a peer"
	text := strings.Repeat(secret, 3000)
	frames := map[string]string{
		"an error":         `[1,{"no":0,"error":"` + text + `"}]`,
		"an answer":        `[1,{"no":1,"data":"` + text + `"}]`,
		"nonsense":         `[` + text,
		"a wrong password": `[0,{"no":1,"type":"` + text + `","password":"` + text[:1000] + `"}]`,
		"another protocol": text,
		"a wrong kind":     `["` + text + `"]`,
		"no request":       `[0,{"no":1,"type":7,"` + text + `":1}]`,
	}
	for name, frame := range frames {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log lineLog
				server := NewServer(ServerConfig{Password: "s3cret", Logger: slog.New(slog.NewTextHandler(&log, nil))})
				for range 100 {
					ours, theirs := net.Pipe()
					server.accept(theirs)
					go func() {
						defer ours.Close()
						go func() { _, _ = io.Copy(io.Discard, ours) }()
						for range 6 {
							_, _ = io.WriteString(ours, frame+"\x04")
						}
					}()
				}
				synctest.Wait()
				if lines := strings.Count(log.String(), "\n"); strings.Contains(log.String(), secret) || lines > linesAtOnce || len(log.String()) > lines*200 {
					t.Errorf("%d lines, %d bytes: %.1000s", lines, len(log.String()), log.String())
				}
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				_ = server.Shutdown(ended)
			})
		})
	}
}

// A peer with the password does not write the log either, though it is heard.
func TestPeersOfOurOwnAreCutShort(t *testing.T) {
	t.Parallel()
	var log lineLog
	address, _ := serve(t, ServerConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	peer := dial(t, address)
	for range 3 * linesAtOnce {
		peer.send(`[1,{"no":0,"error":"` + strings.Repeat("x", 60000) + `"}]`)
	}
	peer.send(`[2]`)
	peer.expect(`[3]`)
	if lines := strings.Count(log.String(), "\n"); lines < linesAtOnce || lines > 2*linesAtOnce || len(log.String()) > lines*500 || !strings.Contains(log.String(), "xxx") {
		t.Errorf("%d lines, %d bytes", lines, len(log.String()))
	}
}

// All lines about peers together are bounded, and the next one tells how many were left out. Lines
// for debugging are not.
func TestLinesOfAllPeersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log lineLog
		base := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		bound := Bounded(base, linesAtOnce, lineEvery)
		for i := range 20 * linesAtOnce {
			peer := bound.With("peer", i)
			peer.With("x", 1).WithGroup("g").Warn("something", "y", 2)
			peer.Debug("detail")
		}
		if some, details := strings.Count(log.String(), "something"), strings.Count(log.String(), "detail"); some != linesAtOnce || details != 20*linesAtOnce {
			t.Errorf("%d lines, %d for debugging", some, details)
		}
		time.Sleep(lineEvery) // the bubble's clock
		bound.Warn("later")
		if want := fmt.Sprintf("msg=later lines_left_out=%d", 19*linesAtOnce); !strings.Contains(log.String(), want) {
			t.Errorf("%s is not told:\n%s", want, log.String()[len(log.String())-200:])
		}
	})
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain é":                "plain é",
		"a\nb\x1b[2J":            `a\nb\x1b[2J`,
		"\u202egnp":              `\u202egnp`,
		"\xff":                   "",
		strings.Repeat("é", 150): strings.Repeat("é", 100) + "… (300 bytes)",
	} {
		if got := Excerpt(text); got != want {
			t.Errorf("Excerpt(%q) = %q, want %q", text, got, want)
		}
	}
}
