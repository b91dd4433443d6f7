package screen

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// onScreen is what a terminal gets of writes.
func onScreen(mark string, writes ...string) string {
	var out strings.Builder
	s := New(&out, mark)
	for _, text := range writes {
		fmt.Fprint(s, text)
	}
	s.Flush()
	return out.String()
}

func TestScreenShowsWhatATerminalWouldObeyOrHide(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"plain text":               {"Grüße, 日本語 🙂 a\tb\n", "Grüße, 日本語 🙂 a\tb\n"},
		"colours of a job":         {"\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`},
		"title and clipboard":      {"\x1b]0;t\a\x1b]52;c;QQ==\x1b\\", `\x1b]0;t\x07\x1b]52;c;QQ==\x1b\`},
		"C1, as a character":       {"\u009b2J\u0085", `\u009b2J\u0085`},
		"C1, as a byte":            {"\x9b2J", `\x9b2J`},
		"the line is overwritten":  {"rm -rf /\rls\n", `rm -rf /\rls` + "\n"},
		"backspace, delete":        {"no\b\byes\x7f", `no\x08\x08yes\u007f`},
		"NUL, bell, vertical tab":  {"\x00\a\v\f", `\x00\x07\x0b\x0c`},
		"bidirectional":            {"a\u202eb\u2066c\u200fd\u061c", `a\u202eb\u2066c\u200fd\u061c`},
		"without width":            {"a\u200bb\u2060c\ufeffd\u00ade", `a\u200bb\u2060c\ufeffd\u00ade`},
		"tags and selectors":       {"a\U000e0041\U000e0101\ufe01", `a\udb40\udc41\udb40\udd01\ufe01`},
		"fillers":                  {"a\u3164b\u115fc\u034fd", `a\u3164b\u115fc\u034fd`},
		"separators":               {"a\u2028b\u2029c", `a\u2028b\u2029c`},
		"no UTF-8":                 {"\xff\xc0\xafx\xed\xa0\x80", `\xff\xc0\xafx\xed\xa0\x80`},
		"somebody guesses a mark":  {"\xffMARK\x1b[2J\xffMARK", `\xffMARK\x1b[2J\xffMARK`},
		"half a character, an end": {"a\xe2\x80", `a\xe2\x80`},
	} {
		check.Equal(t, onScreen("\xffsecret", test.text), test.want, "%s", name)
		var bytewise []string
		for i := range len(test.text) {
			bytewise = append(bytewise, test.text[i:i+1])
		}
		check.Equal(t, onScreen("\xffsecret", bytewise...), test.want, "%s, byte by byte", name)
	}
}

func TestScreenLetsOnlyOurOwnThrough(t *testing.T) {
	t.Parallel()
	const mark = "\xffsecret"
	got := onScreen(mark, mark+"\x1b[32m"+mark+"\x1b[31mdone"+mark+"\x1b[m"+mark+"\n")
	check.Equal(t, got, "\x1b[32m"+`\x1b[31mdone`+"\x1b[m\n")
}

func TestScreenCutsEndlessLinesAndSaysSo(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", longestLine)
	if got := onScreen("m", long+"\nshort\n"); got != long+"\nshort\n" {
		t.Errorf("%d bytes of a line that is not too long", len(got))
	}
	if got, want := onScreen("m", long+"yyy\nshort\n"), long+" … and 3 more characters in this line\nshort\n"; got != want {
		t.Errorf("…%s", got[max(0, len(got)-80):])
	}
	if got, want := onScreen("m", long, "y"), long+" … and 1 more characters in this line"; got != want {
		t.Errorf("…%s", got[max(0, len(got)-80):])
	}
}

// JSON on a terminal stays JSON, and says the same.
func TestJSONOnAScreenStaysJSON(t *testing.T) {
	t.Parallel()
	const nasty = "a\x1b[2J\u202eb\rc\u200b\x7f\u009b\U000e0041"
	text := must.Get(json.Marshal(nasty))(t)
	var back string
	if err := json.Unmarshal([]byte(onScreen("m", string(text))), &back); err != nil || back != nasty {
		t.Errorf("%q, %v", back, err)
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "Grüße 🙂": "Grüße 🙂", "two\nlines\tand\rmore": `two\nlines\tand\rmore`, "\x1b[m\xff\u202e": `\x1b[m\xff\u202e`,
	} {
		check.Equal(t, Clean(text), want, "%q", text)
	}
}

func TestLengthsOfTime(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 400 * time.Millisecond: "0s", 59 * time.Second: "59s", 59600 * time.Millisecond: "1m0s",
		61 * time.Second: "1m1s", time.Hour - time.Second: "59m59s", 76 * time.Hour: "3d4h",
		25*time.Hour + 59*time.Minute: "1d1h", 400 * 24 * time.Hour: "400d0h",
	} {
		check.Equal(t, Length(d), want, "%v is", d)
	}
	for d, want := range map[time.Duration]string{
		-time.Second: "0.00s", 350 * time.Millisecond: "0.35s", 10 * time.Second: "10s", 61 * time.Second: "1m1s",
	} {
		check.Equal(t, ShortLength(d), want, "%v is", d)
	}
}
