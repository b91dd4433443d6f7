package operator

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

var update = flag.Bool("update", false, "write what top shows into testdata")

// varying is what differs from run to run, and what stands for it. A run of blanks or of lines counts as one: how wide columns
// are depends on what is in them.
var varying = []struct {
	found *regexp.Regexp
	word  string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`\d\d:\d\d:\d\d`), "CLOCK"},
	{regexp.MustCompile(`\b(\d+[dhm])?[0-9.]+[hms]\b`), "TIME"},
	{regexp.MustCompile(`node-(\d) [0-9a-z.-]+, up`), "node-$1 VERSION, up"},
	{regexp.MustCompile(`(?m)^([> ]) +\d+( +(?:mail|report|video)(?: +node-\d)?) +\d+ +1 +TIME +TIME +[0-9.]+ [KM]iB`), "$1 JOB$2 PID 1 TIME TIME SIZE"},
	{regexp.MustCompile(` +`), " "},
	{regexp.MustCompile(`──+`), "──"},
}

// cancels finds the job that is to be cancelled.
var cancels = regexp.MustCompile(`cancel job (\d+) of `)

// golden compares what a terminal shows with a file.
func golden(t *testing.T, name, shown string, height int) {
	t.Helper()
	check.Equal(t, strings.Count(shown, "\n"), height, "%s: … lines in a terminal of", name)
	shown = masked(shown)
	file := filepath.Join("testdata", name+".txt")
	if *update {
		must.Do(t, os.WriteFile(file, []byte(shown), 0o644))
	}
	want := must.Get(os.ReadFile(file))(t)
	check.Equal(t, cmp.Diff(string(want), shown), "", "%s", name)
}

// masked is what is the same in every run.
func masked(shown string) string {
	for _, v := range varying {
		shown = v.found.ReplaceAllString(shown, v.word)
	}
	return shown
}

// busy starts a worker whose jobs go on until they are killed, with jobs of each of its targets.
func busy(t *testing.T, db *harness.Database, name string, targets map[string]int, others ...harness.Settings) *harness.Daemon {
	t.Helper()
	launcher := harness.Script(t, `echo "job $1 says hello"; echo "nothing is wrong" >&2; exec sleep 600`)
	return db.Worker(t, name, launcher+" {id}", targets).With(others...).StartWorker(t)
}

func poll(t *testing.T, d *harness.Daemon) {
	t.Helper()
	got := jobctl(t, d, "poll")
	must.Equal(t, got.code, 0, "%+v", got)
}

// A person watches a worker in a terminal that changes its size, pauses and continues a target, and ends a job.
func TestTopInATerminal(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	worker := busy(t, db, "node-1", map[string]int{"mail": 3, "report": 2}, harness.Settings{"prefetch": "3"})
	for id := int64(10); id <= 11; id++ {
		db.Insert(t, id, "report", "waiting")
	}
	poll(t, worker)
	db.AwaitCount(t, 2, "status = 'running'") // and are the oldest
	db.InsertMany(t, 9, "mail", "waiting")    // three run, three more are claimed, three wait
	poll(t, worker)
	db.AwaitCount(t, 5, "status = 'running'")
	term := openTerminal(t, worker, 80, 24, "top", "--interval", "500ms")
	steady := []string{"5/5 slots", "5 started", "table 0 events behind", "3/3        3", "2/2        0", "running jobs: 5,"}
	golden(t, "top-80x24", term.awaitTimes(5, "iB\n", steady...), 24)
	term.resize(200, 60)
	golden(t, "top-200x60", term.awaitTimes(5, "iB\n", append(steady[:3:3], strings.Repeat("─", 100), strings.Repeat("█", 20))...), 60)
	term.resize(50, 12)
	term.await("5 started, 0 ended, 0 fai…", "running jobs: 1–2 of 5")
	term.resize(20, 5)
	term.await("needs 40×10", "this is 20×5")
	term.resize(80, 24)
	golden(t, "top-80x24", term.awaitTimes(5, "iB\n", steady...), 24)

	term.press("p")
	term.await("pause mail?  (y/n)")
	term.press("n")
	term.await("nothing was done")
	term.press("p", "y")
	term.await("pause mail: ok", "paused")
	term.press("c", "y")
	term.await("continue mail: ok")
	log := jobctl(t, worker, "journal", "log", "--kind", "paused,continued")
	if n := strings.Count(log.stdout, "127.0.0.1:"); n != 2 || log.code != 0 {
		t.Errorf("the journal says %+v", log)
	}

	term.press("Tab", "Home", "x")
	id := cancels.FindStringSubmatch(term.await("cancel job ", "(y/n)"))
	if id == nil {
		t.Fatal("the question names no job")
	}
	term.press("z") // while a question is open keys are its answer only
	term.press("y")
	term.await("gets KILL at ")
	if log := jobctl(t, worker, "journal", "log", "--job", id[1]); !strings.Contains(log.stdout, "cancelled") {
		t.Errorf("the journal says %+v", log)
	}
	term.await("running jobs: 4,") // the next one of mail
	term.press("q")
	if shown := term.await("exit code 0"); strings.Contains(shown, "mail") {
		t.Errorf("the terminal is left as\n%s", shown)
	}
}

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
