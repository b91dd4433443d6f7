package operator

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"jobd/store/storetest/check"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// Status without counts asks the database nothing, however often; the server's own counter tells.
func TestStatusCostsTheDatabaseNothing(t *testing.T) {
	t.Parallel()
	server := must.Get(dbserver.Start(context.Background(), dbserver.Options{}))(t)
	t.Cleanup(func() { server.Close() })
	db := harness.NewDatabaseOn(t, server)
	worker := db.Worker(t, "node-1", "/bin/true {id}", map[string]int{"a": 2}).StartWorker(t)
	db.Insert(t, 1, "a", "waiting")
	jobctl(t, worker, "poll")
	db.AwaitDone(t, 1)
	db.Admin.SetMaxOpenConns(1)
	questions := func() (n int) {
		var name string
		must.Do(t, db.Admin.QueryRow("SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n))
		return n
	}
	harness.Until(t, func() string { // until the worker rests
		if before := questions(); questions() != before+1 {
			return "somebody else asks the server"
		}
		return ""
	})
	client := harness.Dial(t, worker.Addr)
	before := questions()
	for range 200 {
		client.Ask(t, "status", nil).Decode(t, new(any))
	}
	if asked := questions() - before - 1; asked > 0 {
		t.Errorf("200 times status asks the server %d times", asked)
	}
	before = questions()
	client.Ask(t, "waiting", nil).Decode(t, new(any))
	check.Equal(t, questions()-before-1, 1, "the counts of one target ask the server … times")
}

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
	if told, err := f.errors.ReadString('\n'); err != nil || told != "jobctl: job 1: it has not started: its row is 'waiting'; its output follows\n" {
		t.Fatalf("before its start: %q, %v", told, err)
	}
	harness.Dial(t, worker.Addr).Ask(t, "continue", nil)
	for _, want := range []string{"first\n", "second\n"} {
		must.Equal(t, f.line(t), want)
	}
	say(`printf 'half '`)
	say(`printf 'line\000\377\n'; echo trouble >&2`)
	check.Equal(t, f.line(t), "half line\x00\xff\n")
	check.Equal(t, must.Get(f.errors.ReadString('\n'))(t), "trouble\n", "stderr")
	worker.Signal(t, syscall.SIGTERM)
	must.Equal(t, worker.ExitCode(t), 0, "the worker ended with")
	say("echo while nobody listens")
	if told, err := f.errors.ReadString('\n'); err != nil || !strings.HasSuffix(told, "; trying again\n") {
		t.Errorf("of the outage: %q, %v", told, err)
	}
	worker = settings.StartWorker(t)
	check.Equal(t, f.line(t), "while nobody listens\n")
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
	check.Equal(t, f.line(t), "of 7\n")
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
	const ofRow = "jobctl: job 9: no journal that was read has its end; this is from its row\n"
	check.Equal(t, jobctl(t, master, "--master", "tail", "9"), (ran{"", ofRow, 0}), "a job that only its row knows")
	for _, args := range []string{"tail", "tail 0", "tail 1 2", "tail -n -5 1", "tail a:"} {
		if got := jobctl(t, master, append([]string{"--master"}, strings.Fields(args)...)...); got.code != 2 {
			t.Errorf("%s: %+v", args, got)
		}
	}
	say("exit 0")
}

// What jobs write shows while they run, by a worker and by a master; each byte once.
func TestRunManualShowsOutputAsItComes(t *testing.T) {
	t.Parallel()
	db, gates := harness.NewDatabase(t), t.TempDir()
	master := harness.StartMaster(t)
	launcher := harness.Script(t, `echo "begin $1"; echo "err $1" >&2
until [ -e `+gates+`/$1 ]; do sleep 0.1; done
echo "end $1"; exit $(($1 % 2))`)
	worker := db.Worker(t, "node-1", launcher+" {id}", map[string]int{"a": 2}).With(harness.MasterOf(master)).StartWorker(t)
	harness.AwaitWorkers(t, master, "", 1)
	for _, test := range []struct {
		on       *harness.Daemon
		args     string
		ids      []int64
		out, err string
		code     int
	}{
		{worker, "run-manual 2", []int64{2}, "begin 2\nend 2\n", "err 2\n", 0},
		{worker, "run-manual 4 6", []int64{4, 6}, "begin 4\nbegin 6\nend 4\nend 6\n", "err 4\nerr 6\n", 0},
		{master, "--master run-manual 3", []int64{3}, "begin 3\nend 3\n", "err 3\njobctl: job 3: exit code 1\n", 1},
	} {
		for _, id := range test.ids {
			db.Insert(t, id, "a", "manual")
		}
		cmd := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), arguments(t, test.on, strings.Fields(test.args)...)...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		pipe := must.Get(cmd.StdoutPipe())(t)
		must.Do(t, cmd.Start())
		out := bufio.NewReader(pipe)
		first, err := out.ReadString('\n') // the job can't end before this came
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range test.ids {
			must.Do(t, os.WriteFile(filepath.Join(gates, fmt.Sprint(id)), nil, 0o600))
		}
		var rest bytes.Buffer
		must.Get(rest.ReadFrom(out))(t)
		_ = cmd.Wait()
		if got := sorted(first + rest.String()); got != test.out || sorted(errs.String()) != test.err || cmd.ProcessState.ExitCode() != test.code {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", test.args, cmd.ProcessState.ExitCode(), got, errs.String())
		}
	}
}

// sorted gives the lines of an output in order of their words; of several jobs without the lines between them.
func sorted(text string) string {
	all := slices.DeleteFunc(slices.Collect(strings.Lines(text)), func(line string) bool { return strings.HasPrefix(line, "==> job ") })
	slices.Sort(all)
	return strings.Join(all, "")
}
