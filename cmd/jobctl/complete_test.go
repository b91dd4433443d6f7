package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/store/storetest/must"
)

// What is offered for the last word of a line.
func TestComplete(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"sta":                         {"status"},
		"journal st":                  {"state", "stats"},
		"help journal st":             {"state", "stats"},
		"--output json journal st":    {"state", "stats"},
		"@prod journal st":            {"state", "stats"},
		"--output ":                   {"table", "json"},
		"journal log --kin":           {"--kind"},
		"journal log --kind do":       {"done"},
		"journal state --status re":   {"released", "retried"},
		"journal verify --journal ":   nil, // files, as the shell knows them
		"journal log --no":            nil,
		"--mas":                       {"--master", "--master-port"},
		"pause mail":                  nil,
		"journal log -n 3 -f --journ": {"--journal"},
	} {
		got := jobctl{}.run(t, append([]string{completeCommand}, strings.Split(line, " ")...)...)
		words := strings.Fields(got.out)
		slices.Sort(words)
		slices.Sort(want)
		if !slices.Equal(words, want) || got.code != 0 || got.err != "" {
			t.Errorf("%q: %q, want %q; %+v", line, words, want, got)
		}
	}
}

// interactive are shells as somebody has them who has configured nothing, with the completion of
// jobctl; $ is their prompt.
var interactive = map[string]string{
	"bash": `env PS1='$ ' bash --norc --noprofile -i`,
	"zsh":  `env PS1='$ ' zsh -f -i`,
	"fish": `fish --no-config -i -C 'function fish_prompt; echo -n "\$ "; end; function fish_right_prompt; end'`,
}

// loading has a shell load the script.
var loading = map[string]string{
	"bash": `source <(jobctl completion bash); clear`,
	"zsh":  `source <(jobctl completion zsh); clear`,
	"fish": `jobctl completion fish | source; clear`,
}

// Somebody types and presses the tabulator, in each shell, and it writes what was meant.
func TestCompletionInRealShells(t *testing.T) {
	t.Parallel()
	self := must.Get(os.Executable())(t)
	bin := t.TempDir()
	must.Do(t, os.Symlink(self, filepath.Join(bin, "jobctl")))
	for shell, start := range interactive {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(shell); err != nil {
				t.Fatalf("%s is missing: make deps installs it", shell)
			}
			m := startMultiplexer(t)
			home := t.TempDir()
			m.ask(t, "new-session", "-d", "-s", "person", "-x", "100", "-y", "30", "env HOME="+home+" XDG_CONFIG_HOME="+home+
				" XDG_DATA_HOME="+home+" PATH="+bin+":$PATH "+start)
			m.awaitScreen(t, "$")
			m.ask(t, "send-keys", "-t", "person", "-l", loading[shell])
			m.awaitScreen(t, "clear")
			m.ask(t, "send-keys", "-t", "person", "Enter")
			m.awaitScreen(t, "") // what stood there is gone
			for _, test := range []struct{ typed, want string }{
				{"jobctl sta", "$ jobctl status"},
				{"jobctl journal ver", "$ jobctl journal verify"},
				{"jobctl journal log --kind accep", "$ jobctl journal log --kind accepted"},
				{"jobctl journal log --job 5 --foll", "$ jobctl journal log --job 5 --follow"},
			} {
				m.ask(t, "send-keys", "-t", "person", "-l", test.typed)
				m.awaitScreen(t, test.typed)
				m.ask(t, "send-keys", "-t", "person", "Tab")
				m.awaitScreen(t, test.want)
				m.ask(t, "send-keys", "-t", "person", "C-u")
				m.awaitScreen(t, "")
			}
		})
	}
}

// awaitScreen waits until the line where somebody types is as wanted, after the prompt at least; of
// no text, until nothing but the prompt is there.
func (m multiplexer) awaitScreen(t *testing.T, want string) {
	t.Helper()
	shown := ""
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		shown = strings.TrimRight(m.ask(t, "capture-pane", "-p", "-t", "person"), "\n ")
		if want == "" && shown == "$" || want != "" && strings.Contains(shown, want) {
			return
		}
	}
	t.Fatalf("no %q on the screen:\n%s", want, shown)
}

// ownProcess is jobctl as a process of its own.
func ownProcess(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self := must.Get(os.Executable())(t)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "HOME="+t.TempDir())
	return cmd
}

// What could not be written has not arrived: no command may say that all went well.
func TestAFullDiskIsNoSuccess(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{
		"status": json.RawMessage(workerAnswer), "poll": "ok", "pause": "ok", "continue": "ok", "add-target": "ok",
		"remove-target": "ok", "set-target-concurrency": "ok",
		"run-manual":  json.RawMessage(`{"jobs": {"5": {"result": "ok", "code": 0, "stdout": "x", "stderr": ""}}}`),
		"send-signal": json.RawMessage(`{"5": true}`),
	})
	master := startDaemon(t, "", map[string]any{
		"status": json.RawMessage(strings.Replace(masterAnswer, "timed out", "", 1)), "poke": "ok",
	})
	dir := oneDay(t)
	for _, args := range []string{
		"--help", "journal --help", "--version",
		"list-targets", "status", "status --output=json", "memory-usage", "poll", "pause", "continue", "add-target a 1", "remove-target a",
		"set-target-concurrency a 1", "run-manual 5", "run-manual --output=json 5", "send-signal TERM 5",
		"--master list-workers", "--master status", "--master memory-usage", "--master poke a",
		"journal log", "journal log --output=json", "journal show 5", "journal state", "journal conflicts", "journal stats",
		"journal export", "journal export --format=csv", "journal verify", "journal anchor",
	} {
		words, port := strings.Fields(args), d.port
		if strings.Contains(args, "--master") {
			port = master.port
		}
		words = append(words, "--port", port)
		if words[0] == "journal" && words[1] != "--help" {
			words = append(words, "--journal", dir)
		}
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		var errs strings.Builder
		cmd := ownProcess(t, words...)
		cmd.Stdout, cmd.Stderr = full, &errs
		err = cmd.Run()
		full.Close()
		if cmd.ProcessState.ExitCode() != 1 || strings.Count(errs.String(), "no space left on device") != 1 {
			t.Errorf("%s: %v, stderr %q", args, err, errs.String())
		}
	}
}

// headOf reads one line of what a process prints, as head -n 1 does, and gives what it says on stderr.
func headOf(t *testing.T, cmd *exec.Cmd) (line, errs string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	said := must.Get(cmd.StderrPipe())(t)
	must.Do(t, cmd.Start())
	line, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Errorf("the first line: %v", err)
	}
	out.Close()
	all, _ := io.ReadAll(said)
	_ = cmd.Wait()
	return line, string(all)
}

// Who has read enough closes the pipe: jobctl ends as other tools do, by SIGPIPE and in silence.
func TestAPipeThatIsClosed(t *testing.T) {
	t.Parallel()
	args := []string{"journal", "log", "--follow", "--output=json"}
	for range 50 {
		args = append(args, "--journal", oneDay(t))
	}
	cmd := ownProcess(t, args...)
	line, errs := headOf(t, cmd)
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !strings.HasPrefix(line, "{") || !status.Signaled() || status.Signal() != syscall.SIGPIPE || strings.Contains(errs, "pipe") {
		t.Errorf("read %q, ended with %v, stderr %q", line, cmd.ProcessState, errs)
	}
}

// halting fails after some writes.
type halting struct{ writes int }

func (h *halting) Write(p []byte) (int, error) {
	if h.writes--; h.writes < 0 {
		return 0, errors.New("the disk is full")
	}
	return len(p), nil
}

// No write is left unlooked at, whichever of them it is that fails.
func TestEachFailedWriteCounts(t *testing.T) {
	t.Parallel()
	dir := oneDay(t)
	for _, command := range []string{"log", "show 5", "stats", "verify", "state"} {
		for n := range 3 {
			for _, terminal := range []bool{false, true} {
				out := &halting{writes: n}
				around := surroundings{out: out, err: io.Discard, terminal: terminal, now: begin.UTC, location: begin.Location()}
				code := shell(t.Context(), append([]string{"journal", "--journal", dir}, strings.Fields(command)...), around)
				if failed := out.writes < 0; (code == 1) != failed {
					t.Errorf("%s, write %d, terminal %t: exit code %d, failed: %t", command, n+1, terminal, code, failed)
				}
			}
		}
	}
}
