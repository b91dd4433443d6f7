package api

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	jobnet "jobd/net"
	"jobd/net/principal"
	"jobd/store/storetest/must"
)

var update = flag.Bool("update", false, "write the table of scopes")

// The table of scopes in docs/protocol.md is what the requests are declared with.
func TestThePageHasTheScopes(t *testing.T) {
	t.Parallel()
	const page = "../../docs/protocol.md"
	text := must.Get(os.ReadFile(page))(t)
	of := make(map[string][]string)
	for _, name := range slices.Sorted(maps.Keys(Kinds)) {
		kind, mark := Kinds[name], ""
		if kind.whole {
			mark = "*"
		}
		for _, scope := range scopes {
			if set, _ := principal.ParseScope(scope); set.Has(kind.scope) {
				of[scope] = append(of[scope], "`"+name+"`"+mark)
			}
		}
	}
	table := "| scope | |\n|---|---|\n"
	for _, scope := range scopes {
		line := strings.Join(of[scope], ", ")
		switch scope {
		case "run":
			line = "what `read` and `submit` may, and " + less(of[scope], of["read"], of["submit"])
		case "admin":
			line = "what `run` may, and " + less(of[scope], of["run"])
		case "read":
			line = "what `status` may, and " + less(of[scope], of["status"])
		}
		table += fmt.Sprintf("| `%s` | %s |\n", scope, line)
	}
	between := regexp.MustCompile(`(?s)(<!-- scopes: [^\n]* -->\n).*(<!-- end of scopes -->)`)
	want := between.ReplaceAllString(string(text), "${1}"+table+"${2}")
	switch {
	case !between.Match(text):
		t.Error("there is no room for the table")
	case want != string(text) && *update:
		must.Do(t, os.WriteFile(page, []byte(want), 0o644))
	case want != string(text):
		t.Errorf("%s: the table of scopes is another one; go test ./net/api -update writes it:\n%s", page, table)
	}
}

var scopes = []string{"status", "read", "submit", "run", "admin", "worker"}

// less are the names that are in none of some other lists.
func less(names []string, others ...[]string) string {
	all := slices.Concat(others...)
	return strings.Join(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(all, name) }), ", ")
}

// A request that is not declared has no way in, and one that is declared has a scope.
func TestNoWayInWithoutADeclaration(t *testing.T) {
	t.Parallel()
	for name, register := range map[string]func(){
		"not declared": func() {
			Gate(map[string]jobnet.Handler{"nobody-knows-it": func(context.Context, *jobnet.Link, jobnet.Request) (any, error) { return nil, nil }}, nil)
		},
		"without a scope": func() { declare[None, Done](Kind{Name: "no-scope"}, readNone) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: it is taken", name)
				}
			}()
			register()
		}()
	}
}
