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
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// allowed is the import table: what a package, and those below it without a row of their own, imports
// beyond the standard library: of ours exactly the packages that stand here, of other modules all
// that begin so. The longest matching key counts.
var allowed = map[string][]string{
	"journal":             {},
	"journal/archive":     {"jobd/journal", "github.com/klauspost/compress/zstd", "modernc.org/sqlite"},
	"journal/replay":      {"jobd/journal", "jobd/journal/archive"},
	"journal/verify":      {"jobd/journal", "jobd/journal/archive"},
	"journal/index":       {"jobd/journal", "jobd/journal/archive", "jobd/journal/replay"},
	"journal/eventlog":    {"jobd/journal", "jobd/journal/archive", "jobd/journal/replay", "jobd/journal/verify", "golang.org/x/sys/unix"},
	"store":               {"jobd/journal", "github.com/cenkalti/backoff/v5"},
	"store/internal/rule": {"jobd/journal", "jobd/store"},
	"store/reconcile":     {"jobd/journal", "jobd/store"},
	"store/mysql":         {"jobd/journal", "jobd/store", "jobd/store/internal/rule", "github.com/cenkalti/backoff/v5", "github.com/go-sql-driver/mysql"},
	"store/sqlite":        {"jobd/journal", "jobd/store", "jobd/store/internal/rule", "golang.org/x/sys/unix", "modernc.org/sqlite"},
	"exec":                {"jobd/exec/board", "jobd/exec/runner/proc", "jobd/journal", "golang.org/x/sys/unix", "golang.org/x/time/rate"},
	"exec/board":          {"jobd/exec/schedule", "jobd/journal"},
	"exec/schedule":       {},
	"exec/request":        {"jobd/exec", "jobd/exec/request/fcgi", "jobd/journal", "golang.org/x/sys/unix"},
	"exec/request/fcgi":   {},
	"exec/runner":         {"jobd/exec", "jobd/exec/runner/proc", "jobd/exec/runner/wire", "jobd/journal", "golang.org/x/sys/unix"},
	"exec/runner/host":    {"jobd/exec/runner/proc", "jobd/exec/runner/wire", "jobd/journal", "golang.org/x/sys/unix"},
	"exec/runner/proc":    {"golang.org/x/sys/unix"},
	"exec/runner/wire":    {"jobd/exec/runner/proc", "jobd/journal", "golang.org/x/sys/unix"},
	"net":                 {"jobd/net/principal", "golang.org/x/sync/semaphore", "golang.org/x/time/rate"},
	"net/api":             {"jobd/net", "jobd/net/principal"},
	"net/cert":            {},
	"net/gearman":         {"jobd/net/principal", "golang.org/x/sync/semaphore"},
	"net/principal":       {},
	"master":              {"jobd/net", "jobd/net/api", "jobd/net/principal", "golang.org/x/sync/semaphore"},
	"tools/package":       {"github.com/goreleaser/nfpm/v2"},
	"cmd/jobctl/live":     append([]string{"jobd/cmd/internal/operator", "jobd/cmd/internal/screen", "jobd/net", "jobd/net/api", "github.com/dustin/go-humanize"}, drawn...),
}

// drawn is what draws on a terminal.
var drawn = []string{"charm.land/bubbletea/v2", "charm.land/lipgloss/v2"}

// trials only test and try out what the programs are made of.
var trials = []string{"tests", "examples", "store/storetest", "journal/journaltest", "exec/runner/proctest", "net/cert/certtest", "cmd/internal/manualtest"}

// free are the folders that may import everything of the repository, unless they have a row of their
// own: the wiring, and trials.
var free = append([]string{"cmd"}, trials...)

// testModules are the modules that test files may use beside the table.
var testModules = []string{
	"go.uber.org/goleak", "pgregory.net/rapid", "github.com/google/go-cmp",
	"golang.org/x/sys/unix", "jobd/store/storetest", "jobd/journal/journaltest", "jobd/journal/eventlog", "jobd/net/cert",
}

func TestImportsStayInTheTable(t *testing.T) {
	t.Parallel()
	used := map[string]bool{} // by row and permission
	for _, f := range sources(t) {
		if _, own := allowed[f.folder()]; !own && within(f.folder(), free) {
			continue
		}
		row := ruleOf(t, f.folder())
		table, tested := allowed[row], []string(nil)
		if f.isTest() {
			tested = append(tested, testModules...)
			tested = append(tested, "jobd/"+f.folder(), "jobd/"+path.Dir(f.folder()))
		}
		for _, spec := range f.syntax.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatalf("%s: import %s: %v", f.path, spec.Path.Value, err)
			}
			if !standard(imported) && !slices.ContainsFunc(table, permits(imported)) && !within(imported, tested) {
				t.Errorf("%s imports %s: its row of the import table has only %s and the standard library",
					f.path, imported, table)
			}
			for _, permission := range allowed[row] {
				if !f.isTest() && permits(imported)(permission) {
					used[row+" "+permission] = true
				}
			}
		}
	}
	for row, permissions := range allowed {
		for _, permission := range permissions {
			if !used[row+" "+permission] {
				t.Errorf("the import table allows %s to import %s, and nothing there does", row, permission)
			}
		}
	}
}

// Whoever wants to draw on a terminal does so in the one place that makes the texts of others
// harmless before they get there.
func TestOnlyTheLiveViewDraws(t *testing.T) {
	t.Parallel()
	draws := 0
	for _, f := range sources(t) {
		for _, spec := range f.syntax.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			switch {
			case !within(imported, []string{"charm.land", "github.com/charmbracelet"}):
			case f.folder() == "cmd/jobctl/live":
				draws++
			default:
				t.Errorf("%s imports %s: only cmd/jobctl/live does", f.path, imported)
			}
		}
	}
	if draws == 0 {
		t.Error("nobody draws: this test looks for the wrong modules")
	}
}

// exec and net stand beside the standard library's packages of these names in
// the same files: under their bare names nobody could tell which is meant.
func TestExecAndNetAreRenamed(t *testing.T) {
	t.Parallel()
	names := map[string]string{`"jobd/exec"`: "jobexec", `"jobd/net"`: "jobnet"}
	seen := 0
	for _, f := range sources(t) {
		for _, spec := range f.syntax.Imports {
			want, ours := names[spec.Path.Value]
			if !ours {
				continue
			}
			seen++
			if spec.Name == nil || spec.Name.Name != want {
				t.Errorf("%s imports %s: name it %s", f.path, spec.Path.Value, want)
			}
		}
	}
	if seen == 0 {
		t.Error("nobody imports jobd/exec or jobd/net: this test looks for the wrong names")
	}
}

func TestProgramsLinkNoDriverTheyDoNotNeed(t *testing.T) {
	t.Parallel()
	cases := map[string][]string{
		"./exec":            {"jobd/journal/archive", "modernc.org/sqlite"},
		"./store":           {"jobd/journal/archive", "modernc.org/sqlite"},
		"./cmd/jobctl":      {"github.com/go-sql-driver/mysql", "jobd/store/mysql"},
		"./cmd/jobd":        {"charm.land", "github.com/charmbracelet"},
		"./cmd/jobd-master": {"github.com/go-sql-driver/mysql", "jobd/store", "jobd/exec/runner/host", "jobd/exec/runner/wire", "jobd/exec/request", "charm.land", "github.com/charmbracelet"},
		"./exec/runner":     {"jobd/exec/runner/host"},
	}
	for program, unwanted := range cases {
		t.Run(path.Base(program), func(t *testing.T) {
			t.Parallel()
			list := exec.Command("go", "list", "-deps", program)
			list.Dir = top
			out, err := list.Output()
			if err != nil {
				t.Fatalf("go list -deps %s: %v", program, describe(err))
			}
			for _, dependency := range strings.Fields(string(out)) {
				if within(dependency, unwanted) {
					t.Errorf("%s links %s", program, dependency)
				}
			}
		})
	}
}

// permits reports whether a permission is about an import.
func permits(imported string) func(permission string) bool {
	return func(permission string) bool {
		if strings.HasPrefix(permission, "jobd/") {
			return imported == permission
		}
		return within(imported, []string{permission})
	}
}

// ruleOf is the key of the table's row for a folder.
func ruleOf(t *testing.T, folder string) string {
	t.Helper()
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(allowed))) {
		if within(folder, []string{key}) {
			return key
		}
	}
	t.Fatalf("package %s has no row in the import table: give it one, in docs/architecture.md too", folder)
	return ""
}

// within reports whether name is one of the roots or below one.
func within(name string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return name == root || strings.HasPrefix(name, root+"/")
	})
}

// standard tells a package of the standard library: its first element has no
// dot, and it is none of ours.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return first != "jobd" && !strings.Contains(first, ".")
}

// describe adds what a failed command said to its error.
func describe(err error) string {
	if exit, ok := err.(*exec.ExitError); ok {
		return fmt.Sprintf("%v: %s", err, exit.Stderr)
	}
	return err.Error()
}

// usedElsewhere are the names that a package other than their own uses, and the types that such a
// name brings with it: whoever calls New has a use for the type that it returns.
func usedElsewhere(packages []checked) map[string]bool {
	names := map[types.Object]string{}
	for _, p := range packages {
		for _, x := range exported(p) {
			names[x.object] = x.name
		}
	}
	u := usage{names, map[string]bool{}, map[types.Type]bool{}}
	defer u.enumerations()
	for _, p := range packages {
		if within(p.folder, trials) && !within(p.folder, []string{"examples"}) {
			continue // what only tests use is what this is about
		}
		for _, object := range p.info.Uses {
			if object = origin(object); object.Pkg() != nil && object.Pkg() != p.types {
				u.use(object)
			}
		}
	}
	return u.used
}

// enumerations uses all constants of a type of which one is used: half an enumeration is none.
func (u usage) enumerations() {
	whole := map[types.Type]bool{}
	for object, name := range u.names {
		if _, constant := object.(*types.Const); constant && u.used[name] {
			whole[object.Type()] = true
		}
	}
	for object, name := range u.names {
		named, own := object.Type().(*types.Named)
		if _, constant := object.(*types.Const); constant && own && whole[named] && named.Obj().Pkg() == object.Pkg() {
			u.used[name] = true
		}
	}
}

// origin is the declaration behind a use: of a generic function or type, the one that was written.
func origin(object types.Object) types.Object {
	switch object := object.(type) {
	case *types.Func:
		return object.Origin()
	case *types.Var:
		return object.Origin()
	}
	return object
}

type usage struct {
	names map[types.Object]string
	used  map[string]bool
	seen  map[types.Type]bool
}

func (u usage) use(object types.Object) {
	name, ours := u.names[object]
	if !ours || u.used[name] {
		return
	}
	u.used[name] = true
	if isType(object) {
		u.follow(object.Type().Underlying())
	} else {
		u.follow(object.Type())
	}
}

// follow uses the types that a type is made of. It stops at a named one: its fields and methods are
// used one by one.
func (u usage) follow(t types.Type) {
	if t == nil || u.seen[t] {
		return
	}
	u.seen[t] = true
	switch t := t.(type) {
	case *types.Named:
		u.use(t.Origin().Obj())
		for argument := range t.TypeArgs().Types() {
			u.follow(argument)
		}
	case *types.Alias:
		u.use(t.Obj())
		u.follow(t.Rhs())
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels, maps
		u.follow(t.Elem())
		if m, ok := t.(*types.Map); ok {
			u.follow(m.Key())
		}
	case *types.Signature:
		for v := range t.Params().Variables() {
			u.follow(v.Type())
		}
		for v := range t.Results().Variables() {
			u.follow(v.Type())
		}
	case *types.Struct:
		for field := range t.Fields() {
			if field.Exported() {
				u.follow(field.Type())
			}
		}
	case *types.Interface:
		for method := range t.Methods() {
			u.follow(method.Type())
		}
	}
}

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
