package journal

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestOutputAsText(t *testing.T) {
	t.Parallel()
	const mark = "\n[jobd: output cut, 100 bytes in all]\n"
	for name, c := range map[string]struct {
		kept    string
		size    int64 // 0: nothing was cut
		limit   int
		charset Charset
		want    string
	}{
		"plain":                                {kept: "out\n", want: "out\n"},
		"nothing":                              {},
		"zero bytes":                           {kept: "a\x00b", want: "a\x00b"},
		"not UTF-8":                            {kept: "a\xffb\xc3", want: "a�b�"},
		"all of Unicode":                       {kept: "€ 🙂", want: "€ 🙂"},
		"three bytes a character":              {kept: "€ 🙂", charset: CharsetThreeByte, want: "€ �"},
		"the last character of three":          {kept: "\uffff", charset: CharsetThreeByte, want: "\uffff"},
		"cut by the worker":                    {kept: "abc", size: 100, want: "abc" + mark},
		"cut by the worker inside one":         {kept: "ab\xe2\x82", size: 100, want: "ab" + mark},
		"cut by the worker after bad bytes":    {kept: "ab\xff", size: 100, want: "ab�" + mark},
		"cut by the worker, nothing kept":      {size: 100, want: mark},
		"inside one, but nothing was cut":      {kept: "ab\xe2\x82", want: "ab�"},
		"just fits":                            {kept: "abcde", limit: 5, want: "abcde"},
		"does not fit":                         {kept: strings.Repeat("x", 100), limit: 50, want: strings.Repeat("x", 50-len(mark)) + mark},
		"does not fit, inside a character":     {kept: strings.Repeat("€", 33) + "x", limit: 50, want: strings.Repeat("€", (50-len(mark))/3) + mark},
		"grows over the limit":                 {kept: strings.Repeat("\xffa", 50), limit: 100, want: strings.Repeat("�a", (100-len(mark))/4) + mark},
		"both cut":                             {kept: strings.Repeat("x", 60), size: 100, limit: 50, want: strings.Repeat("x", 50-len(mark)) + mark},
		"fits but for the mark":                {kept: strings.Repeat("x", 40), size: 100, limit: 50, want: strings.Repeat("x", 50-len(mark)) + mark},
		"limit is the mark":                    {kept: strings.Repeat("x", 100), limit: len(mark), want: mark},
		"limit below the mark":                 {kept: strings.Repeat("x", 100), limit: 5, want: "xxxxx"},
		"limit below the mark, in a character": {kept: strings.Repeat("€", 33) + "x", limit: 5, want: "€"},
		"limit below one character":            {kept: "€", size: 100, limit: 2, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Output{Kept: []byte(c.kept), Size: max(c.size, int64(len(c.kept)))}
			if got := o.Text(c.limit, c.charset); got != c.want {
				t.Fatalf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestTextFitsTheColumn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		kept := rapid.SliceOfN(rapid.SampledFrom([]byte("a\x00\xff\xf0\x9f\x99\x82\xe2\x82\xac")), 0, 90).Draw(t, "kept")
		o := Output{Kept: kept, Size: int64(len(kept) + rapid.SampledFrom([]int{0, 0, 7}).Draw(t, "more"))}
		limit := rapid.IntRange(1, 80).Draw(t, "limit")
		text := o.Text(limit, CharsetThreeByte)
		if len(text) > limit || !utf8.ValidString(text) {
			t.Fatalf("%q of %d bytes", text, limit)
		}
		for _, r := range text {
			if r > 0xffff {
				t.Fatalf("%q holds %U", text, r)
			}
		}
	})
}

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
