package page

import (
	"html/template"
	"strings"
	"testing"
)

func TestWhatJobsWriteIsColouredAndHarmless(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]template.HTML{
		"plain & <b>":                           "plain &amp; &lt;b&gt;",
		"\x1b[31mred\x1b[0m not":                `<span class="f1">red</span> not`,
		"\x1b[1;32mboth\x1b[22m green\x1b[39m.": `<span class="f2 a1">both</span><span class="f2"> green</span>.`,
		"\x1b[38;5;200mmany\x1b[48;2;1;2;3m of": "many of",
		"\x1b[38:5:1;4mx":                       `<span class="a4">x</span>`,
		"10%\r50%\r100%\nend":                   "100%\nend",
		"line\r\nnext":                          "line\nnext",
		"a\tb":                                  "a\tb",
		"\x1b]0;title\a<i>":                     "&lt;i&gt;",
		"\x1b]8;;http://x/\x1b\\link\x1b]8;;\a": "link",
		"\x1b[2Jcleared\x1b[10;10Hmoved":        "clearedmoved",
		"\x1b[31":                               "",
		"\x1b":                                  "",
		"\x1b[3\n1mx":                           "\n1mx",
		"\x1b(Bx":                               "Bx",
		"bell\a nul\x00 rtl\u202e":              `bell\x07 nul\x00 rtl\u202e`,
		"\xff\xfe":                              `\xff\xfe`,
		"\x1b[\"><script>m":                     `<span`,
	} {
		got := coloured(text)
		if want == "<span" { // whatever it is, it is no markup
			if strings.Contains(string(got), "<script") {
				t.Errorf("%q: %s", text, got)
			}
			continue
		}
		if got != want {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestTheEndOfATextBeginsWithALine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		most int
		want string
		cut  bool
	}{
		{"short", 10, "short", false},
		{"one\ntwo\nthree", 8, "three", true},
		{"ääää", 3, "ä", true},
		{"noline", 3, "ine", true},
		{"ends\n", 3, "ds\n", true},
	} {
		if got, cut := tail(test.text, test.most); got != test.want || cut != test.cut {
			t.Errorf("%q, %d: %q, %v", test.text, test.most, got, cut)
		}
	}
}

// Whatever a job writes, no tag but span with these classes gets into the page.
func FuzzColoured(f *testing.F) {
	f.Add("\x1b[1;31mx\x1b[0m<\x1b]0;\a")
	f.Fuzz(func(t *testing.T, text string) {
		got := string(coloured(text))
		got = strings.ReplaceAll(got, "</span>", "")
		for {
			at := strings.IndexByte(got, '<')
			if at < 0 {
				break
			}
			tag, rest, closed := strings.Cut(got[at:], ">")
			class, is := strings.CutPrefix(tag, `<span class="`)
			if !closed || !is || strings.Trim(strings.TrimSuffix(class, `"`), "fab0123456789 ") != "" {
				t.Fatalf("%q: %q", text, tag)
			}
			got = rest
		}
	})
}
