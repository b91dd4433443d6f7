package journal

import (
	"bytes"
	"strings"
	"testing"
)

func TestLastLine(t *testing.T) {
	t.Parallel()
	for kept, want := range map[string]string{
		"one":                                     "one",
		"one\ntwo":                                "two",
		"one\ntwo\n":                              "two",
		"one\r\n two \r\n\r\n":                    "two",
		"one\ntwo\n \t\v\f\r\n":                   "two",
		"one\n\x00\x07\n\u00a0\u2003\n":           "one",
		"progress 1%\rprogress 100%\r":            "progress 100%",
		"\x1b[31mred":                             "\x1b[31mred",
		"one\n\xff\xfe":                           "\xff\xfe",
		"one\n€ \u202e":                           "€ \u202e",
		strings.Repeat("x", 1<<20):                strings.Repeat("x", 1<<20),
		"end" + strings.Repeat("\n \x00", 1<<20):  "end",
		strings.Repeat("x\n", 1<<20) + "the end ": "the end",
	} {
		if got := (Output{Kept: []byte(kept)}).LastLine(); string(got) != want {
			t.Errorf("%.40q: %.40q, want %.40q", kept, got, want)
		}
	}
	for _, kept := range [][]byte{nil, {}, []byte("\n"), []byte(" \r\n\x00\t\n"), bytes.Repeat([]byte("\n"), 1<<20)} {
		if got := (Output{Kept: kept}).LastLine(); got != nil {
			t.Errorf("%.40q: %q, want nil", kept, got)
		}
	}
}
