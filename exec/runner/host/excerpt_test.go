package host

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// However a text comes, its beginning and its end are told, and that there was more.
func TestExcerpt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := newExcerpt()
		all := ""
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 500), 0, 8).Draw(t, "parts") {
			part := strings.Repeat("äb\n1", n/5) + strings.Repeat("x", n%5)
			e.take([]byte(part))
			all += part
		}
		want := all
		if len(all) > mostHead+mostTail {
			want = strings.ToValidUTF8(all[:mostHead]+" … "+all[len(all)-mostTail:], "�")
		}
		if got := e.excerpt(); got != strings.TrimRight(want, "\n") || !utf8.ValidString(got) {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}
