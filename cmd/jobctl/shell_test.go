package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
)

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
		"remove-target": "ok", "set-target-concurrency": "ok", "restart": "ok",
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
		"set-target-concurrency a 1", "restart", "run-manual 5", "run-manual --output=json 5", "send-signal TERM 5",
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

func TestAFullDiskUnderStderrAndFiles(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, "", map[string]any{
		"run-manual": json.RawMessage(`{"jobs": {"5": {"result": "ok", "code": 0, "stdout": "out", "stderr": "x"}}}`),
	})
	full := must.Get(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t)
	defer full.Close()
	cmd := ownProcess(t, "run-manual", "5", "--port", d.port)
	cmd.Stderr = full
	if out, err := cmd.Output(); cmd.ProcessState.ExitCode() != 1 || string(out) != "out" {
		t.Errorf("stderr is full: %v, stdout %q", err, out)
	}
	dir := oneDay(t)
	if got := (jobctl{}).run(t, "journal", "anchor", "--journal", dir, "--out=/dev/full"); got.code != 1 || !strings.Contains(got.err, "no space left") {
		t.Errorf("anchor: %+v", got)
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
