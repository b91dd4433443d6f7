package architecture

import (
	"bufio"
	"go/types"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// A name is exported because another package needs it. What only its own package and tests use is
// written with a small letter, or goes; a test inside the package reaches it under that name, too.
//
// testdata/exported.txt lists the exceptions, each with its reason.
func TestExportedNamesAreUsedElsewhere(t *testing.T) {
	t.Parallel()
	unused := unusedExports(slices.Concat(must(t, shipped), must(t, failpoints)))
	excepted := exceptions(t, "testdata/exported.txt")
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		_, bare, _ := strings.Cut(name, " ")
		if _, listed := excepted[bare]; !listed {
			t.Errorf("%s is exported, and only its own package and tests use it", name)
		}
		excepted[bare] = true
	}
	for name, met := range excepted {
		if !met {
			t.Errorf("%s is no exception any more: take it off the list", name)
		}
	}
}

// exceptions reads a list: a name a line, behind it a comment. None has been met yet.
func exceptions(t *testing.T, name string) map[string]bool {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	listed := map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		entry, _, _ := strings.Cut(lines.Text(), "#")
		if entry = strings.TrimSpace(entry); entry != "" {
			listed[entry] = false
		}
	}
	return listed
}

// unusedExports are the exported names, as "folder Name" or "folder Type.Member", that no other
// package uses. A program is checked once for each build tag: a use under one of them counts.
func unusedExports(packages []checked) map[string]bool {
	uses := usedElsewhere(packages)
	contracts := interfaces(packages)
	unused := map[string]bool{}
	for _, p := range packages {
		if p.types.Name() == "main" || within(p.folder, trials) {
			continue
		}
		for _, x := range exported(p) {
			if !uses[x.name] && !x.reachedByName(contracts) {
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
func (x export) reachedByName(contracts []*types.Interface) bool {
	method, isMethod := x.object.(*types.Func)
	if !isMethod || x.owner == nil {
		return x.tag != ""
	}
	if slices.Contains(errorMethods, method.Name()) {
		return true
	}
	return slices.ContainsFunc(contracts, func(contract *types.Interface) bool {
		asked, _, _ := types.LookupFieldOrMethod(contract, false, method.Pkg(), method.Name())
		return asked != nil && types.Implements(types.NewPointer(x.owner), contract)
	})
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
