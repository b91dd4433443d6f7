package gearman

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"jobd/net/principal"
	"jobd/store/storetest/must"
)

var update = flag.Bool("update", false, "write the table of scopes")

// The table of scopes in docs/gearman.md is what packets and text commands are declared with.
func TestThePageHasTheScopes(t *testing.T) {
	t.Parallel()
	const page = "../../docs/gearman.md"
	of := map[principal.Scope][]string{}
	for _, is := range requests {
		if name := is.name + "…"; is.need != 0 && !slices.Contains(of[is.need], name) {
			of[is.need] = append(of[is.need], name)
		}
	}
	for name, need := range rights {
		of[need] = append(of[need], "`"+name+"`")
	}
	table := "| scope | for |\n|---|---|\n"
	for _, need := range slices.Sorted(maps.Keys(of)) {
		slices.Sort(of[need])
		table += fmt.Sprintf("| `%s` | %s |\n", need, strings.Join(of[need], ", "))
	}
	text := must.Get(os.ReadFile(page))(t)
	between := regexp.MustCompile(`(?s)(<!-- scopes: [^\n]* -->\n).*(<!-- end of scopes -->)`)
	want := between.ReplaceAllString(string(text), "${1}"+table+"${2}")
	switch {
	case !between.Match(text):
		t.Error("there is no room for the table")
	case want != string(text) && *update:
		must.Do(t, os.WriteFile(page, []byte(want), 0o644))
	case want != string(text):
		t.Errorf("%s: the table of scopes is another one; go test ./net/gearman -update writes it:\n%s", page, table)
	}
}
