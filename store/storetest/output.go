package storetest

import (
	"fmt"
	"strings"

	"jobd/journal"
	"jobd/store"
)

// outputTests check that the row ends in done, whatever a job writes.
func outputTests() []test {
	whole := []struct{ name, output, full, threeByte string }{
		{"empty", "", "", ""},
		{"NUL bytes", "a\x00b\x00", "a\x00b\x00", "a\x00b\x00"},
		{"invalid UTF-8", "a\xffb\xc3(c", "a\uFFFDb\uFFFD(c", "a\uFFFDb\uFFFD(c"},
		{"pitfall 10: emoji", "so \U0001F600 é€", "so \U0001F600 é€", "so \uFFFD é€"},
		{"quotes and backslashes", `it's "quoted" \ \' ? %s ; -- #` + "\r\n\x1a", `it's "quoted" \ \' ? %s ; -- #` + "\r\n\x1a", `it's "quoted" \ \' ? %s ; -- #` + "\r\n\x1a"},
		{"half a character at the end", "é\xc3", "é\uFFFD", "é\uFFFD"},
		{"what looks like a statement", "'; COMMIT; UPDATE jobs SET status='waiting'; --", "'; COMMIT; UPDATE jobs SET status='waiting'; --", "'; COMMIT; UPDATE jobs SET status='waiting'; --"},
		{"a megabyte of newlines", strings.Repeat("\n", 1<<20), strings.Repeat("\n", 1<<20), strings.Repeat("\n", 1<<20)},
	}
	var tests []test
	for _, c := range whole {
		tests = append(tests, test{c.name, func(s *suite) {
			want := c.full
			if s.Charset == journal.CharsetThreeByte {
				want = c.threeByte
			}
			s.expectOutput(output(c.output), want)
		}})
	}
	return append(tests, test{"more than was kept", func(s *suite) {
		stream := journal.Output{Kept: []byte("the beginning €"[:len("the beginning €")-1]), Size: 70_000_000}
		s.expectOutput(stream, "the beginning "+"\n[jobd: output cut, 70000000 bytes in all]\n")
	}})
}

// expectOutput lets a job end with the stream as its stdout and its stderr.
func (s *suite) expectOutput(stream journal.Output, want string) {
	s.Helper()
	id := s.insert("a", journal.RowRunning, token)
	s.apply([]store.Change{done(id, &journal.Done{Result: "fail", Code: code(3), Stdout: stream, Stderr: stream})}, []store.Outcome{{}})
	got := s.read(id)
	if got.Status != journal.RowDone || got.Result != "fail" || got.Code != 3 {
		s.Errorf("the row is %s, %s, %d; want done, fail, 3", got.Status, got.Result, got.Code)
	}
	for name, text := range map[string]string{"stdout": got.Stdout, "stderr": got.Stderr} {
		if text != want {
			s.Errorf("%s: %s, want %s", name, brief(text), brief(want))
		}
	}
}

// brief is a text short enough for a message.
func brief(text string) string {
	if len(text) <= 100 {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%d bytes, %q … %q", len(text), text[:30], text[len(text)-60:])
}
