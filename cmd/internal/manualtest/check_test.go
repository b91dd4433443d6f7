package manualtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// The command that Check names runs: go test fails for a package whose test does not know the flag.
func TestThePagesCanBeWrittenAnew(t *testing.T) {
	t.Parallel()
	list := exec.Command("go", "list", "-f", "{{.Dir}}", packages)
	list.Dir = "../../.."
	out, err := list.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", list.Args, err, out)
	}
	withPages := 0
	for _, folder := range strings.Fields(string(out)) {
		switch tests := testsOf(t, folder); {
		case strings.Contains(tests, `"jobd/cmd/internal/manualtest"`):
			withPages++
		case !strings.Contains(tests, `flag.Bool("update",`):
			t.Errorf("the tests of %s don't know -update", folder)
		}
	}
	check.Equal(t, withPages, 3, "programs have manual pages among %s: %s", packages, out)
}

// testsOf is what all files of tests in a folder say.
func testsOf(t *testing.T, folder string) string {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(folder, "*_test.go")))(t)
	var all strings.Builder
	for _, file := range files {
		content := must.Get(os.ReadFile(file))(t)
		all.Write(content)
	}
	return all.String()
}
