package operator

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"jobd/tests/harness"
)

// terminal is a real one, of a test's own, in which jobctl runs.
type terminal struct {
	t      *testing.T
	socket string
}

// openTerminal runs jobctl in a terminal of a size until the test ends. When jobctl has ended, the terminal says how.
func openTerminal(t *testing.T, d *harness.Daemon, width, height int, args ...string) *terminal {
	t.Helper()
	return openTerminalWith(t, "NO_COLOR=1", d, width, height, args...)
}

// openTerminalWith is openTerminal with a variable of jobctl's environment.
func openTerminalWith(t *testing.T, variable string, d *harness.Daemon, width, height int, args ...string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is missing: make deps installs it")
	}
	dir, err := os.MkdirTemp("", "mux") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{t, filepath.Join(dir, "s")}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the terminal shows:\n%s", term.shown())
		}
		_ = term.command("kill-server").Run()
		_ = os.RemoveAll(dir)
	})
	words := variable + " '" + harness.Program(t, "jobctl") + "'"
	for _, arg := range arguments(t, d, args...) {
		words += " '" + arg + "'"
	}
	term.tmux("new-session", "-d", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height), "trap : INT; "+words+`; echo "exit code $?"; exec cat`)
	return term
}

func (term *terminal) command(args ...string) *exec.Cmd {
	cmd := exec.Command("tmux", append([]string{"-u", "-S", term.socket, "-f", "/dev/null"}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TMUX=", "TZ=UTC")
	return cmd
}

func (term *terminal) tmux(args ...string) string {
	term.t.Helper()
	out, err := term.command(args...).CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// press presses keys, under the names that tmux has for them.
func (term *terminal) press(keys ...string) {
	term.t.Helper()
	term.tmux(append([]string{"send-keys"}, keys...)...)
}

func (term *terminal) resize(width, height int) {
	term.t.Helper()
	term.tmux("resize-window", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height))
}

// shown is what a person sees, line by line.
func (term *terminal) shown() string {
	term.t.Helper()
	return term.tmux("capture-pane", "-p")
}

// await waits until a person sees all of these.
func (term *terminal) await(texts ...string) (shown string) {
	term.t.Helper()
	harness.Until(term.t, func() string {
		shown = term.shown()
		for _, text := range texts {
			if !strings.Contains(shown, text) {
				return "nobody sees " + strconv.Quote(text) + " in\n" + shown
			}
		}
		return ""
	})
	return shown
}

// awaitTimes waits until a person sees a text so many times, and all of the others.
func (term *terminal) awaitTimes(times int, text string, others ...string) (shown string) {
	term.t.Helper()
	harness.Until(term.t, func() string {
		shown = term.await(others...)
		if n := strings.Count(shown, text); n != times {
			return fmt.Sprintf("%q is there %d times, not %d, in\n%s", text, n, times, shown)
		}
		return ""
	})
	return shown
}

// awaitGone waits until a person sees none of these.
func (term *terminal) awaitGone(texts ...string) {
	term.t.Helper()
	harness.Until(term.t, func() string {
		shown := term.shown()
		for _, text := range texts {
			if strings.Contains(shown, text) {
				return "there still is " + strconv.Quote(text) + " in\n" + shown
			}
		}
		return ""
	})
}
