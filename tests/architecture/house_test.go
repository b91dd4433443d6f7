package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// room is what may be a package's name in the drawing.
var room = regexp.MustCompile(`[a-z]+(?:[/-][a-z]+)*`)

// The drawing has every package of the table, and whoever imports stands above what is imported.
func TestRoomsUseOnlyRoomsBelowThem(t *testing.T) {
	t.Parallel()
	rows := pageRows(t)
	floors := drawing(t)
	for folder := range rows {
		if floors[folder] == 0 && !within(folder, trials) {
			t.Errorf("%s: the drawing has no room %s", page, folder)
		}
	}
	for _, p := range must(t, shipped) {
		from, drawn := floors[p.folder]
		for _, imported := range p.types.Imports() {
			folder, ours := strings.CutPrefix(imported.Path(), "jobd/")
			if to := floors[folder]; ours && drawn && to > 0 && to <= from {
				t.Errorf("%s: %s imports %s, which the drawing has no lower", page, p.folder, folder)
			}
		}
	}
}

// drawing reads on which line of the page's drawing each room is, counted from 1.
func drawing(t *testing.T) map[string]int {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(top, page))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(content), "\n## The house\n")
	_, lines, _ := strings.Cut(section, "\n```\n")
	lines, _, found := strings.Cut(lines, "\n```\n")
	if !found {
		t.Fatalf("%s has no drawing of the house", page)
	}
	floors := map[string]int{}
	floor := 0
	for line := range strings.Lines(lines) {
		floor++
		for _, name := range room.FindAllString(line, -1) {
			if _, err := os.Stat(filepath.Join(top, name)); err == nil {
				if floors[name] != 0 {
					t.Errorf("%s: the drawing has the room %s twice", page, name)
				}
				floors[name] = floor
			} else if strings.Contains(name, "/") {
				t.Errorf("%s: the drawing has a room %s, which is not there", page, name)
			}
		}
	}
	return floors
}
