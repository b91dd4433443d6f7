package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// place is what may be a file or a folder in the repository, or a pattern of files.
var place = regexp.MustCompile(`^[a-z]+(?:/[a-z_*-]+)+(?:\.[a-z]+)?$|^[a-zA-Z]+\.(?:md|go)$`)

// The page says into which files the next changes go: they are there.
func TestPlacesOfTheNextChangesExist(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(top, page))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(content), "\n## To add …\n")
	section, _, _ = strings.Cut(section, "\n## ")
	seen := 0
	for _, name := range codes(section) {
		if !place.MatchString(name) {
			continue
		}
		seen++
		if found, err := filepath.Glob(filepath.Join(top, name)); err != nil || len(found) == 0 {
			t.Errorf("%s: %s, which a change is to go to, is not there (%v)", page, name, err)
		}
	}
	if seen == 0 {
		t.Errorf("%s: no place of a change was found: this test looks for the wrong thing", page)
	}
}
