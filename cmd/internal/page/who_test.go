package page

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"jobd/net/api"
	"jobd/net/principal"
	"jobd/store/storetest/must"
)

var update = flag.Bool("update", false, "write the table of who may see and do what")

// The table in docs/page.md is what screens and acts are declared with.
func TestThePageOfDocsHasWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	const page = "../../../docs/page.md"
	text := string(must.Get(os.ReadFile(page))(t))
	may := map[string][]string{"status": {"/metrics*"}}
	for _, scope := range []string{"status", "read", "submit", "run", "admin"} {
		add := func(path string, needs api.Kind) { may[scope] = append(may[scope], letIn(t, scope, path, needs)...) }
		for _, s := range screens {
			add(s.path, s.needs)
			if s.then != nil {
				add(s.path+"?at", s.then.needs)
			}
		}
		for _, b := range besides {
			add(b.path, b.needs)
		}
		for _, a := range acts {
			add(a.path, a.needs)
		}
	}
	table := "| scope | |\n|---|---|\n| none | `/healthz`, `/readyz`, `/sign-in`, `/sign-out` |\n"
	for _, row := range []struct {
		scope, as string
		less      []string
	}{
		{"status", "", nil},
		{"read", "as `status`, and ", []string{"status"}},
		{"submit", "", nil},
		{"run", "as `read` and `submit`, and ", []string{"read", "submit"}},
		{"admin", "as `run`, and ", []string{"run"}},
	} {
		own := may[row.scope]
		for _, other := range row.less {
			own = slices.DeleteFunc(slices.Clone(own), func(address string) bool { return slices.Contains(may[other], address) })
		}
		table += fmt.Sprintf("| `%s` | %s%s |\n", row.scope, row.as, grouped(own))
	}
	between := regexp.MustCompile(`(?s)(<!-- who: [^\n]* -->\n).*(<!-- end of who -->)`)
	want := between.ReplaceAllString(text, "${1}"+table+"${2}")
	switch {
	case !between.MatchString(text):
		t.Error("there is no room for the table")
	case want != text && *update:
		must.Do(t, os.WriteFile(page, []byte(want), 0o644))
	case want != text:
		t.Errorf("%s: the table of who may do what is another one; go test ./cmd/internal/page -update writes it:\n%s", page, table)
	}
}

// letIn is an address where those of a scope may ask for it, with a mark where they need all targets.
func letIn(t *testing.T, scope, path string, needs api.Kind) []string {
	t.Helper()
	lets := func(targets string) bool {
		return needs.Lets(&principal.Session{Scope: must.Get(principal.ParseScope(scope))(t), Targets: must.Get(principal.ParseTargets(targets))(t)}) == nil
	}
	path = strings.NewReplacer("{$}", "", "{name}", "NAME", "{id}", "ID", "{stream}", "STREAM").Replace(path)
	switch {
	case lets("some"):
		return []string{path}
	case lets("*"):
		return []string{path + "*"}
	}
	return nil
}

// grouped lists addresses, those together that differ in their last part only.
func grouped(addresses []string) string {
	var folders []string
	last := map[string][]string{}
	for _, address := range addresses {
		i := strings.LastIndexByte(address, '/') + 1
		if i == 1 { // a screen
			i = len(address)
		}
		if !slices.Contains(folders, address[:i]) {
			folders = append(folders, address[:i])
		}
		last[address[:i]] = append(last[address[:i]], address[i:])
	}
	for i, folder := range folders {
		names := strings.Join(last[folder], ",")
		if len(last[folder]) > 1 {
			names = "{" + names + "}"
		}
		folders[i] = "`" + folder + names + "`"
	}
	return strings.Join(folders, ", ")
}
