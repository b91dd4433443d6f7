package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// page is where the import table stands for readers.
const page = "docs/architecture.md"

// code finds what a Markdown text shows as code.
var code = regexp.MustCompile("`([^`]+)`")

// The page and the import table say the same, and no package of several files is missing there.
func TestThePageHasTheImportTable(t *testing.T) {
	t.Parallel()
	rows := pageRows(t)
	for folder, permissions := range allowed {
		want := slices.Clone(permissions)
		for i := range want {
			want[i] = strings.TrimPrefix(want[i], "jobd/")
		}
		slices.Sort(want)
		if got, ok := rows[folder]; !ok {
			t.Errorf("%s: the table has no row for %s", page, folder)
		} else if !slices.Equal(got, want) {
			t.Errorf("%s: the row of %s says that it imports %q; it may import %q", page, folder, got, want)
		}
	}
	for folder := range rows {
		if _, ok := allowed[folder]; !ok && !within(folder, free) {
			t.Errorf("%s: %s has a row there and none in the import table", page, folder)
		}
		if _, err := os.Stat(filepath.Join(top, folder)); err != nil {
			t.Errorf("%s: %s has a row, and is not there", page, folder)
		}
	}
	for folder, files := range counts(t) {
		if _, ok := rows[folder]; !ok && files > 1 && !within(folder, trials) {
			t.Errorf("%s: %s has %d files and no row in the table", page, folder, files)
		}
	}
}

// pageRows reads the first table of the page: what each package imports, in order.
func pageRows(t *testing.T) map[string][]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(top, page))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(content), "\n## Packages\n")
	_, table, _ := strings.Cut(section, "\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string][]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 3 {
			t.Fatalf("%s: a row of the table has %d cells, not 3: %s", page, len(cells), line)
		}
		for _, folder := range codes(cells[0]) {
			rows[folder] = codes(cells[2])
		}
	}
	return rows
}

// codes are the pieces of a text that are shown as code, in order.
func codes(text string) []string {
	found := []string{}
	for _, match := range code.FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	slices.Sort(found)
	return found
}

// counts is the number of files of each package, without tests.
func counts(t *testing.T) map[string]int {
	t.Helper()
	files := map[string]int{}
	for _, f := range sources(t) {
		if !f.isTest() {
			files[f.folder()]++
		}
	}
	return files
}
