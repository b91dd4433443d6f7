package architecture

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// checked is a package of the repository with the types of everything in it.
type checked struct {
	folder string // inside the module, "." at its top
	types  *types.Package
	info   *types.Info
	files  []*ast.File
}

// shipped is the program as it is shipped.
var shipped = sync.OnceValues(program)

// must ends the test where a program can't be checked.
func must(t *testing.T, program func() ([]checked, error)) []checked {
	t.Helper()
	packages, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

// program type-checks the sources that make up the programs, without their tests: every package of
// the module jobd in the order of their imports, so that one name is one object in all of them.
// Other modules come from the compiler's export data.
func program() ([]checked, error) {
	list := exec.Command("go", "list", "-deps", "-export",
		"-json=ImportPath,Dir,GoFiles,Export,Module", "./...")
	list.Dir = top
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %s", describe(err))
	}
	c := newChecker()
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return c.done, nil
		} else if err != nil {
			return nil, fmt.Errorf("read what go list says: %w", err)
		}
		if p.Module == nil || p.Module.Path != "jobd" {
			c.exports[p.ImportPath] = p.Export
		} else if err := c.check(p); err != nil {
			return nil, fmt.Errorf("%s: %w", p.ImportPath, err)
		}
	}
}

// listed is what go list says of one package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  *struct{ Path string }
}

// checker checks one package after the other; it is the importer of the later ones.
type checker struct {
	files   *token.FileSet
	exports map[string]string // file with the export data, by import path
	ours    map[string]*types.Package
	others  types.Importer
	done    []checked
}

func newChecker() *checker {
	c := &checker{files: token.NewFileSet(), exports: map[string]string{}, ours: map[string]*types.Package{}}
	c.others = importer.ForCompiler(c.files, "gc", func(name string) (io.ReadCloser, error) {
		return os.Open(c.exports[name])
	})
	return c
}

func (c *checker) Import(name string) (*types.Package, error) {
	if p, ok := c.ours[name]; ok {
		return p, nil
	}
	return c.others.Import(name)
}

func (c *checker) check(p listed) error {
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(c.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}}
	config := types.Config{Importer: c}
	pkg, err := config.Check(p.ImportPath, c.files, files, info)
	if err != nil {
		return fmt.Errorf("type-check: %w", err)
	}
	c.ours[p.ImportPath] = pkg
	folder := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, "jobd"), "/")
	c.done = append(c.done, checked{folder, pkg, info, files})
	return nil
}
