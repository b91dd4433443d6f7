package architecture

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
)

// gives notes what a composite literal, or an assignment, gives to a field that is a message.
func (s scope) gives(n ast.Node) {
	switch n := n.(type) {
	case *ast.CompositeLit:
		kind := typeName(s.info.Types[n].Type)
		var level ast.Expr // stands before the text
		for i, element := range n.Elts {
			name, value := s.member(n, i, element)
			switch {
			case name == "Level":
				level = value
			case name == "" || !slices.Contains(fields[kind], name), level == nil && kind == "jobd/cmd/internal/check.Finding":
			case level == nil || typeName(s.info.Types[level].Type) != "log/slog.Level" || !s.quiet(level, value):
				s.note(value)
			}
		}
	case *ast.AssignStmt:
		if len(n.Lhs) != len(n.Rhs) {
			return
		}
		for i, left := range n.Lhs {
			if s.isMessage(left) {
				s.note(n.Rhs[i])
			}
		}
	}
}

// member is the i-th field that a composite literal names, or gives a value without its name.
func (s scope) member(whole *ast.CompositeLit, i int, element ast.Expr) (name string, value ast.Expr) {
	if pair, ok := element.(*ast.KeyValueExpr); ok {
		return exprName(pair.Key), pair.Value
	}
	if fields, ok := s.info.Types[whole].Type.Underlying().(*types.Struct); ok {
		return fields.Field(i).Name(), element
	}
	return "", element
}

// isMessage tells a field that is a message, and an element of an answer's errors.
func (s scope) isMessage(left ast.Expr) bool {
	if element, ok := left.(*ast.IndexExpr); ok {
		answer, ok := element.X.(*ast.SelectorExpr)
		return ok && answer.Sel.Name == "Errors"
	}
	field, ok := left.(*ast.SelectorExpr)
	return ok && slices.Contains(fields[typeName(s.info.Types[field.X].Type)], field.Sel.Name)
}

func exprName(x ast.Expr) string {
	if id, ok := x.(*ast.Ident); ok {
		return id.Name
	}
	return "?"
}

func typeName(t types.Type) string {
	if pointer, ok := t.(*types.Pointer); ok {
		t = pointer.Elem()
	}
	if named, ok := t.(*types.Named); ok && named.Obj().Pkg() != nil {
		return named.Obj().Pkg().Path() + "." + named.Obj().Name()
	}
	return ""
}

// verb is a verb of fmt, with its flags.
var verb = regexp.MustCompile(`%[-+# 0]*(\[\d+\])?[\d.*]*[a-zA-Z]`)

// gaps are neighbours of which nothing is known.
var gaps = regexp.MustCompile(`…[…]+`)

// word is one that can be looked up.
var word = regexp.MustCompile(`\pL{2,}`)

// note keeps the texts that an expression may be.
func (s scope) note(x ast.Expr) {
	if at := s.parameter(x); at != none {
		s.add(outlet{s.fullName(), at, none})
		return
	}
	s.noteAll(s.texts(x, 0))
}

// noteAll keeps texts. One of fewer than two known words says nothing that could be looked up.
func (s scope) noteAll(texts []string) {
	for _, text := range texts {
		text = strings.ReplaceAll(verb.ReplaceAllString(text, "…"), "%%", "%")
		text, _, _ = strings.Cut(text, "\n") // the causes follow, a line each
		text = strings.TrimSpace(gaps.ReplaceAllString(text, "…"))
		if len(word.FindAllString(text, 2)) == 2 {
			s.found[text] = s.folder
		}
	}
}

// parameter is the place of a variable among its function's parameters; none: it is none of them.
func (s scope) parameter(x ast.Expr) int {
	id, ok := x.(*ast.Ident)
	if !ok || s.function == nil || s.info.Uses[id] == nil {
		return none
	}
	parameters := s.info.Defs[s.function.Name].(*types.Func).Signature().Params()
	for i := range parameters.Len() {
		if parameters.At(i) == s.info.Uses[id] {
			return i
		}
	}
	return none
}

// deepest is how many steps a text is followed back.
const deepest = 16

// texts are what an expression may be, as far as the sources tell.
func (s scope) texts(x ast.Expr, depth int) []string {
	if value := s.info.Types[x].Value; value != nil && value.Kind() == constant.String {
		return []string{constant.StringVal(value)}
	}
	if depth > deepest {
		return []string{"…"}
	}
	switch x := x.(type) {
	case *ast.ParenExpr:
		return s.texts(x.X, depth)
	case *ast.BinaryExpr:
		if x.Op == token.ADD {
			return joinedTexts(s.part(x.X, depth+1), s.part(x.Y, depth+1))
		}
	case *ast.CallExpr:
		if s.callee(x) == "fmt.Sprintf" {
			return s.texts(x.Args[0], depth+1)
		}
		if body, ok := s.bodies[s.callee(x)]; ok && isText(s.info.Types[x].Type) {
			return body.returned(0, depth+1)
		}
	case *ast.FuncLit:
		return s.results(x.Body, 0, depth+1)
	case *ast.Ident:
		return s.assigned(x, depth+1)
	}
	return []string{"…"}
}

// part is texts of a part of a message. What a function makes of something is only known when it
// happens.
func (s scope) part(x ast.Expr, depth int) []string {
	if call, ok := x.(*ast.CallExpr); ok && s.callee(call) != "fmt.Sprintf" {
		return []string{"…"}
	}
	return s.texts(x, depth)
}

func isText(t types.Type) bool {
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Kind() == types.String
}

func joinedTexts(left, right []string) (all []string) {
	for _, l := range left {
		for _, r := range right {
			all = append(all, l+r)
		}
	}
	return all
}

// returned are the texts of one result of a function.
func (s scope) returned(result, depth int) []string {
	if s.function == nil || depth > deepest {
		return []string{"…"}
	}
	return s.results(s.function.Body, result, depth)
}

// results are the texts of one result of the returns in a body.
func (s scope) results(body *ast.BlockStmt, result, depth int) (all []string) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			if len(n.Results) > result && isText(s.info.Types[n.Results[result]].Type) {
				all = append(all, s.texts(n.Results[result], depth+1)...)
			} else if len(n.Results) == 1 { // all results of another function
				if call, ok := n.Results[0].(*ast.CallExpr); ok {
					all = append(all, s.bodies[s.callee(call)].returned(result, depth+1)...)
				}
			}
		}
		return true
	})
	return distinct(all)
}

// assigned are the texts that a function gives to one of its variables.
func (s scope) assigned(id *ast.Ident, depth int) (all []string) {
	variable := s.info.Uses[id]
	if s.function == nil || variable == nil || s.parameter(id) != none {
		return []string{"…"}
	}
	ast.Inspect(s.function, func(n ast.Node) bool {
		if assignment, ok := n.(*ast.AssignStmt); ok && assignment.Tok != token.ADD_ASSIGN {
			for i, left := range assignment.Lhs {
				if name, ok := left.(*ast.Ident); ok && (s.info.Defs[name] == variable || s.info.Uses[name] == variable) {
					all = append(all, s.value(assignment, i, depth)...)
				}
			}
		}
		return true
	})
	return s.grown(variable, distinct(all), depth)
}

// value are the texts that an assignment gives to its i-th variable.
func (s scope) value(a *ast.AssignStmt, i, depth int) []string {
	if len(a.Lhs) == len(a.Rhs) {
		return s.texts(a.Rhs[i], depth)
	}
	if call, ok := a.Rhs[0].(*ast.CallExpr); ok {
		return s.bodies[s.callee(call)].returned(i, depth)
	}
	return []string{"…"}
}

// grown are texts of a variable with what is appended to it; without, where that is not certain.
func (s scope) grown(variable types.Object, texts []string, depth int) []string {
	all := texts
	ast.Inspect(s.function, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && a.Tok == token.ADD_ASSIGN {
			if name, ok := a.Lhs[0].(*ast.Ident); ok && s.info.Uses[name] == variable {
				all = append(all, joinedTexts(texts, s.texts(a.Rhs[0], depth))...)
			}
		}
		return true
	})
	return distinct(all)
}

func distinct(texts []string) []string {
	if len(texts) == 0 {
		return []string{"…"}
	}
	return slices.Compact(slices.Sorted(slices.Values(texts)))
}
