package gearman

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func TestToolsOfJobd(t *testing.T) {
	t.Parallel()
	settings, addr, _ := site(t)
	settings.StartWorker(t)
	testTools(t, addr)
}

// tool is a program of gearman-tools that is told where the server is.
func tool(t *testing.T, addr, name string, words ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(harness.Bounded(t), name, append([]string{"-h", "127.0.0.1", "-p", port(addr)}, words...)...)
}

// worker has the program gearman run a command for each job of a function.
func worker(t *testing.T, addr, function string, command ...string) {
	t.Helper()
	w := tool(t, addr, "gearman", append([]string{"-w", "-f", function}, command...)...)
	must.Do(t, w.Start())
	t.Cleanup(func() {
		_ = w.Process.Kill()
		_ = w.Wait()
	})
}

var tooled = []struct {
	re *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`(?m)^\d+ \S+ `), "{fd} {address} "},
	{regexp.MustCompile(`H:\S+`), "{job}"},
	{regexp.MustCompile(`(?m)^(OK )?\d+$`), "${1}{pid}"},
	{regexp.MustCompile(`\b\d+\.\d+\S*`), "{version}"},
}

// testTools has gearman and gearadmin do all that they can.
func testTools(t *testing.T, addr string) {
	t.Helper()
	admin := func(t *testing.T, want string, words ...string) {
		t.Helper()
		harness.Until(t, func() string { // a connection that ends may be listed for a moment
			out, err := tool(t, addr, "gearadmin", words...).CombinedOutput()
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			slices.Sort(lines)
			said := strings.Join(lines, "\n")
			for _, masked := range tooled {
				said = masked.re.ReplaceAllString(said, masked.by)
			}
			if said = strings.ReplaceAll(said, "\n", " "); said != want {
				return fmt.Sprintf("gearadmin %q: %v: it says %q, want %q", words, err, said, want)
			}
			return ""
		})
	}
	submit := func(t *testing.T, input, want string, words ...string) {
		t.Helper()
		client := tool(t, addr, "gearman", words...)
		client.Stdin = strings.NewReader(input)
		out, err := client.CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("gearman %q: %v: it says %.300q, want %.300q", words, err, out, want)
		}
	}

	// The jobs of a function without workers, as gearadmin sees them.
	admin(t, "OK", "--create-function", "made")
	submit(t, "", "", "-b", "-f", "idle", "-u", "first", "text")
	submit(t, "", "", "-b", "-I", "-f", "idle", "-u", "second", "text")
	submit(t, "", "", "-b", "-L", "-f", "idle", "-u", "third", "text")
	admin(t, ". idle\t3\t0\t0 made\t0\t0\t0", "--status")
	admin(t, ". idle\t1\t1\t1\t0 made\t0\t0\t0\t0", "--priority-status")
	admin(t, ". {job}\t0\t0\t1 {job}\t0\t0\t1 {job}\t0\t0\t1", "--show-jobs")
	admin(t, ". first second third", "--show-unique-jobs")
	admin(t, ". {fd} {address} - :", "--workers")
	admin(t, "{pid}", "--getpid")
	admin(t, "{version}", "--server-version")
	admin(t, "ERROR", "--server-verbose")
	admin(t, "OK", "--drop-function", "made")
	admin(t, "Error: function not found", "--drop-function", "never")
	admin(t, "Error: UNKNOWN_JOB", "--cancel-job", "H:nowhere:1")

	t.Run("round trips", func(t *testing.T) {
		t.Parallel()
		worker(t, addr, "upper", "tr", "a-z", "A-Z")
		submit(t, "", "HELLO", "-f", "upper", "hello")
		submit(t, "from a pipe", "FROM A PIPE", "-f", "upper")
		submit(t, "one\ntwo\n", "ONE\nTWO\n", "-n", "-f", "upper")
		submit(t, "", "upper: HIGH", "-P", "-I", "-f", "upper", "high")
		// More than that takes long: its reader copies all that it has for each piece.
		worker(t, addr, "count", harness.Script(t, "exec wc -c"))
		submit(t, strings.Repeat("\n", 256<<10), "262144\n", "-f", "count")
		worker(t, addr, "yes", harness.Script(t, "cat >/dev/null; yes | head -c 262144"))
		submit(t, "", strings.Repeat("y\n", 128<<10), "-f", "yes", "x")
	})
	t.Run("failures", func(t *testing.T) {
		t.Parallel()
		worker(t, addr, "fails", "false")
		client := tool(t, addr, "gearman", "-f", "fails", "x")
		var stdout bytes.Buffer
		client.Stdout = &stdout
		if err := client.Run(); err == nil || stdout.Len() > 0 { // its worker ends, too
			t.Errorf("a job that fails: %v; the client says %q", err, &stdout)
		}
	})
	t.Run("background", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "made")
		submit(t, "", "", "-b", "-f", "touch", path)
		worker(t, addr, "touch", harness.Script(t, `touch "$(cat)"`))
		harness.AwaitFile(t, path)
	})
	t.Run("joined", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "runs")
		var clients []*exec.Cmd
		var said [2]bytes.Buffer
		for i := range said {
			client := tool(t, addr, "gearman", "-f", "once", "-u", "same", path)
			client.Stdout, client.Stderr = &said[i], &said[i]
			must.Do(t, client.Start())
			clients = append(clients, client)
		}
		l := dial(t, addr)
		harness.Until(t, func() string {
			if got := l.asked(t, 42, 41, "same"); got.arguments[5] != "2" {
				return fmt.Sprintf("%q is how the job stands for which two should wait", got.arguments)
			}
			return ""
		})
		worker(t, addr, "once", harness.Script(t, `path=$(cat); echo run | tee -a "$path"`))
		for i, client := range clients {
			if err := client.Wait(); err != nil || said[i].String() != "run\n" {
				t.Errorf("one of two clients of a job: %v: it says %q", err, &said[i])
			}
		}
		if out := must.Get(exec.Command("cat", path).Output())(t); string(out) != "run\n" {
			t.Errorf("it was run: %q", out)
		}
	})
}
