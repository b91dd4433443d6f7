package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"jobd/journal"
	jobnet "jobd/net"
	"jobd/store/storetest/must"
)

// asProgram has the test's binary be jobctl.
const asProgram = "JOBCTL_TEST_AS_PROGRAM"

// multiplexer is a tmux of the test's own: a real terminal, of which one can ask what it shows.
type multiplexer struct{ socket string }

func startMultiplexer(t *testing.T) multiplexer {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is missing: make deps installs it")
	}
	dir, err := os.MkdirTemp("", "mux") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	m := multiplexer{filepath.Join(dir, "s")}
	t.Cleanup(func() {
		_ = m.command("kill-server").Run()
		_ = os.RemoveAll(dir)
	})
	return m
}

func (m multiplexer) command(args ...string) *exec.Cmd {
	cmd := exec.Command("tmux", append([]string{"-u", "-S", m.socket, "-f", "/dev/null"}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TMUX=", "COLUMNS=", asProgram+"=1")
	return cmd
}

func (m multiplexer) ask(t *testing.T, args ...string) string {
	t.Helper()
	out, err := m.command(args...).CombinedOutput()
	if err != nil {
		t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// shows runs jobctl in a terminal so wide that no column is cut, and gives what a person sees there
// when it has ended.
func (m multiplexer) shows(t *testing.T, args ...string) string {
	t.Helper()
	return m.showsIn(t, 600, args...)
}

func (m multiplexer) showsIn(t *testing.T, columns int, args ...string) string {
	t.Helper()
	self := must.Get(os.Executable())(t)
	words := []string{"'" + self + "'"}
	for _, arg := range args {
		words = append(words, "'"+arg+"'")
	}
	script := strings.Join(words, " ") + `; echo "exit code $?"; tmux wait-for -S ended; exec cat`
	m.ask(t, "new-session", "-d", "-s", "person", "-x", strconv.Itoa(columns), "-y", "40", script)
	m.ask(t, "wait-for", "ended")
	shown := m.ask(t, "capture-pane", "-p", "-J", "-t", "person")
	if title := m.ask(t, "display-message", "-p", "-t", "person", "#{pane_title}"); strings.Contains(title, "owned") {
		t.Errorf("the terminal's title is %q", title)
	}
	if kept, _ := m.command("show-buffer").Output(); len(kept) > 0 {
		t.Errorf("the clipboard holds %q", kept)
	}
	m.ask(t, "kill-session", "-t", "person")
	return shown
}

// attack is what a job, a target's name or a peer's error may hold: it clears the screen, sets the
// title and the clipboard, goes back over the line, and turns the text around.
const attack = "first\x1b[2J\x1b[H\x1b]2;owned\x07\x1b]52;c;b3duZWQ=\x07\u009b2J\rXXXXX\b\b\u202eabc\u200b\U000e0041"

const attackShown = `first\x1b[2J\x1b[H\x1b]2;owned\x07\x1b]52;c;b3duZWQ=\x07\u009b2J\rXXXXX\x08\x08\u202eabc\u200b\udb40\udc41`

// A person sees what was said, and nothing of it steers the terminal.
func TestInARealTerminal(t *testing.T) {
	t.Parallel()
	text, _ := json.Marshal(attack)
	worker := startDaemon(t, "", map[string]any{
		"status":     json.RawMessage(fmt.Sprintf(`{"targets": {%s: {"concurrency": 3}}, "memoryUsage": {}}`, text)),
		"run-manual": json.RawMessage(fmt.Sprintf(`{"jobs": {"5": {"result": "ok", "code": 0, "stdout": %s, "stderr": %[1]s}}, "errors": {"6": %[1]s}}`, text)),
	})
	master := startDaemon(t, "", map[string]any{
		"status": json.RawMessage(fmt.Sprintf(`{"workers": [{"remoteAddr": "10.0.0.1", "remotePort": 1, "name": %s, "targets": [%[1]s]}], "memoryUsage": {}}`, text)),
		"pause":  jobnet.Refusal("worker '" + attack + "': no"),
	})
	for name, test := range map[string]struct {
		args  []string
		times int // how often the whole of it is there to be read
	}{
		"a target's name":         {[]string{"--port", worker.port, "list-targets"}, 1},
		"as JSON":                 {[]string{"--port", worker.port, "list-targets", "--output=json"}, 0},
		"a job's output":          {[]string{"--port", worker.port, "run-manual", "5"}, 2},
		"of several jobs":         {[]string{"--port", worker.port, "run-manual", "5", "6"}, 3},
		"a worker's name":         {[]string{"--master", "--port", master.port, "list-workers"}, 2},
		"a peer's error":          {[]string{"--master", "--port", master.port, "pause"}, 1},
		"a job's story":           {[]string{"journal", "show", "5", "--journal", attacked(t)}, 4},
		"an argument of somebody": {[]string{"journal", "verify", "--journal", "/no/" + attack}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shown := strings.ReplaceAll(startMultiplexer(t).shows(t, test.args...), "\n", "")
			if got := strings.Count(shown, attackShown); got < test.times || !strings.Contains(shown, "exit code") {
				t.Errorf("%d times %s, want %d, in\n%s", got, attackShown, test.times, shown)
			}
			if !strings.Contains(shown, "first") || strings.ContainsAny(shown, "\u202e\u200b\U000e0041") {
				t.Errorf("shows %q", shown)
			}
		})
	}
}

// attacked is a journal of a job that printed it, for a target of that name, by a worker of that name.
func attacked(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	j := openJournal(t, dir)
	appendAll(
		t, j,
		journal.Draft{Payload: journal.Opened{Name: attack}},
		journal.Draft{Job: 5, Payload: journal.Accepted{Target: attack, Token: "@tokenfive"}},
		journal.Draft{Job: 5, Payload: journal.Running{Attempt: 1}},
		journal.Draft{Job: 5, Payload: journal.Started{Pid: 100, StartTime: 1, BootID: "boot"}},
		journal.Draft{Job: 5, Payload: journal.Done{
			Result: "fail", Stdout: journal.Output{Kept: []byte(attack), Size: int64(len(attack))}, Stderr: journal.Output{Kept: []byte(attack), Size: int64(len(attack))},
		}},
	)
	must.Do(t, j.Close())
	return dir
}

// jobctl's own colours are there all the same.
func TestOwnColoursInARealTerminal(t *testing.T) {
	t.Parallel()
	m := startMultiplexer(t)
	self, _ := os.Executable()
	script := "'" + self + "' journal log --journal '" + oneDay(t) + "'; tmux wait-for -S ended; exec cat"
	m.ask(t, "new-session", "-d", "-s", "person", "-x", "200", "-y", "40", script)
	m.ask(t, "wait-for", "ended")
	if shown := m.ask(t, "capture-pane", "-p", "-e", "-t", "person"); !strings.Contains(shown, "\x1b[31m2026-11-20") || strings.Contains(shown, `\x1b`) {
		t.Errorf("shows %q", shown)
	}
}
