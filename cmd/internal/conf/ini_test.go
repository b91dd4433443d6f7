package conf

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// said is what a text says, without what is noted of the way it is written.
func said(text string) (all []entry) {
	for e := range entries(text) {
		all = append(all, entry{line: e.line, section: e.section, key: e.key, value: e.value, bad: e.bad})
	}
	return all
}

func notClosed(quote rune) string {
	return fmt.Sprintf("a quote %c is not closed; allowed: a name between two of them", quote)
}

func TestReadINILines(t *testing.T) {
	t.Parallel()
	const notUnderstood = "not understood; allowed: key = value, [section], and comments from ; or #"
	const noSection = "not a section; allowed: [name] alone in a line"
	for name, test := range map[string]struct {
		text string
		want []entry
	}{
		"nothing":           {"", nil},
		"blanks, comments":  {"\n  \n; a = b\n# c = d\n\t;x\n", nil},
		"no newline at end": {"a = 1", []entry{{line: 1, key: "a", value: "1"}}},
		"no spaces":         {"a=1", []entry{{line: 1, key: "a", value: "1"}}},
		"no value":          {"a =", []entry{{line: 1, key: "a"}}},
		"key alone is true": {"a\nb ; comment", []entry{{line: 1, key: "a", value: "true"}, {line: 2, key: "b", value: "true"}}},
		"byte order mark":   {"\ufeffa = 1", []entry{{line: 1, key: "a", value: "1"}}},
		"old carriage returns": {"a = 1\rb = 2\n[s]\rc = 3", []entry{
			{line: 1, key: "a", value: "1"}, {line: 1, key: "b", value: "2"}, {line: 2, section: "s"}, {line: 2, section: "s", key: "c", value: "3"},
		}},
		"NUL bytes": {"a = 1\x00", []entry{
			{line: 1, bad: "a NUL byte; allowed: text in UTF-8 (a file in UTF-16 must be converted, as with: iconv -f UTF-16 -t UTF-8)"},
		}},
		"carriage returns":   {"a = 1\r\n\r\nb = \"2\"\r\n", []entry{{line: 1, key: "a", value: "1"}, {line: 3, key: "b", value: "2"}}},
		"equals in a value":  {"a = b=c=d", []entry{{line: 1, key: "a", value: "b=c=d"}}},
		"dotted keys":        {"launcher.env.Path = x", []entry{{line: 1, key: "launcher.env.Path", value: "x"}}},
		"slashes and colons": {"[targets]\na/b:c = 1", []entry{{line: 1, section: "targets"}, {line: 2, section: "targets", key: "a/b:c", value: "1"}}},
		"comment after a section, with a bracket": {
			"[targets] ; see [2]\na = 1",
			[]entry{{line: 1, section: "targets"}, {line: 2, section: "targets", key: "a", value: "1"}},
		},
		"a quote that never closes keeps to its line": {
			"a = `x\nb = \"\"\"y\nc = 'z\nd = 1",
			[]entry{{line: 1, key: "a", value: "`x"}, {line: 2, key: "b", value: `"""y`}, {line: 3, key: "c", value: "'z"}, {line: 4, key: "d", value: "1"}},
		},
		"a backslash at the end keeps to its line": {
			"a = x\\\nb = 1", []entry{{line: 1, key: "a", value: `x\`}, {line: 2, key: "b", value: "1"}},
		},
		"a name in quotes is the name inside": {
			"\" q \" = 1\n'r' = 2 ; x\n\n'a\"b;#' = 4\n\"a\\\"\\u00e9\"=5\n\" t \" # x",
			[]entry{
				{line: 1, key: " q ", value: "1"},
				{line: 2, key: "r", value: "2"},
				{line: 4, key: `a"b;#`, value: "4"},
				{line: 5, key: `a"é`, value: "5"},
				{line: 6, key: " t ", value: "true"},
			},
		},
		"a backquote is part of the name, as in the original": {
			"[targets]\n`b` = 1 ; x\n`c = \"2\"\n`d`",
			[]entry{
				{line: 1, section: "targets"},
				{line: 2, section: "targets", key: "`b`", value: "1"},
				{line: 3, section: "targets", key: "`c", value: "2"},
				{line: 4, section: "targets", key: "`d`", value: "true"},
			},
		},
		"a name without quotes is trimmed": {"  q r\t = 1", []entry{{line: 1, key: "q r", value: "1"}}},
		"a quote in a name is part of it":  {`q"r = 1`, []entry{{line: 1, key: `q"r`, value: "1"}}},
		"a name whose quote never closes": {
			"\"q = 1\n'q = 1\n\n\"q\\\" = 1",
			[]entry{
				{line: 1, bad: notClosed('"')},
				{line: 2, bad: notClosed('\'')},
				{line: 4, bad: notClosed('"')},
			},
		},
		"text behind a quoted name": {`"q" r = 1`, []entry{{line: 1, bad: `text between the closing quote " and the =; allowed: the whole name in quotes`}}},
		"a wrong escape in a name":  {`"\q" = 1`, []entry{{line: 1, bad: `a \ that begins no escape; in double quotes allowed: the escapes of JSON, a backslash itself is \\`}}},
		"an empty name, or one with =": {
			"\"\" = 1\n'a=b' = 1",
			[]entry{
				{line: 1, bad: "not a name; allowed: any text but an empty one, without = and control characters"},
				{line: 2, bad: "not a name; allowed: any text but an empty one, without = and control characters"},
			},
		},
		"references are not resolved": {"a = %(b)s\nb = 1", []entry{{line: 1, key: "a", value: "%(b)s"}, {line: 2, key: "b", value: "1"}}},
		"no key":                      {"= 1", []entry{{line: 1, bad: notUnderstood}}},
		"section without an end":      {"[targets", []entry{{line: 1, bad: noSection}}},
		"section without a name":      {"[ ]", []entry{{line: 1, bad: noSection}}},
		"text after a section":        {"[a] b = 1", []entry{{line: 1, bad: noSection}}},
		"the next line counts again":  {"[a\nb = 1", []entry{{line: 1, bad: noSection}, {line: 2, key: "b", value: "1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, said(test.text), cmp.AllowUnexported(entry{})); diff != "" {
				t.Errorf("%q (-want +got):\n%s", test.text, diff)
			}
		})
	}
}

func TestDecodeValue(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"bare":                               {`abc def`, `abc def`},
		"semicolon comment":                  {`abc ; def`, `abc`},
		"hash comment":                       {`abc # def`, `abc`},
		"comment without a space":            {`abc;def`, `abc`},
		"escaped semicolon":                  {`a\;b;c`, `a;b`},
		"escaped hash":                       {`a\#b #c`, `a#b`},
		"escaped backslash":                  {`C:\\dir`, `C:\dir`},
		"backslash before another letter":    {`C:\dir`, `C:\dir`},
		"double quotes":                      {`"abc"`, `abc`},
		"comment signs in double quotes":     {`"a;b#c"`, `a;b#c`},
		"comment after double quotes":        {`"a;b" ; "c"`, `a;b`},
		"escaped quote in double quotes":     {`"a\"b" # c`, `a"b`},
		"spaces in double quotes stay":       {`"  a  "`, `  a  `},
		"single quotes":                      {`'a "b" ; c'`, `a "b" ; c`},
		"backslash in single quotes":         {`'a\b'`, `a\b`},
		"empty quotes":                       {`""`, ``},
		"several quoted words":               {`"a;b" and "c"`, `"a;b" and "c"`},
		"quoted word first, comment at last": {`"a" b ; c`, `"a" b`},
		"quote in the middle":                {`sh "a b"`, `sh "a b"`},
		"quote that is not closed":           {`"abc`, `"abc`},
		"no JSON in double quotes":           {`"a\d"`, `"a\d"`},
		"one quote alone":                    {`"`, `"`},
		"comment alone":                      {`; all`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check.Equal(t, new(entry).decoded(test.text), test.want, "%s is", test.text)
		})
	}
}

// FuzzReadINI: no file makes the reader fail or say something about lines that it
// does not have, and lines do not change the meaning of those after them.
func FuzzReadINI(f *testing.F) {
	for _, text := range []string{
		"a = 1\n[targets]\na/b:c = \"2\" ; x\n", "\ufeff`a` = `\n\"\"\"\n", "[\n]\n=\n-\n\"a=b\"=c", "\x00=\x00\n=\x00", "a\\;b", "\"\\n\"", "\"\\u003d\"",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		entries := slices.Collect(entries(text + "\nlast = 7"))
		lines := strings.Count(text, "\n") + 2
		before := 0
		for _, e := range entries {
			if e.line < before || e.line > lines || e.line == before && !strings.Contains(text, "\r") {
				t.Fatalf("line %d of %d after line %d", e.line, lines, before)
			}
			before = e.line
			if e.bad == "" && e.key == "" && e.section == "" {
				t.Fatalf("line %d says nothing", e.line)
			}
			if strings.ContainsAny(e.key, "=\x00\n") {
				t.Fatalf("line %d: key %q", e.line, e.key)
			}
		}
		if last := entries[len(entries)-1]; last.key != "last" || last.value != "7" || last.line != lines {
			t.Fatalf("the line last = 7 at the end is read as %+v", last)
		}
	})
}

// FuzzQuotedValue: whatever a password is, in JSON's double quotes it arrives unharmed.
func FuzzQuotedValue(f *testing.F) {
	for _, value := range []string{"", "a", "a;b#c", `"`, `\`, "`x", `"""`, " spaces ", "\t\n\x00", "ü😀"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		value = strings.ToValidUTF8(value, "?")
		quoted := must.Get(json.Marshal(value))(t)
		want := []entry{{line: 1, key: "password", value: value}}
		if diff := cmp.Diff(want, said("password = "+string(quoted)+" ; \" comment"), cmp.AllowUnexported(entry{})); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}
