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
