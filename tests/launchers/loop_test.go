package launchers_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/tests/launchers/loop"
)

// language is one of the loops in examples/launchers.
type language struct {
	file        string
	interpreter string
	ends        string
	fails       string // what stands in the place of the function run's body: an error that nobody catches
	leaves      string // and one that leaves with code 7
}

var languages = []language{
	{"fork.php", "php", loop.Ended, "throw new Exception('told');", "exit(7);"},
	{"pool.php", "php", loop.Exit, "throw new Exception('told');", "return 7;"},
	{"fork.py", "python3", loop.Ended, "raise Exception('told')", "return 7"},
	{"pool.py", "python3", loop.Exit, "raise Exception('told')", "return 7"},
	{"fork.rb", "ruby", loop.Ended, "raise 'told'", "return 7"},
	{"pool.rb", "ruby", loop.Exit, "raise 'told'", "return 7"},
	{"pool.cjs", "node", loop.Exit, "throw new Error('told');", "return 7;"},
	{"fork.pl", "perl", loop.Ended, "die 'told';", "return 7;"},
}

func (l language) path() string { return filepath.Join("..", "..", "examples", "launchers", l.file) }

// with is the path of a copy in which jobs do something else: the line that prints is replaced.
func (l language) with(t *testing.T, body string) string {
	t.Helper()
	source, err := os.ReadFile(l.path())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(source), "\n")
	replaced := false
	for i, line := range lines {
		if strings.Contains(line, ", attempt ") && !replaced {
			indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
			lines[i], replaced = indent+body, true
		}
	}
	if !replaced {
		t.Fatalf("%s has no line that prints the attempt", l.file)
	}
	path := filepath.Join(t.TempDir(), l.file)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// code is the exit code that an end stands for.
func (l language) code(end int) int {
	if l.ends == loop.Ended {
		return end >> 8
	}
	return end
}

// run runs a program's jobs and gives the end of the last one and all output.
func (l language) run(t *testing.T, path string, jobs ...string) (code int, out string) {
	t.Helper()
	var written bytes.Buffer
	process, err := loop.Start(l.ends, &written, &written, l.interpreter, path)
	if err != nil {
		t.Fatal(err)
	}
	for i, variables := range jobs {
		end, err := process.Run(int64(i+1), strings.Fields(variables)...)
		if err != nil {
			t.Fatal(err, written.String())
		}
		code = l.code(end)
	}
	if err := process.Quit(); err != nil {
		t.Error(err)
	}
	return code, written.String()
}

// Each job is told its own variables, and none those of the job before.
func TestJobsAreToldTheirVariables(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		t.Run(l.file, func(t *testing.T) {
			t.Parallel()
			code, out := l.run(t, l.path(), "JOBD_ATTEMPT=2%20%C3%A4", "", "JOBD_ATTEMPT=a%3Db%2B")
			want := "job 1, attempt 2 ä\njob 2, attempt 1\njob 3, attempt a=b+\n"
			if code != 0 || out != want {
				t.Errorf("code %d, output %q, want %q", code, out, want)
			}
		})
	}
}

func TestAJobThatFailsIsTold(t *testing.T) {
	t.Parallel()
	for _, l := range languages {
		t.Run(l.file, func(t *testing.T) {
			t.Parallel()
			if code, out := l.run(t, l.with(t, l.fails), ""); code == 0 || !strings.Contains(out, "told") {
				t.Errorf("code %d, output %q", code, out)
			}
			if code, out := l.run(t, l.with(t, l.leaves), ""); code != 7 {
				t.Errorf("code %d, output %q", code, out)
			}
		})
	}
}

// Where jobd is gone, its end of the requests is closed: the process ends.
func TestALoopEndsWithoutJobd(t *testing.T) {
	t.Parallel()
	for _, l := range append(languages, spare) {
		t.Run(l.file, func(t *testing.T) {
			t.Parallel()
			process, err := loop.Start(l.ends, nil, os.Stderr, l.interpreter, l.path())
			if err != nil {
				t.Fatal(err)
			}
			if err := process.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// spare runs one job, whose end is its own.
var spare = language{file: "spare.cjs", interpreter: "node", fails: "throw new Error('told');", leaves: "return 7;"}

func TestASpareRunsOneJob(t *testing.T) {
	t.Parallel()
	tests := []struct{ body, out, end string }{
		{"", "job 5, attempt 2 ä\n", ""},
		{spare.fails, "told", "exit status 1"},
		{spare.leaves, "", "exit status 7"},
	}
	for _, test := range tests {
		path := spare.path()
		if test.body != "" {
			path = spare.with(t, test.body)
		}
		var written bytes.Buffer
		process, err := loop.Start("", &written, &written, spare.interpreter, path)
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Ask(5, "JOBD_ATTEMPT=2%20%C3%A4"); err != nil {
			t.Fatal(err)
		}
		if line, err := process.Read(); err != nil || line != "started 5" {
			t.Fatalf("%q: %v", line, err)
		}
		end := ""
		if err := process.Wait(); err != nil {
			end = fmt.Sprint(err)
		}
		if end != test.end || !strings.Contains(written.String(), test.out) {
			t.Errorf("%q: ended with %q, output %q", test.body, end, written.String())
		}
	}
}
