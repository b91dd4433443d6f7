package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// file is one Go source file of the repository.
type file struct {
	path    string // slash-separated, relative to the repository's top
	content []byte
	syntax  *ast.File
}

// folder is the file's folder, the package's path inside the module.
func (f file) folder() string { return path.Dir(f.path) }

func (f file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// top is the repository's folder as seen from this package's.
const top = "../.."

// sources reads every Go file below the repository's top, build tags or not.
func sources(t *testing.T) []file {
	t.Helper()
	var files []file
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(entry.Name(), ".") && name != top
		if entry.IsDir() && (hidden || entry.Name() == "bin") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ParseComments)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(top, name)
		files = append(files, file{filepath.ToSlash(relative), content, syntax})
		return err
	})
	if err != nil {
		t.Fatalf("read the sources: %v", err)
	}
	if len(files) < 20 {
		t.Fatalf("read the sources: only %d files found: is this the repository's folder?", len(files))
	}
	return files
}

// The kernel sends a parent-death signal when the thread that started the process ends, not when
// the program does. The test server is started from a thread that is kept; nothing else may use it.
func TestPitfall30NoParentDeathSignal(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if strings.HasPrefix(f.path, "store/storetest/dbserver/") || strings.HasPrefix(f.path, "tests/architecture/") {
			continue
		}
		if strings.Contains(string(f.content), "Pdeathsig") {
			t.Errorf("%s uses Pdeathsig", f.path)
		}
	}
}
