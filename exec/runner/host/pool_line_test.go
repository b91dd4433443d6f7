package host

import (
	"fmt"
	"strings"
	"testing"
)

// A number that is too large for what it stands for is no answer. The system would take it for
// another one: 4294967296 for a status of 0, and -4294967297 for all processes there are.
func TestAnswersWithNumbersThatAreTooLarge(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]answer{
		"started 1":                          {word: "started", job: 1},
		"started 1 2147483647":               {word: "started", job: 1, number: 2147483647, has: true},
		"started 1 2147483648":               {},
		"started 1 4294967297":               {},
		"started 1 18446744073709551617":     {},
		"started 1 -1":                       {},
		"ended 1 65535":                      {word: "ended", job: 1, number: 65535, has: true},
		"ended 1 65536":                      {},
		"ended 1 4294967296":                 {},
		"exit 1 255":                         {word: "exit", job: 1, number: 255, has: true},
		"exit 1 256":                         {},
		"exit 1 18446744073709551616":        {},
		"exit 9223372036854775807 0":         {word: "exit", job: 9223372036854775807, has: true},
		"exit 9223372036854775808 0":         {},
		"exit 18446744073709551617 0":        {},
		"refused 18446744073709551617":       {},
		"refused 1 0":                        {},
		"exit 1 " + strings.Repeat("9", 400): {},
		"exit 1 0 0":                         {},
		"exit 1 ":                            {},
	} {
		want.line = line
		if a, ok := parseAnswer([]byte(line)); ok != (want.word != "") || ok && a != want {
			t.Errorf("%.60q: %+v, %t", line, a, ok)
		}
	}
}

// A process that says such a number is killed, the log has what it said, and nothing that it said with
// it counts.
func TestAProcessThatSaysANumberThatIsTooLargeIsKilled(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ mode, says string }{
		{"pool", "exit 1 4294967296"}, {"pool", "exit 18446744073709551617 0"}, {"fork", "ended 1 4294967296"},
	} {
		t.Run(test.says, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p := pooled(test.mode, 1)
			if test.mode == "fork" {
				p.Argv[2] = strings.Replace(forkLoop, `print $out "ended $id $?\n"`, `print $out ($id == 1 ? "`+test.says+`\nended 1 0\n" : "ended $id $?\n")`, 1)
			}
			b.pools(p)
			done := b.run(1, work(test.mode, fmt.Sprintf(`printf '%s\nexit 1 0\n' >&4; exec sleep 300`, test.says), "exit 3"))
			if done.Result == "ok" {
				t.Errorf("done %+v", done)
			}
			b.noted(fmt.Sprintf("it wrote %q to descriptor 4, where e", test.says))
			if done := b.run(2, work(test.mode, "true", "exit 0")); done.Result != "ok" {
				t.Errorf("the next job: %+v", done)
			}
		})
	}
}
