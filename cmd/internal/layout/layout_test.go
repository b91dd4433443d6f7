package layout_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"jobd/cmd/internal/layout"
	"jobd/store/storetest/check"
)

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text  string
		width int
		want  []string
	}{
		{"", 10, nil},
		{"a b c", 3, []string{"a b", "c"}},
		{"  a\n b ", 10, []string{"a b"}},
		{"ende größe", 5, []string{"ende", "größe"}},
		{"a-long-word b", 4, []string{"a-long-word", "b"}},
		{"of: one,two,three,four", 10, []string{"of:", "one,two,", "three,four"}},
		{",,,,,", 3, []string{",,,", ",,"}},
	} {
		check.Elements(t, layout.Wrap(test.text, test.width), test.want, "%q in %d", test.text, test.width)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	layout.List(&out, []layout.Term{
		{"--a", "short"},
		{"--longer", strings.Repeat("word ", 20)},
		{"--" + strings.Repeat("x", 40), "begins below"},
		{"--none", ""},
	})
	want := `  --a       short
  --longer  word word word word word word word word word word word word word
            word word word word word word word
  --xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
            begins below
  --none
`
	if out.String() != want {
		t.Errorf("wrote:\n%s\nwant:\n%s", &out, want)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(line) - 1; n > layout.Width {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}
