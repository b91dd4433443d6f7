package operator

import (
	"bufio"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// following is a jobctl that follows a job.
type following struct {
	cmd    *exec.Cmd
	lines  *bufio.Reader // of stdout
	errors *bufio.Reader // of stderr
}

func follow(t *testing.T, d *harness.Daemon, args ...string) *following {
	t.Helper()
	cmd := exec.Command(harness.Program(t, "jobctl"), arguments(t, d, args...)...)
	out := must.Get(cmd.StdoutPipe())(t)
	errs := must.Get(cmd.StderrPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return &following{cmd, bufio.NewReader(out), bufio.NewReader(errs)}
}

// line is the next line of stdout, or what there is of it at the end.
func (f *following) line(t *testing.T) string {
	t.Helper()
	line, err := f.lines.ReadString('\n')
	if err != nil {
		rest, _ := io.ReadAll(f.errors)
		t.Fatalf("stdout ended with %q: %v; stderr: %s", line, err, rest)
	}
	return line
}

// end gives what is left of both, and the exit code.
func (f *following) end(t *testing.T) ran {
	t.Helper()
	out := must.Get(io.ReadAll(f.lines))(t)
	errs := must.Get(io.ReadAll(f.errors))(t)
	_ = f.cmd.Wait()
	return ran{string(out), string(errs), f.cmd.ProcessState.ExitCode()}
}

// talker is a launcher whose jobs carry out what is written to a fifo, until that is exit. A job has
// it open all the time: who opens it anew for each line meets the end of the line before.
func talker(t *testing.T, before string) (launcher string, say func(string)) {
	t.Helper()
	fifo := filepath.Join(t.TempDir(), "fifo")
	must.Do(t, unix.Mkfifo(fifo, 0o600))
	return harness.Script(t, before+`
exec 3<>`+fifo+`
while read -r words <&3; do eval "$words"; done`) + " {id}", func(words string) {
			t.Helper()
			must.Do(t, exec.Command("/bin/sh", "-c", `printf '%s\n' "$0" >`+fifo, words).Run())
		}
}

// A job is followed as it writes: half lines, bytes of any kind, both streams, across a restart of
// its worker and to its end.
func TestTailFollowsAJob(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	launcher, say := talker(t, "echo first; echo second")
	settings := db.Worker(t, "node-1", launcher, map[string]int{"a": 1}).With(harness.Settings{"on_stop": "handover"})
	worker := settings.StartWorker(t)
	harness.Dial(t, worker.Addr).Ask(t, "pause", nil) // its first look may still be under way
	db.Insert(t, 1, "a", "waiting")
	f := follow(t, worker, "tail", "-f", "a:1")
	if told, err := f.errors.ReadString('\n'); err != nil || told != "jobctl: job 1: it has not started: its row is 'waiting'; what it writes follows\n" {
		t.Fatalf("before its start: %q, %v", told, err)
	}
	harness.Dial(t, worker.Addr).Ask(t, "continue", nil)
	for _, want := range []string{"first\n", "second\n"} {
		if got := f.line(t); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	say(`printf 'half '`)
	say(`printf 'line\000\377\n'; echo trouble >&2`)
	if got := f.line(t); got != "half line\x00\xff\n" {
		t.Errorf("%q", got)
	}
	if told, err := f.errors.ReadString('\n'); err != nil || told != "trouble\n" {
		t.Errorf("stderr: %q, %v", told, err)
	}
	worker.Signal(t, syscall.SIGTERM)
	if code := worker.ExitCode(t); code != 0 {
		t.Fatalf("the worker ended with %d", code)
	}
	say("echo while nobody listens")
	if told, err := f.errors.ReadString('\n'); err != nil || !strings.HasSuffix(told, "; trying again\n") {
		t.Errorf("of the outage: %q, %v", told, err)
	}
	worker = settings.StartWorker(t)
	if got := f.line(t); got != "while nobody listens\n" {
		t.Errorf("%q", got)
	}
	say("echo last; exit 3")
	got := f.end(t)
	if got.stdout != "last\n" || got.code != 0 || !strings.HasSuffix(got.stderr, "jobctl: job 1: it has ended: exit code 3\n") {
		t.Errorf("at the end: %+v", got)
	}
	row := db.AwaitDone(t, 1)
	if want := "first\nsecond\nhalf line\x00\uFFFD\nwhile nobody listens\nlast\n"; harness.Text(row.Stdout) != want {
		t.Errorf("its row has %q", harness.Text(row.Stdout))
	}
	// Afterwards the journal has it.
	whole := "first\nsecond\nhalf line\x00\xff\nwhile nobody listens\nlast\n"
	for want, args := range map[string]string{whole: "tail 1", "while nobody listens\nlast\n": "tail -n 2 a:1"} {
		if got := jobctl(t, worker, strings.Fields(args)...); got.stdout != want || got.stderr != "trouble\n" || got.code != 0 {
			t.Errorf("%s: %q", args, got.stdout)
		}
	}
}

// Through the master the worker is found that has the job; what nobody knows is said.
func TestTailThroughTheMaster(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	master := harness.StartMaster(t)
	launcher, say := talker(t, "echo of $1")
	for name, target := range map[string]string{"node-1": "a", "node-2": "b"} {
		db.Worker(t, name, launcher, map[string]int{target: 1}).With(harness.MasterOf(master)).StartWorker(t)
	}
	harness.AwaitWorkers(t, master, "", 2)
	db.Insert(t, 7, "b", "waiting")
	db.Insert(t, 8, "b", "waiting")
	db.Insert(t, 9, "elsewhere", "done")
	harness.Dial(t, master.Addr).Ask(t, "poke", map[string]any{"targets": []string{"b"}})
	db.AwaitCount(t, 1, "status = 'running'")
	f := follow(t, master, "--master", "tail", "-f", "b:7")
	if got := f.line(t); got != "of 7\n" {
		t.Errorf("%q", got)
	}
	say("exit 0")
	if got := f.end(t); got.code != 0 || got.stderr != "jobctl: job 7: it has ended: ok\n" {
		t.Errorf("%+v", got)
	}
	for args, want := range map[string]string{
		"tail a:7":  "job 7 is of target 'b', not 'a'",
		"tail 4711": "job 4711: the table has no such row",
	} {
		if got := jobctl(t, master, append([]string{"--master"}, strings.Fields(args)...)...); got.code != 4 || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %+v, want %q", args, got, want)
		}
	}
	const ofRow = "jobctl: job 9: no journal that was asked tells of its end; this is what its row has\n"
	if got := jobctl(t, master, "--master", "tail", "9"); got != (ran{"", ofRow, 0}) {
		t.Errorf("a job that only its row knows: %+v", got)
	}
	for _, args := range []string{"tail", "tail 0", "tail 1 2", "tail -n -5 1", "tail a:"} {
		if got := jobctl(t, master, append([]string{"--master"}, strings.Fields(args)...)...); got.code != 2 {
			t.Errorf("%s: %+v", args, got)
		}
	}
	say("exit 0")
}
