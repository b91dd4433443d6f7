package architecture

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// ownTest is how lint runs the test of this package.
const ownTest = "cd tests && go test -count=1 -vet=off -ldflags=-s ./architecture"

// make ci goes its own ways through lint and test, to be quicker: it runs what they run, all of it, and
// each once. What they say as they would run it is compared, line by line.
func TestContinuousIntegrationRunsLintTestAndDemo(t *testing.T) {
	t.Parallel()
	runs := map[string]int{}
	for _, line := range dryRun(t, "ci") {
		runs[line]++
	}
	for _, target := range []string{"lint", "test", "demo"} {
		for _, line := range dryRun(t, target) {
			// Lint has the test of this package to itself; in make ci it is one of all.
			if line == ownTest {
				continue
			}
			if runs[line] != 1 {
				t.Errorf("make %s runs this, and make ci does so %d times: %s", target, runs[line], line)
			}
		}
	}
}

// Lint fails for what the test of this package finds, and each module has all of its tests run, whichever
// of them come first.
func TestTargetsRunAllTests(t *testing.T) {
	t.Parallel()
	lint := strings.Join(dryRun(t, "lint"), "\n")
	if !strings.Contains(lint, ownTest) {
		t.Errorf("make lint goes without the test of the architecture:\n%s", lint)
	}
	for _, target := range []string{"test", "ci"} {
		all := strings.Join(dryRun(t, target), "\n")
		for _, module := range []string{".", "tests"} {
			_, from, found := strings.Cut(all, "(cd "+module+" && ")
			command, _, _ := strings.Cut(from, ")")
			if !found || !strings.HasSuffix(command, " ./...") || !strings.Contains(command, "go test -count=1 ") {
				t.Errorf("make %s does not run all tests of the module in %s: %q", target, module, command)
			}
		}
	}
}

// dryRun is what make would run for a target, line by line.
func dryRun(t *testing.T, target string) []string {
	t.Helper()
	dry := exec.Command("make", "--no-print-directory", "-n", target)
	dry.Dir = top
	for _, variable := range os.Environ() {
		// A make that these tests run in hands down its options.
		if !strings.HasPrefix(variable, "MAKE") && !strings.HasPrefix(variable, "MFLAGS=") {
			dry.Env = append(dry.Env, variable)
		}
	}
	out, err := dry.Output()
	if err != nil {
		t.Fatalf("make -n %s: %s", target, describe(err))
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}
