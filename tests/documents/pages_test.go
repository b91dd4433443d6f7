package documents

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"jobd/tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// allPages reads README.md and every page of docs, by its path from the repository's top.
func allPages(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{"README.md": read(t, filepath.Join(harness.Top(), "README.md"))}
	err := filepath.WalkDir(docs(), func(name string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".md") {
			relative, _ := filepath.Rel(harness.Top(), name) // it begins with it
			pages[relative] = read(t, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// block is a fenced block of a page.
type block struct {
	page     string
	line     int // of its first line, counted from 1
	language string
	text     string
}

// blocks are the fenced blocks of all pages, in their order.
func blocks(t *testing.T) []block {
	t.Helper()
	var found []block
	for page, text := range allPages(t) {
		var open *block
		outer := "" // what stands before its fence, and so before all of it
		for i, line := range strings.Split(text, "\n") {
			fence := strings.TrimLeft(line, " ")
			indent := line[:len(line)-len(fence)]
			language, isFence := strings.CutPrefix(fence, "```")
			switch {
			case isFence && open == nil:
				open, outer = &block{page: page, line: i + 2, language: language}, indent
			case isFence:
				found = append(found, *open)
				open = nil
			case open != nil:
				open.text += strings.TrimPrefix(line, outer) + "\n"
			}
		}
		if open != nil {
			t.Errorf("%s:%d: the block does not end", page, open.line)
		}
	}
	if len(found) == 0 {
		t.Fatal("no block was found: this test looks for the wrong thing")
	}
	return found
}
