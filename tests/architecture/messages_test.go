package architecture

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// span is a piece of code in Markdown; a pipe in a table stands behind a backslash.
var span = regexp.MustCompile("``? ?(.+?) ?``?")

// docs/messages.md has a row for every message of the daemons: what it means, and what to do. Where
// a message is new or changed this test names it, and the place in the table is yours to choose.
func TestEveryMessageIsExplained(t *testing.T) {
	t.Parallel()
	explained := explanations(t)
	found := messages(must(t, shipped))
	if len(found) < 300 || found["wrong password"] != "net" {
		t.Fatalf("only %d messages are found in the sources: this test looks for the wrong things", len(found))
	}
	for _, message := range slices.Sorted(maps.Keys(found)) {
		if !explained[message] {
			t.Errorf("%s says `%s`, and docs/messages.md has no row for it", found[message], message)
		}
	}
	for _, message := range slices.Sorted(maps.Keys(explained)) {
		if found[message] == "" {
			t.Errorf("docs/messages.md explains `%s`, which nothing says", message)
		}
	}
}

// explanations are the messages in the first cells of the page's tables.
func explanations(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile(top + "/docs/messages.md")
	if err != nil {
		t.Fatal(err)
	}
	explained := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.ReplaceAll(strings.TrimSpace(line), `\|`, "\x00"), "|")
		if len(cells) < 2 || cells[0] != "" || strings.Contains(line, "|---") {
			continue
		}
		if len(cells) != 5 || strings.TrimSpace(cells[2]) == "" || strings.TrimSpace(cells[3]) == "" {
			t.Errorf("docs/messages.md: a row has not three cells with something in each: %s", line)
			continue
		}
		for _, match := range span.FindAllStringSubmatch(cells[1], -1) {
			message := strings.ReplaceAll(match[1], "\x00", "|")
			if explained[message] {
				t.Errorf("docs/messages.md explains `%s` twice", message)
			}
			explained[message] = true
		}
	}
	return explained
}
