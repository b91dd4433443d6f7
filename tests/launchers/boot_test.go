package launchers_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
	"jobd/tests/launchers/loop"
)

// loads is how each language's examples load the application: a comment, to be replaced.
var loads = map[string]string{
	"php":     "// require __DIR__ . '/vendor/autoload.php';",
	"python3": "# import application",
	"ruby":    `# require "application"`,
	"perl":    "# use Application;",
	"node":    "// const application = require('./application');",
}

// alone runs a program without descriptors 3 and 4, as a launcher whose mode was forgotten.
func alone(argv ...string) (code int, stdout, stderr string, err error) {
	cmd := exec.Command("sh", append([]string{"-c", `exec "$@" 3<&- 4<&-`, "sh"}, argv...)...)
	var out, told bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &told
	err = cmd.Run()
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		err = nil
	}
	return cmd.ProcessState.ExitCode(), out.String(), told.String(), err
}

// A launcher whose launcher_mode was forgotten runs no job, and must not look as if it had.
func TestALoopWithoutItsDescriptorsFails(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		t.Run(l.file, func(t *testing.T) {
			t.Parallel()
			if code, out, told, err := alone(l.interpreter, l.path()); code < 1 || told == "" || out != "" || err != nil {
				t.Errorf("code %d, output %q, stderr %q, %v", code, out, told, err)
			}
		})
	}
}

// What docs/executors.md has people run by hand shows that a loop gets ready, in all languages.
func TestALoopIsTriedByHand(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile(filepath.Join(harness.Top(), "docs", "executors.md")))(t)
	const command = "php /srv/app/jobs.php"
	line := regexp.MustCompile(`(?m)^ *(echo quit \| ` + command + ` .*)$`).FindSubmatch(page)
	if line == nil {
		t.Fatal("the page has no such command")
	}
	for _, l := range languages {
		byHand := strings.Replace(string(line[1]), command, l.interpreter+" "+l.path(), 1)
		out := must.Get(exec.Command("sh", "-c", byHand).CombinedOutput())(t)
		check.Equal(t, string(out), "ready\n", "%s: …, %q", byHand, out)
	}
}

// PHP gives the first numbers to files of its own: the script, and what the application opens.
func TestPHPKnowsItsFilesFromTheSockets(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		if l.interpreter != "php" {
			continue
		}
		mode, _, _ := strings.Cut(l.file, ".")
		want := fmt.Sprintf("descriptors 3 and 4 are no sockets of jobd: is launcher_mode = %s set?\n", mode)
		for name, application := range map[string]string{"nothing": "", "a file": "$log = fopen('/dev/null', 'w');"} {
			t.Run(l.file+", the application opens "+name, func(t *testing.T) {
				t.Parallel()
				path := l.replaced(t, loads["php"], application)
				if code, out, told, err := alone("php", path); code != 1 || told != want || out != "" || err != nil {
					t.Errorf("code %d, output %q, stderr %q, %v; want %q", code, out, told, err, want)
				}
			})
		}
	}
}

// Where PHP can't fork, its process does not get ready, and says what is missing.
func TestPHPThatCannotForkDoesNotGetReady(t *testing.T) {
	t.Parallel()
	fork := named(t, "fork.php")
	for function, extension := range map[string]string{"pcntl_fork": "pcntl", "pcntl_waitpid": "pcntl", "posix_setpgid": "posix"} {
		t.Run(function, func(t *testing.T) {
			t.Parallel()
			var told bytes.Buffer
			_, err := loop.Start(fork.ends, io.Discard, &told, "php", "-d", "disable_functions="+function, fork.path())
			if err == nil {
				t.Fatal("it gets ready")
			}
			want := fmt.Sprintf("PHP has no %s: it needs the extension %s\n", function, extension)
			if !errors.Is(err, io.EOF) || told.String() != want {
				t.Errorf("stderr %q, want %q; %v", told.String(), want, err)
			}
		})
	}
}

// Regression: PHP gives up a read of a socket after default_socket_timeout, and so a process ended that had no job for
// a minute.
func TestPHPWaitsForAJobForAsLongAsItTakes(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"fork.php", "pool.php"} {
		of := named(t, file)
		l, err := loop.Start(of.ends, io.Discard, io.Discard, "php", "-d", "default_socket_timeout=0", of.path())
		if err != nil {
			t.Fatalf("%s does not get ready: %v", file, err)
		}
		if _, err := l.Run(1); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// What the application writes while it is loaded is no job's output: it is out before `ready`, which is
// where the runner draws the line.
func TestOutputOfLoadingIsNoJobs(t *testing.T) {
	t.Parallel()
	boots := map[string]string{
		"php": `ob_start(); echo "BOOT\n";`, "python3": `print("BOOT")`, "ruby": `puts "BOOT"`, "perl": `print "BOOT\n";`, "node": `console.log("BOOT");`,
	}
	for _, l := range languages {
		t.Run(l.file, func(t *testing.T) {
			t.Parallel()
			output, written, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer output.Close()
			defer written.Close()
			path := l.replaced(t, loads[l.interpreter], boots[l.interpreter])
			process := must.Get(loop.Start(l.ends, written, os.Stderr, "env", "-u", "PYTHONUNBUFFERED", l.interpreter, path))(t)
			must.Get(written.WriteString("ready\n"))(t)
			if _, err := process.Run(1); err != nil && (l.ends != "" || !errors.Is(err, io.EOF)) {
				t.Fatal(err)
			}
			check.Do(t, process.Close())
			written.Close()
			all, err := io.ReadAll(output)
			if want := "BOOT\nready\njob 1, attempt 1\n"; string(all) != want || err != nil {
				t.Errorf("it wrote %q, want %q; %v", all, want, err)
			}
		})
	}
}
