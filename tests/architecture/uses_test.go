package architecture

import "go/types"

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
