package pages

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

var update = flag.Bool("update", false, "write what the commands print into the page")

func TestMain(m *testing.M) { harness.Main(m) }

// Blocks of the page that begin so are run, in the order of the page.
const (
	fence = "```console"
	end   = "```"
)

// TestJobctlPage runs every command of docs/jobctl.md, each on what the ones before it left.
func TestJobctlPage(t *testing.T) {
	t.Parallel()
	page := filepath.Join(harness.Top(), "docs", "jobctl.md")
	text := must.Get(os.ReadFile(page))(t)
	s := newScene(t)
	var updated []string
	lines := strings.Split(string(text), "\n")
	commands := 0
	for i := 0; i < len(lines); i++ {
		updated = append(updated, lines[i])
		if lines[i] != fence {
			continue
		}
		for i++; i < len(lines) && lines[i] != end; i++ {
			command, isCommand := strings.CutPrefix(lines[i], "$ ")
			if !isCommand {
				t.Fatalf("%s:%d: a block begins with a command: $ jobctl …", page, i+1)
			}
			updated = append(updated, lines[i])
			var want []string
			at := i + 1
			for i+1 < len(lines) && lines[i+1] != end && !strings.HasPrefix(lines[i+1], "$ ") {
				i++
				want = append(want, lines[i])
			}
			printed := s.run(t, command)
			commands++
			if diff := cmp.Diff(harness.Masked(strings.Join(want, "\n")), harness.Masked(printed)); diff == "" {
				updated = append(updated, want...)
			} else {
				updated = append(updated, strings.Split(printed, "\n")...)
				if !*update {
					t.Errorf("%s:%d: %s prints something else now (-page +now):\n%s\nit printed:\n%s", page, at, command, diff, printed)
				}
			}
			for _, line := range strings.Split(printed, "\n") {
				if n := len([]rune(line)); n > columns && strings.Contains(line, " | ") {
					t.Errorf("%s:%d: %s prints %d columns: %s", page, at, command, n, line)
				}
			}
		}
		updated = append(updated, end)
	}
	if commands == 0 {
		t.Error("the page shows no command")
	}
	if *update {
		must.Do(t, os.WriteFile(page, []byte(strings.Join(updated, "\n")), 0o644))
	}
}

// columns is how wide the terminal is.
const columns = 80

// run runs a command line of the page in a terminal, and gives what a person sees.
func (s *scene) run(t *testing.T, command string) string {
	t.Helper()
	s.before(t, command)
	port := s.worker
	if strings.Contains(command, "--master") {
		port = s.master
	}
	cmd := exec.Command("script", "-qec", "stty cols 80 rows 40; "+command, os.DevNull)
	cmd.Env = []string{
		"HOME=" + s.home, "PATH=" + s.bin + ":" + os.Getenv("PATH"), "TERM=xterm", "NO_COLOR=1", "LC_ALL=C.UTF-8", "TZ=UTC",
		"JOBCTL_HOST=127.0.0.1", "JOBCTL_PORT=" + port, "SHELL=/bin/sh",
	}
	cmd.Dir = s.home
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(harness.Seen(out.String()), s.home, "~")
}
