package conf_test

import (
	"io"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"jobd/cmd/internal/conf"
)

// check runs decode, which fills field, on each text; a nil value is one that must be refused.
func check[T comparable](t *testing.T, decode conf.Decode, field *T, values map[string]any) {
	t.Helper()
	for text, want := range values {
		before := *field
		err := decode(text)
		if _, odd := err.(conf.Odd); odd {
			err = nil // taken
		}
		switch {
		case want == nil && err == nil:
			t.Errorf("%q is taken as %v, want an error", text, *field)
		case want == nil && *field != before:
			t.Errorf("%q is refused, and yet the field is %v", text, *field)
		case want != nil && err != nil:
			t.Errorf("%q is refused: %v", text, err)
		case want != nil && *field != want:
			t.Errorf("%q is %v, want %v", text, *field, want)
		}
	}
}

func TestDecodeBool(t *testing.T) {
	t.Parallel()
	var field bool
	check(t, conf.Bool(&field), &field, map[string]any{"1": true, "true": true, "0": false, "false": false, "yes": false, "on": false, "TRUE": false, "": false, "2": false})
}

func TestDecodeInt(t *testing.T) {
	t.Parallel()
	var field int
	check(t, conf.Int(&field, 1, 65535), &field, map[string]any{"1": 1, "65535": 65535, "0": nil, "65536": nil, "-1": nil, "": nil, "1.5": nil, "0x10": nil, "5 ": nil, "99999999999999999999": nil})
	check(t, conf.Int(&field, 0, math.MaxInt), &field, map[string]any{"0": 0, "1000000": 1000000, "-1": nil})
}

func TestDecodeDuration(t *testing.T) {
	t.Parallel()
	var field time.Duration
	check(t, conf.Duration(&field, 0), &field, map[string]any{
		"0": time.Duration(0), "10": 10 * time.Second, "0.5": 500 * time.Millisecond, "500ms": 500 * time.Millisecond, "2m": 2 * time.Minute, "1h30m": 90 * time.Minute,
		"30d": 30 * 24 * time.Hour, "1.5d": 36 * time.Hour,
		"": nil, "-1": nil, "-1s": nil, "soon": nil, "d": nil, "1w": nil, "NaN": nil, "Inf": nil, "1e300": nil, "1000000d": nil,
	})
	check(t, conf.Duration(&field, time.Second), &field, map[string]any{"1": time.Second, "0.9": nil})
}

func TestDecodeSize(t *testing.T) {
	t.Parallel()
	var field int64
	check(t, conf.Size(&field, 1, 1<<30), &field, map[string]any{
		"1": int64(1), "1048576": int64(1 << 20), "16MiB": int64(16 << 20), "64 KiB": int64(64 << 10), "1MB": int64(1_000_000), "1GiB": int64(1 << 30),
		"": nil, "0": nil, "-1": nil, "2GiB": nil, "much": nil, "99999999999999999999": nil, "20EiB": nil,
	})
}

func TestDecodeOneOf(t *testing.T) {
	t.Parallel()
	var field string
	check(t, conf.OneOf(&field, "mysql", "sqlite"), &field, map[string]any{"mysql": "mysql", "sqlite": "sqlite", "": nil, "MySQL": nil, "postgres": nil})
}

func TestDecodeNonEmpty(t *testing.T) {
	t.Parallel()
	var field string
	check(t, conf.NonEmpty(&field), &field, map[string]any{"a": "a", "": nil})
}

func TestDecodeLevel(t *testing.T) {
	t.Parallel()
	var field slog.Level
	check(t, conf.Level(&field), &field, map[string]any{
		"trace": slog.Level(-8), "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError, "WARN": slog.LevelWarn,
		"": nil, "fatal": nil, "4": nil, "warn+1": nil,
	})
}

// A switch that is no original's takes the words of the specification and those of the others, and nothing else: an
// odd one is not taken for no.
func TestYesAndNo(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"yes": true, "true": true, "1": true, "no": false, "false": false, "0": false} {
		got := !want
		if err := conf.YesNo(&got)(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "on", "Yes", "y", "yes please"} {
		if err := conf.YesNo(new(bool))(text); err == nil || !strings.Contains(err.Error(), "yes, no") {
			t.Errorf("%q: %v", text, err)
		}
	}
	set := conf.New(conf.Program{})
	var h conf.HTTP
	h.Register(set)
	if err := set.Parse([]string{"--http-read-only"}, nil, io.Discard); err != nil || !h.ReadOnly {
		t.Errorf("the switch alone: %v, %v", h.ReadOnly, err)
	}
}
