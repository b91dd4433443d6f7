package launchers_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/launchers/loop"
)

// language is one of the loops in examples/launchers. What jobs do stands in the place of the body of
// its function run.
type language struct {
	file        string
	interpreter string
	ends        string
	fails       string // an error that nobody catches
	leaves      string // run returns 7
	exits       string // the job calls what ends a program, with code 7
	raises      string // it sends itself a signal
	itself      bool   // an exit in a job ends the process with that code: the language can't keep it
}

var languages = []language{
	{file: "fork.php", interpreter: "php", ends: loop.Ended, fails: phpFails, leaves: "return 7;", exits: "exit(7);", raises: "posix_kill(getmypid(), %d); sleep(60);"},
	{file: "pool.php", interpreter: "php", ends: loop.Exit, fails: phpFails, leaves: "return 7;", exits: "exit(7);", raises: "posix_kill(getmypid(), %d); sleep(60);", itself: true},
	{file: "fork.py", interpreter: "python3", ends: loop.Ended, fails: "raise Exception('told')", leaves: "return 7", exits: "sys.exit(7)", raises: "os.kill(os.getpid(), %d); __import__('time').sleep(60)"},
	{file: "pool.py", interpreter: "python3", ends: loop.Exit, fails: "raise Exception('told')", leaves: "return 7", exits: "sys.exit(7)", raises: "os.kill(os.getpid(), %d); __import__('time').sleep(60)"},
	{file: "fork.rb", interpreter: "ruby", ends: loop.Ended, fails: "raise 'told'", leaves: "return 7", exits: "exit 7", raises: "Process.kill(%d, $$); sleep 60"},
	{file: "pool.rb", interpreter: "ruby", ends: loop.Exit, fails: "raise 'told'", leaves: "return 7", exits: "exit 7", raises: "Process.kill(%d, $$); sleep 60"},
	{file: "pool.cjs", interpreter: "node", ends: loop.Exit, fails: "throw new Error('told');", leaves: "return 7;", exits: "process.exit(7);", raises: nodeRaises, itself: true},
	{file: "fork.pl", interpreter: "perl", ends: loop.Ended, fails: "die 'told';", leaves: "return 7;", exits: "exit 7;", raises: "kill %d => $$; sleep 60;"},
}

const (
	phpFails   = "(function () { throw new Exception('told'); })();"
	nodeRaises = "process.kill(process.pid, %d); await new Promise((done) => setTimeout(done, 60000));"
)

func (l language) path() string { return filepath.Join("..", "..", "examples", "launchers", l.file) }

// with is the path of a copy in which jobs do something else: the line that prints is replaced.
func (l language) with(t *testing.T, body string) string {
	t.Helper()
	return l.replaced(t, ", attempt ", body)
}

// replaced is the path of a copy that has something else in place of the first line with that part.
func (l language) replaced(t *testing.T, part, by string) string {
	t.Helper()
	source := must.Get(os.ReadFile(l.path()))(t)
	lines := strings.Split(string(source), "\n")
	at := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, part) })
	if at < 0 {
		t.Fatalf("%s has no line with %q", l.file, part)
	}
	indent := lines[at][:len(lines[at])-len(strings.TrimLeft(lines[at], " "))]
	lines[at] = indent + by
	path := filepath.Join(t.TempDir(), l.file)
	must.Do(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
	return path
}

// named is the one of a file.
func named(t *testing.T, file string) language {
	t.Helper()
	at := slices.IndexFunc(languages, func(l language) bool { return l.file == file })
	if at < 0 {
		t.Fatal(file, " is in no table")
	}
	return languages[at]
}

// end tells how a job ended, as wait does, by what its process has said of it or how that has ended.
func (l language) end(said int, process error) string {
	var status syscall.WaitStatus
	switch ended := (*exec.ExitError)(nil); {
	case errors.As(process, &ended):
		status = ended.Sys().(syscall.WaitStatus)
	case l.ends == loop.Ended:
		status = syscall.WaitStatus(said)
	default:
		return fmt.Sprint("code ", said)
	}
	if status.Signaled() {
		return fmt.Sprint("signal ", int(status.Signal()))
	}
	return fmt.Sprint("code ", status.ExitStatus())
}

// run runs a program's jobs and gives the end of the last one and all output.
func (l language) run(t *testing.T, path string, jobs ...string) (end, out string) {
	t.Helper()
	var written bytes.Buffer
	process := must.Get(loop.Start(l.ends, &written, &written, l.interpreter, path))(t)
	for i, variables := range jobs {
		said, err := process.Run(int64(i+1), strings.Fields(variables)...)
		if errors.Is(err, io.EOF) && i == len(jobs)-1 { // its end is the job's
			return l.end(0, process.Wait()), written.String()
		}
		if err != nil {
			t.Fatal(err, written.String())
		}
		end = l.end(said, nil)
	}
	check.Do(t, process.Quit())
	return end, written.String()
}

// Each job is told its own variables, and none those of the job before.
func TestJobsAreToldTheirVariables(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		t.Run(l.file, func(t *testing.T) {
			t.Parallel()
			jobs, want := []string{"JOBD_ATTEMPT=2%20%C3%A4", "", "JOBD_ATTEMPT=a%3Db%2B"}, "job 1, attempt 2 ä\njob 2, attempt 1\njob 3, attempt a=b+\n"
			if l.ends == "" { // it has one job
				jobs, want = jobs[:1], "job 1, attempt 2 ä\n"
			}
			if end, out := l.run(t, l.path(), jobs...); end != "code 0" || out != want {
				t.Errorf("%s, output %q, want %q", end, out, want)
			}
		})
	}
}

// The last line of what a job writes is what clients and jobctl show: it says what failed.
func TestAJobThatFailsIsTold(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		t.Run(l.file, func(t *testing.T) {
			t.Parallel()
			end, out := l.run(t, l.with(t, l.fails), "")
			if last := (journal.Output{Kept: []byte(out)}).LastLine(); end == "code 0" || !strings.Contains(string(last), "told") {
				t.Errorf("%s, output %s", end, out)
			}
		})
	}
}

// A job ends with the code that run returns or that the program is ended with, or by the signal that
// has ended it. Where it can, its process goes on.
func TestHowAJobEndsIsPassedOn(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		bodies := map[string]string{l.leaves: "code 7", l.exits: "code 7"}
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL, syscall.SIGHUP} {
			bodies[fmt.Sprintf(l.raises, signal)] = fmt.Sprint("signal ", int(signal))
		}
		for body, want := range bodies {
			t.Run(l.file+" "+body, func(t *testing.T) {
				t.Parallel()
				if end, out := l.run(t, l.with(t, body), ""); end != want {
					t.Errorf("%s, not %s; output %s", end, want, out)
				}
			})
		}
		if l.itself {
			continue
		}
		t.Run(l.file+" goes on", func(t *testing.T) {
			t.Parallel()
			if end, out := l.run(t, l.with(t, l.exits), "", ""); end != "code 7" {
				t.Errorf("the second job: %s; output %s", end, out)
			}
		})
	}
}

// What the parent has registered for its own end is not run by a job that exits.
func TestAnExitIsNotTheParents(t *testing.T) {
	t.Parallel()
	for file, body := range map[string]string{
		"fork.pl": `exit 7; END { print "the parent's end\n" }`,
		"fork.py": `sys.exit(7)` + "\n\n\n" + `__import__("atexit").register(print, "the parent's end")` + "\ndef other():",
		"fork.rb": "exit 7\nend\nat_exit { puts \"the parent's end\" }\ndef other",
	} {
		l := named(t, file)
		end, out := l.run(t, l.with(t, body), "", "")
		if n := strings.Count(out, "the parent's end"); end != "code 7" || n != 1 {
			t.Errorf("%s: %s, and the parent's end came %d times: %s", file, end, n, out)
		}
	}
}

// Where jobd is gone, its end of the requests is closed: the process ends.
func TestALoopEndsWithoutJobd(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		t.Run(l.file, func(t *testing.T) {
			t.Parallel()
			process := must.Get(loop.Start(l.ends, nil, os.Stderr, l.interpreter, l.path()))(t)
			check.Do(t, process.Close())
		})
	}
}
