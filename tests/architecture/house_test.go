package architecture

import (
	"bufio"
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
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

// mostFiles is how many product files a folder may have.
const mostFiles = 20

func TestFoldersHaveFewFiles(t *testing.T) {
	t.Parallel()
	count := map[string]int{}
	for _, f := range sources(t) {
		if !f.isTest() && !within(f.folder(), trials) {
			count[f.folder()]++
		}
	}
	for folder, files := range count {
		if files > mostFiles {
			t.Errorf("%s has %d product files, over %d: put together what is read together", folder, files, mostFiles)
		}
	}
}

// A sleep is a guess about another machine's speed: too short there, too long here. In
// the bubbles of testing/synctest the clock is a fake, and sleeping is how it advances.
func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if !f.isTest() && !within(f.folder(), trials) {
			continue
		}
		if slices.ContainsFunc(f.syntax.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` }) {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && isTimeSleep(call) {
				t.Errorf("%s calls time.Sleep: wait for the condition itself", f.path)
			}
			return true
		})
	}
}

func isTimeSleep(call *ast.CallExpr) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "Sleep" {
		return false
	}
	pkg, ok := selector.X.(*ast.Ident)
	return ok && pkg.Name == "time"
}

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

// A name is exported because another package needs it. What only its own package and tests use is
// written with a small letter, or goes; a test inside the package reaches it under that name, too.
//
// testdata/exported.txt lists the exceptions, each with its reason.
func TestExportedNamesAreUsedElsewhere(t *testing.T) {
	t.Parallel()
	unused := unusedExports(must(t, shipped))
	excepted := exceptions(t, "testdata/exported.txt")
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		if _, listed := excepted[name]; !listed {
			t.Errorf("%s is exported, and only its own package and tests use it", name)
		}
		excepted[name] = true
	}
	for name, met := range excepted {
		if !met {
			t.Errorf("%s is no exception any more: take it off the list", name)
		}
	}
}

// exceptions reads a list: on each line the folder and the name as in unusedExports, and behind # a
// reason. None has been met yet.
func exceptions(t *testing.T, name string) map[string]bool {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	listed := map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		entry, reason, _ := strings.Cut(lines.Text(), "#")
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		if listed[entry] = false; strings.TrimSpace(reason) == "" {
			t.Errorf("%s: %s stands there without a reason", name, entry)
		}
	}
	return listed
}

// unusedExports are the exported names, as "folder Name" or "folder Type.Member", that no other
// package uses. A program is checked once for each build tag: a use under one of them counts.
func unusedExports(packages []checked) map[string]bool {
	uses := usedElsewhere(packages)
	contracts := interfaces(packages)
	heirs := embedders(packages)
	unused := map[string]bool{}
	for _, p := range packages {
		if p.types.Name() == "main" || within(p.folder, trials) {
			continue
		}
		for _, x := range exported(p) {
			if !uses[x.name] && !x.reachedByName(contracts, heirs) {
				unused[x.name] = true
			}
		}
	}
	return unused
}

// export is one exported name of a package.
type export struct {
	name   string // unique in the repository
	object types.Object
	owner  *types.Named // of a method or field
	tag    string       // of a field
}

// exported lists what a package exports, and the exported methods and fields of those types.
func exported(p checked) []export {
	var all []export
	for _, name := range p.types.Scope().Names() {
		object := p.types.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		all = append(all, export{name: p.folder + " " + name, object: object})
		if owner, ok := object.Type().(*types.Named); ok && isType(object) {
			all = append(all, members(p.folder, owner)...)
		}
	}
	return all
}

func isType(object types.Object) bool {
	name, ok := object.(*types.TypeName)
	return ok && !name.IsAlias()
}

// members are a type's exported methods and fields. An interface's methods are its contract, and a
// field that is a type brings that type's names with it: neither counts.
func members(folder string, owner *types.Named) []export {
	var all []export
	prefix := folder + " " + owner.Obj().Name() + "."
	for method := range owner.Methods() {
		if method.Exported() {
			all = append(all, export{name: prefix + method.Name(), object: method, owner: owner})
		}
	}
	structure, ok := owner.Underlying().(*types.Struct)
	if !ok {
		return all
	}
	for i := range structure.NumFields() {
		if field := structure.Field(i); field.Exported() && !field.Embedded() {
			all = append(all, export{prefix + field.Name(), field, owner, structure.Tag(i)})
		}
	}
	return all
}

// errorMethods are asked for by interfaces without a name, inside of the package errors.
var errorMethods = []string{"Unwrap", "Is", "As"}

// reachedByName says that reflection or an interface reaches the name without a use of it that the
// compiler sees: a field with a tag, a method that some interface asks for.
func (x export) reachedByName(contracts []*types.Interface, heirs map[*types.Named][]types.Type) bool {
	method, isMethod := x.object.(*types.Func)
	if !isMethod || x.owner == nil {
		return x.tag != ""
	}
	if slices.Contains(errorMethods, method.Name()) {
		return true
	}
	return slices.ContainsFunc(contracts, func(contract *types.Interface) bool {
		asked, _, _ := types.LookupFieldOrMethod(contract, false, method.Pkg(), method.Name())
		return asked != nil && slices.ContainsFunc(append(heirs[x.owner], x.owner), func(implementer types.Type) bool {
			return types.Implements(types.NewPointer(implementer), contract)
		})
	})
}

// embedders are the types of the repository that embed a type, and so have its methods.
func embedders(packages []checked) map[*types.Named][]types.Type {
	found := map[*types.Named][]types.Type{}
	for _, p := range packages {
		for _, name := range p.types.Scope().Names() {
			heir := p.types.Scope().Lookup(name)
			structure, ok := heir.Type().Underlying().(*types.Struct)
			if !ok || !isType(heir) {
				continue
			}
			for field := range structure.Fields() {
				embedded := field.Type()
				if pointer, ok := embedded.(*types.Pointer); ok {
					embedded = pointer.Elem()
				}
				if owner, ok := embedded.(*types.Named); ok && field.Embedded() {
					found[owner] = append(found[owner], heir.Type())
				}
			}
		}
	}
	return found
}

// interfaces are all that the repository declares or that the packages it imports export, and
// error.
func interfaces(packages []checked) []*types.Interface {
	scopes := map[*types.Scope]bool{types.Universe: true}
	var found []*types.Interface
	for _, p := range packages {
		scopes[p.types.Scope()] = true
		for _, imported := range p.types.Imports() {
			scopes[imported.Scope()] = true
		}
		for _, expression := range p.info.Types {
			if contract, ok := expression.Type.(*types.Interface); ok && expression.IsType() {
				found = append(found, contract)
			}
		}
	}
	for scope := range scopes {
		for _, name := range scope.Names() {
			if contract, ok := scope.Lookup(name).Type().Underlying().(*types.Interface); ok && contract.NumMethods() > 0 {
				found = append(found, contract)
			}
		}
	}
	return found
}

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
