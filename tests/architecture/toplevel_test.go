package architecture

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// topLevel is what may stand at the repository's top: the program's own folders, and what every
// project has. bin and dist are made by make, and are in no commit.
var topLevel = []string{
	"cmd", "journal", "store", "exec", "net", "master", "go.mod", "go.sum", "Makefile", "testdata",
	"README.md", "LICENSE", "CHANGELOG.md", "docs", "examples", "packaging", "tests", "tools", "bin", "dist",
}

// A program that `go build` left at the top was part of a release once: 29 MB that nobody saw.
func TestTopLevelHasNothingElse(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(top)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), ".") && !slices.Contains(topLevel, entry.Name()) {
			t.Errorf("%s stands at the repository's top, where only these may: %s", entry.Name(), strings.Join(topLevel, " "))
		}
	}
}

// Programs are built from the sources, and never kept beside them.
func TestNoProgramsAreKept(t *testing.T) {
	t.Parallel()
	read := 0
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		made := filepath.Dir(name) == top && (entry.Name() == "bin" || entry.Name() == "dist" || entry.Name() == ".git")
		if entry.IsDir() && (made || entry.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if !entry.Type().IsRegular() || strings.HasSuffix(name, ".test") {
			return nil // a test's own program, which go test -c leaves and .gitignore knows
		}
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		read++
		begin := make([]byte, 4)
		if _, err := io.ReadFull(file, begin); err == nil && bytes.Equal(begin, []byte("\x7fELF")) {
			t.Errorf("%s is a program", name)
		}
		return nil
	})
	if err != nil || read < 100 {
		t.Fatalf("%d files were read: %v", read, err)
	}
}
