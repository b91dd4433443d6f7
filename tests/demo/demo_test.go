package demo

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"jobd/tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

func TestDemo(t *testing.T) {
	t.Parallel()
	programs := filepath.Dir(harness.Program(t, "jobd"))
	demo := filepath.Join(t.TempDir(), "demo")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", demo, "./examples/demo")
	build.Dir = harness.Top()
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, said)
	}
	for _, store := range []string{"sqlite", "mysql"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			said, err := exec.CommandContext(t.Context(), demo, "--store", store, "--bin", programs).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			for what, pattern := range map[string]string{
				"all rows are verified":            `\b523 verified\n`,
				"one recurs":                       `(?m)^later +delayed +ok +1$`,
				"one was tried again":              `(?m)^later +done +ok +1$`,
				"it was its second attempt":        `(?s)later:523.*exit code 1.*attempt 2 starts.*ended: ok`,
				"the schedule of the one":          `every 2s`,
				"both journals are whole":          `(?s)jobctl journal verify.*jobctl journal verify`,
				"what the killed job's signal was": `SIGTERM`,
			} {
				if !regexp.MustCompile(pattern).Match(said) {
					t.Errorf("it does not show that %s (%s):\n%s", what, pattern, said)
				}
			}
		})
	}
	t.Run("gearman", func(t *testing.T) {
		t.Parallel()
		said, err := exec.CommandContext(t.Context(), demo, "--gearman", "--bin", programs).CombinedOutput()
		if err != nil || !regexp.MustCompile(`\b501 jobs of Gearman clients, 501 verified\b`).Match(said) {
			t.Errorf("%v\n%s", err, said)
		}
	})
}
