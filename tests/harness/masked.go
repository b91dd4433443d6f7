package harness

import (
	"regexp"
	"strings"
)

// masks are what differs from run to run. Each is replaced by a word, on the page and in what was
// printed, so that the rest can be compared.
var masks = []struct {
	pattern *regexp.Regexp
	word    string
}{
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?Z?`), "TIME"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d\b`), "TIME"},
	{regexp.MustCompile(`\b\d\d:\d\d(:\d\d(\.\d+)?)?\b`), "TIME"},
	{regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+:\d+\b`), "ADDRESS"},
	{regexp.MustCompile(`(?i)\b(pid|process)([ :=]+)\d+`), "${1}${2}PID"},
	{regexp.MustCompile(`@[0-9a-z]{9}\b`), "@TOKEN"},
	{regexp.MustCompile(`@[0-9a-z]{4}\b`), "@MARK"},
	{regexp.MustCompile(`\b[0-9a-f]{8,64}(-[0-9a-f-]+)?\b…?`), "HASH"},
	{regexp.MustCompile(`\b\d+(\.\d+)? ?(B|[KMG]i?B)\b`), "SIZE"},
	{regexp.MustCompile(`\b(\d+(\.\d+)? ?(ns|µs|ms|s|min|m|h|d))+\b`), "LONG"},
	{regexp.MustCompile(`\| \d+ +\| (\d+) +\| TIME`), "| PID | $1 | TIME"}, // of ps
	{regexp.MustCompile(`(?m)^(TIME +)\d+( +job \d)`), "${1}SEQ$2"},        // of journal log
	{regexp.MustCompile(`\b\d+\.\d+\.\d+-MariaDB[^ ,]*`), "MARIADB"},
	{regexp.MustCompile(`up to event \d+`), "up to event SEQ"},
	{regexp.MustCompile(`verified: \d+ events`), "verified: SOME events"},
	{regexp.MustCompile(`"(at|since|startedAt|time|pid|cpu|memory|rss|heapTotal|heapUsed|external|bytes|started|finished|created|oldest)":\d+`), `"$1":NUMBER`},
}

var (
	blanks    = regexp.MustCompile(`[ \t]+`)
	dashes    = regexp.MustCompile(`-{2,}`)
	rubbedOut = regexp.MustCompile(`[^\n]*\r\x1b\[K`) // a line that jobctl itself has taken back
	colour    = regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]`)
)

// Masked is a text without what differs from run to run, and without the width of columns.
func Masked(text string) string {
	for _, m := range masks {
		text = m.pattern.ReplaceAllString(text, m.word)
	}
	text = blanks.ReplaceAllString(dashes.ReplaceAllString(text, "-"), " ")
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

// Seen is what a person sees of what was written to a terminal: no colours, and no line that was
// taken back.
func Seen(written string) string {
	written = rubbedOut.ReplaceAllString(written, "")
	written = strings.ReplaceAll(colour.ReplaceAllString(written, ""), "\r\n", "\n")
	return strings.Trim(strings.ReplaceAll(written, "\x00", ""), "\n")
}
