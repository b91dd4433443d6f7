package history

import (
	"strings"
	"testing"
	"unicode/utf8"

	"jobd/journal"
)

func TestLastLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                  "",
		"\n \n":                             "",
		"one":                               "one",
		"one\ntwo\n":                        "two",
		"one\n  two  \r\n\t\n":              "two",
		"10 %\r20 %\r":                      "20 %",
		"x\n" + strings.Repeat("a", 300):    strings.Repeat("a", 200),
		"a" + strings.Repeat("\u00e9", 200): "a" + strings.Repeat("\u00e9", 99),
		"\xff\xfe":                          "\xff\xfe",
	} {
		done := journal.Done{Stdout: journal.Output{Kept: []byte("out")}, Stderr: journal.Output{Kept: []byte(text)}}
		cut, _ := withLastLine(journal.Event{Payload: done}).Payload.(journal.Done)
		got := string(cut.Stderr.Kept)
		if got != want || cut.Stdout.Kept != nil || utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
