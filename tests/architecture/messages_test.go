package architecture

import (
	"go/ast"
	"go/constant"
	"go/types"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// A message says itself what is wrong and what to do; no page explains it. The collector finds what
// goes out, and this test that each can stand in a log line or behind a colon: it begins small, has
// no full stop, and no blanks that an edit left behind.
func TestMessagesCanStandInALine(t *testing.T) {
	t.Parallel()
	found := messages(must(t, shipped))
	if len(found) < 200 || found["wrong password"] != "net" {
		t.Fatalf("only %d messages are found in the sources: this test looks for the wrong things", len(found))
	}
	for _, message := range slices.Sorted(maps.Keys(found)) {
		if fault := faultOfMessage(message); fault != "" {
			t.Errorf("%s says `%s`: %s", found[message], message, fault)
		}
	}
}

// name is what begins large wherever it stands: JOBD_ID, MySQL, FastCGI, SIGTERM, ALTER TABLE. The
// answers that the original daemons gave are kept as they are.
var name = regexp.MustCompile(`^(\pL*\p{Ll}*\p{Lu}\pL*\p{Lu}|\p{Lu}+\b|Invalid concurrency value\.|Retry-After|Jobd-|Ruby|Python|Go\b)`)

func faultOfMessage(message string) string {
	first := []rune(message)[0]
	switch {
	case strings.Contains(message, "  ") || strings.ContainsAny(message, "\t"):
		return "it has blanks that an edit left behind"
	case name.MatchString(message):
		return ""
	case unicode.IsUpper(first):
		return "it begins with a capital letter, though it may stand behind a colon"
	case strings.HasSuffix(message, ".") && !strings.HasSuffix(message, "..."):
		return "it ends with a full stop, though more may follow it"
	}
	return ""
}

// A message is what a daemon writes to its log as a warning or an error, answers to a client that it
// refuses, finds at a start or a check, or ends with. The collector reads them from the sources: at
// each place where one goes out it works out the text, with … for what is only known when it
// happens. Where the text is a parameter, the calls of that function are such places, too.

// outlet is where messages go out: an argument of a function.
type outlet struct {
	function string // as types.Func.FullName has it; of a type: its name, for a conversion
	text     int    // which argument is the text
	level    int    // which one is the level; none: it is a warning or an error anyway
}

const none = -1

// outlets are those from which the collector starts.
var outlets = []outlet{
	{"(*log/slog.Logger).Warn", 0, none},
	{"(*log/slog.Logger).Error", 0, none},
	{"(*log/slog.Logger).WarnContext", 1, none},
	{"(*log/slog.Logger).ErrorContext", 1, none},
	{"(*log/slog.Logger).Log", 2, 1},
	{"(*log/slog.Logger).LogAttrs", 2, 1},
	{"jobd/net.Refusal", 0, none},
	{"jobd/net.Refusef", 0, none},
	{"jobd/exec.RefusedError", 0, none},
	{"(*jobd/exec.waiter).tell", 1, none},
	{"(*jobd/exec.waiter).refuse", 1, none},
	{"(*jobd/exec.retrying).refuse", 1, none},
	{"(*jobd/exec/board.Board).note", 1, 0},
	{"(*jobd/store/mysql.lacks).note", 1, none},
	{"(*jobd/store/sqlite.lacks).note", 1, none},
	{"(*jobd/store/internal/rule.Findings).Fault", 1, none},
	{"(*jobd/store/internal/rule.Findings).Warn", 1, none},
	{"(*jobd/exec/runner/host.pools).note", 4, 0},
	{"(*jobd/exec/runner/host.poolProcess).kill", 0, none},
	{"(*jobd/exec/runner/host.poolProcess).reasons", 0, none},
	{"(*jobd/exec/runner/host.pool).fails", 1, none},
	{"(*jobd/exec/runner/host.pool).fails", 2, none},
	{"(*jobd/exec/runner/host.pools).lose", 1, none},
	{"(jobd/exec/runner/host.turnWatcher).refused", 0, none},
	{"jobd/exec/request.note", 1, none},
	{"(*jobd/cmd/internal/conf.Set).Bad", 1, none},
	{"(*jobd/cmd/internal/conf.Set).Warn", 1, none},
}

// fields are those whose value is a message. A finding of a check without a level is none: all is
// well.
var fields = map[string][]string{
	"jobd/store.Finding":              {"What"},
	"jobd/cmd/internal/check.Finding": {"Detail"},
	"jobd/cmd/internal/conf.oddity":   {"text"},
	"jobd/exec/board.Refusal":         {"Why"},
	"jobd/exec/board.Note":            {"Text"},
	"jobd/exec/runner/host.turn":      {"note"},
	"jobd/exec/runner/wire.Note":      {"Text"},
	"jobd/journal.Done":               {"Note", "Reason"},
}

// tellers are functions one of whose results is a message, or the end of one: the number of that
// result.
var tellers = map[string]int{
	"(*jobd/exec.NameTakenError).Error":                0,
	"(*jobd/exec.formerError).Error":                   0,
	"(*jobd/exec/runner/host.poolProcess).likeAnother": 0,
	"(*jobd/exec/runner/host.poolProcess).childOf":     2,
	"(*jobd/exec/runner/host.killer).who":              0,
	"(*jobd/journal.RemovedError).Error":               0,
	"(*jobd/store/mysql.Table).remedy":                 0,
	"jobd/cmd/jobd.lacks":                              0,
}

// ends are the folders whose errors end a start, or are told as they are.
var ends = []string{"cmd/jobd", "cmd/jobd-master", "cmd/internal/daemon", "cmd/internal/conf", "cmd/internal/logging", "exec"}

// beneath are folders below those whose errors only other errors tell.
var beneath = []string{"exec/board", "exec/runner/proc", "exec/runner/wire", "exec/schedule"}

// silent are folders of programs that are no daemons, and of what only tests use.
var silent = slices.Concat(trials, []string{"cmd/jobctl", "cmd/internal/screen", "cmd/internal/manualtest"})

// collector gathers the messages of a program.
type collector struct {
	outlets []outlet
	calls   map[string][]called // of each function, and conversions to each type
	bodies  map[string]scope    // of each function
	nodes   map[ast.Node]scope  // that may give a value to a field
	found   map[string]string   // message: the folder in which it stands
}

// called is one call, with the function in which it stands.
type called struct {
	scope
	*ast.CallExpr
}

// messages are the texts that the program's daemons may write, each with a folder where it stands.
func messages(packages []checked) map[string]string {
	c := &collector{slices.Clone(outlets), map[string][]called{}, map[string]scope{}, map[ast.Node]scope{}, map[string]string{}}
	for _, p := range packages {
		if !within(p.folder, silent) {
			c.read(p)
		}
	}
	for node, s := range c.nodes {
		s.gives(node)
	}
	for next := 0; next < len(c.outlets); next++ { // functions that hand a text on are added meanwhile
		for _, call := range c.calls[c.outlets[next].function] {
			call.sends(call.CallExpr, c.outlets[next])
		}
	}
	for teller, result := range tellers {
		c.bodies[teller].noteAll(c.bodies[teller].returned(result, 0))
	}
	for _, call := range slices.Concat(c.calls["fmt.Errorf"], c.calls["errors.New"]) {
		if within(call.folder, ends) && !within(call.folder, beneath) {
			call.note(call.Args[0])
		}
	}
	return c.found
}

// read takes in the functions of a package, and all that is called and assigned in it.
func (c *collector) read(p checked) {
	for _, f := range p.files {
		for _, declaration := range f.Decls {
			function, _ := declaration.(*ast.FuncDecl)
			s := scope{c, p, function}
			if function != nil {
				c.bodies[s.fullName()] = s
			}
			ast.Inspect(declaration, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					c.calls[s.callee(n)] = append(c.calls[s.callee(n)], called{s, n})
				case *ast.CompositeLit, *ast.AssignStmt:
					c.nodes[n] = s
				}
				return true
			})
		}
	}
}

// scope is a function of the sources, in which an expression is worked out.
type scope struct {
	*collector
	checked
	function *ast.FuncDecl // nil outside of any
}

func (s scope) fullName() string {
	return s.info.Defs[s.function.Name].(*types.Func).FullName()
}

// sends notes the text of a call of an outlet.
func (s scope) sends(call *ast.CallExpr, o outlet) {
	if len(call.Args) <= o.text || o.level != none && s.quiet(call.Args[o.level], call.Args[o.text]) {
		return
	}
	s.note(call.Args[o.text])
}

// quiet tells that a level is below a warning. Where it is a parameter, the calls tell.
func (s scope) quiet(level, text ast.Expr) bool {
	if value := s.info.Types[level].Value; value != nil {
		n, exact := constant.Int64Val(value)
		return exact && n < 4 // slog.LevelWarn
	}
	if at, where := s.parameter(level), s.parameter(text); at != none && where != none {
		s.add(outlet{s.fullName(), where, at})
		return true
	}
	return false
}

func (c *collector) add(o outlet) {
	if !slices.Contains(c.outlets, o) {
		c.outlets = append(c.outlets, o)
	}
}

// callee is what a call calls: a function's full name, or a type's for a conversion.
func (s scope) callee(call *ast.CallExpr) string {
	name := call.Fun
	if selector, ok := name.(*ast.SelectorExpr); ok {
		name = selector.Sel
	}
	id, ok := name.(*ast.Ident)
	if !ok {
		return ""
	}
	switch object := origin(s.info.Uses[id]).(type) {
	case *types.Func:
		return object.FullName()
	case *types.TypeName:
		if object.Pkg() != nil {
			return object.Pkg().Path() + "." + object.Name()
		}
	}
	return ""
}
