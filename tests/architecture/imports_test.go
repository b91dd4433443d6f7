package architecture

import (
	"fmt"
	"maps"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
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
	"cmd/jobctl/live":     append([]string{"jobd/cmd/internal/operator", "jobd/cmd/internal/screen", "jobd/net", "jobd/net/api", "github.com/dustin/go-humanize", "golang.org/x/sys/unix"}, drawn...),
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
