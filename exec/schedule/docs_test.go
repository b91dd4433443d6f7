package schedule_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"jobd/exec/schedule"
	"jobd/store/storetest/must"
)

// code is what a page has between backquotes.
var code = regexp.MustCompile("`([^`]+)`")

// The page's tables are true: what it says is read is read, and what it says is refused is refused.
func TestThePageTellsWhatIsReadAndWhatIsRefused(t *testing.T) {
	t.Parallel()
	content := must.Get(os.ReadFile("../../docs/time.md"))(t)
	_, section, _ := strings.Cut(string(content), "\n## Schedules\n")
	section, _, _ = strings.Cut(section, "\n## ")
	forms, _, _ := strings.Cut(section, "\n### ")
	_, refused, _ := strings.Cut(section, "\n### What is refused\n")
	if n := judgeRows(t, forms, true); n < 15 {
		t.Errorf("the page tells of %d forms only: this test looks for the wrong thing", n)
	}
	if n := judgeRows(t, refused, false); n < 15 {
		t.Errorf("the page tells of %d refusals only: this test looks for the wrong thing", n)
	}
}

// judgeRows reads the first column of the tables in a text, and counts what stands there.
func judgeRows(t *testing.T, text string, isRead bool) int {
	t.Helper()
	count := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		for _, match := range code.FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
			count++
			if _, err := schedule.Parse(match[1]); (err == nil) != isRead {
				t.Errorf("docs/time.md has %s in the wrong table: %v", match[1], err)
			}
		}
	}
	return count
}
