package audit

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"jobd/tests/harness"
)

// The picture in docs/audit.md is what the command above it draws, and the command prints what stands
// there. With -update it is drawn anew.
func TestThePictureOfTheTimeline(t *testing.T) {
	t.Parallel()
	docs := filepath.Join(harness.Top(), "docs")
	page, err := os.ReadFile(filepath.Join(docs, "audit.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^\$ jobctl (journal timeline .*)\n(.*)$`).FindStringSubmatch(string(page))
	if shown == nil {
		t.Fatal("docs/audit.md shows no timeline")
	}
	folder := t.TempDir()
	if err := writeWeek(folder); err != nil {
		t.Fatal(err)
	}
	draw := exec.Command(harness.Program(t, "jobctl"), strings.Fields(shown[1])...)
	draw.Dir, draw.Env = folder, append(os.Environ(), "TZ=UTC")
	printed, err := draw.CombinedOutput()
	if err != nil || strings.TrimSpace(string(printed)) != shown[2] {
		t.Errorf("jobctl %s prints %q (%v), and docs/audit.md %q", shown[1], printed, err, shown[2])
	}
	drawn, err := os.ReadFile(filepath.Join(folder, "timeline.svg"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(docs, "timeline.svg")
	if *update {
		if err := os.WriteFile(file, drawn, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err := os.ReadFile(file); err != nil || string(kept) != string(drawn) {
		t.Errorf("docs/timeline.svg is another picture (%v): go test ./audit -run %s -update", err, t.Name())
	}
}
