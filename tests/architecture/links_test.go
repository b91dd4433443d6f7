package architecture

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// link finds the target of a Markdown link.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestDocumentationLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	seen := 0
	for name, content := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(content, -1) {
			target, _, _ := strings.Cut(match[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			seen++
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), target)); err != nil {
				t.Errorf("%s links to %s, which is not there", name, match[1])
			}
		}
	}
	if seen == 0 {
		t.Error("no link was found: this test looks for the wrong thing")
	}
}

// widest is how long a line of prose is at most. Tables and code are as wide as they must be.
const widest = 100

func TestDocumentationIsOfReadableWidth(t *testing.T) {
	t.Parallel()
	for name, content := range pages(t) {
		if !within(name, []string{top + "/README.md", top + "/docs"}) {
			continue
		}
		code := false
		for line := range strings.Lines(content) {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			prose := !code && !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "    ")
			if line = strings.TrimSuffix(line, "\n"); prose && utf8.RuneCountInString(line) > widest {
				t.Errorf("%s: a line is longer than %d characters: %s", name, widest, line)
			}
		}
	}
}

// pages reads every Markdown file of the repository, by its path from here.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && name == filepath.Join(top, "bin") {
			return filepath.SkipDir // what was fetched has pages of its own
		}
		if err != nil || filepath.Ext(name) != ".md" {
			return err
		}
		content, err := os.ReadFile(name)
		texts[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}
