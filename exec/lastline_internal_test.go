package exec

import (
	"strings"
	"testing"
	"unicode/utf8"

	"jobd/journal"
)

func TestLastLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                   "",
		"\n \t\r\n":                          "",
		"one":                                "one",
		"one\ntwo\n\n":                       "two",
		"one\r\ntwo\r\n":                     "two",
		"a\tb\x00\x07\x1b[2Jc":               "a b[2Jc",
		"\xff\xfe":                           "\ufffd",
		"x\u202edetrever\u2066 \u2028y":      "xdetrever y",
		"progress 1%\rprogress 100%\r":       "progress 100%",
		strings.Repeat("x\n", 1<<20) + "end": "end",
	} {
		if got := lastLine(journal.Output{Kept: []byte(text)}); got != want {
			t.Errorf("%.40q: %q, want %q", text, got, want)
		}
	}
	for _, long := range []string{strings.Repeat("x", 1<<20), strings.Repeat("€", 1<<20)} {
		if got := lastLine(journal.Output{Kept: []byte(long)}); len(got) > mostOfLine || len(got) < mostOfLine-5 || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("a long line: %q of %d bytes", got, len(got))
		}
	}
}
