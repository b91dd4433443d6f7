package runner

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

func TestARunnerStartsJobs(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	p := begin(t, remote, 1, "echo out; echo err >&2; echo $PPID >&2; exit 7")
	done, err := wait(p)
	if err != nil || done.Result != "fail" || *done.Code != 7 || string(done.Stdout.Kept) != "out\n" {
		t.Errorf("error %v, done %+v", err, done)
	}
	if lines := strings.Fields(string(done.Stderr.Kept)); len(lines) != 2 || lines[1] == fmt.Sprint(os.Getpid()) {
		t.Errorf("stderr %q: the job's parent should be the runner", done.Stderr.Kept)
	}
	remote.Forget(1, 1)
	if done, _ := wait(begin(t, remote, 1, "exit 0")); *done.Code != 0 {
		t.Errorf("exit code 0 came as %+v", done)
	}
	remote.Forget(1, 1)
}

// Many jobs that end at once with much output leave it with the runner until
// there is room for it.
func TestLargeOutputIsFetchedInTurn(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	const jobs, size = 3 * largeOutputs, 300_000
	var processes []jobexec.Process
	for job := range int64(jobs) {
		processes = append(processes, begin(t, remote, job, fmt.Sprintf("head -c %d /dev/zero | tr '\\0' %d", size, job)))
	}
	type outcome struct {
		job  int64
		done journal.Done
	}
	outcomes := make(chan outcome)
	for job, p := range processes {
		go func() {
			done, _ := wait(p)
			outcomes <- outcome{int64(job), done}
		}()
	}
	for range jobs {
		o := <-outcomes
		if want := strings.Repeat(fmt.Sprint(o.job), size); string(o.done.Stdout.Kept) != want {
			t.Errorf("job %d: %d bytes came, want %d of its own", o.job, len(o.done.Stdout.Kept), size)
		}
		if n := len(linkOf(remote).room); n > largeOutputs {
			t.Errorf("%d large outputs are here at once", n)
		}
		remote.Forget(o.job, 1)
	}
}

func TestARunnerRefusesWhatCannotBeStarted(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	_, err := wait(asked(t, remote, jobexec.Spec{Job: 1, Attempt: 1, Argv: []string{"/none"}}))
	if err == nil || err.Error() != "start /none: no such file or directory" || errors.Is(err, jobexec.ErrOutcomeUnknown) {
		t.Errorf("error %v", err)
	}
	wait(begin(t, remote, 2, "exit 0"))
	spec := script("exit 0")
	spec.Job, spec.Attempt = 2, 1
	if _, err := wait(asked(t, remote, spec)); err == nil {
		t.Error("a start was done twice")
	}
	remote.Forget(2, 1)
}

func TestSignalsThroughTheRunner(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	p := begin(t, remote, 1, "exec sleep 300")
	if err := p.Signal(0); err != nil {
		t.Errorf("probe: %v", err)
	}
	if err := p.Signal(15); err != nil {
		t.Errorf("signal: %v", err)
	}
	if done, _ := wait(p); done.Signal != "SIGTERM" {
		t.Errorf("done %+v", done)
	}
	if err := p.Signal(15); err == nil {
		t.Error("a process that is gone was signalled")
	}
	remote.Forget(1, 1)
}

// The environment is sent once, and again when it changes.
func TestEnvironments(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	first, second := []string{"WHO=first"}, []string{"WHO=second"}
	for i, env := range [][]string{first, first, second, nil, second, first} {
		spec := jobexec.Spec{Job: int64(i), Attempt: 1, Argv: []string{"/bin/sh", "-c", "echo $WHO"}, Env: env, MaxOutput: 100}
		done, _ := wait(asked(t, remote, spec))
		remote.Forget(int64(i), 1)
		want := "\n"
		if env != nil {
			want = strings.TrimPrefix(env[0], "WHO=") + "\n"
		}
		if got := string(done.Stdout.Kept); got != want {
			t.Errorf("start %d sees %q, want %q", i, got, want)
		}
	}
}

// killWorker has a worker in another process start jobs, and kills it when they run.
func killWorker(t *testing.T, dir string, scripts ...string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", dir)
	cmd.Env = append(os.Environ(), roleVariable+"=worker")
	cmd.Stdin = strings.NewReader(strings.Join(scripts, "\n") + "\n")
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for range scripts {
		if !lines.Scan() {
			t.Fatal("the worker ended early")
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its error is that it was killed
}

// A worker that is killed leaves its jobs running, and the next one learns how
// they ended, with all of their output (pitfall 27).
func TestPitfall27JobsOutliveTheirWorker(t *testing.T) {
	t.Parallel()
	dir, gate := t.TempDir(), filepath.Join(t.TempDir(), "gate")
	if err := unix.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	killWorker(t, dir, "echo before; read line <"+gate+"; echo $line; exit 9", "echo short; exit 4")
	remote := open(t, dir)
	recalled := make(map[int64]jobexec.Process)
	for _, r := range remote.Recall() {
		recalled[r.Job] = r.Process
	}
	if len(recalled) != 2 {
		t.Fatalf("the runner has %d jobs, want 2", len(recalled))
	}
	if done, err := wait(recalled[2]); err != nil || *done.Code != 4 || string(done.Stdout.Kept) != "short\n" {
		t.Errorf("error %v, done %+v", err, done)
	}
	if err := os.WriteFile(gate, []byte("after\n"), 0); err != nil {
		t.Fatal(err)
	}
	if done, err := wait(recalled[1]); err != nil || *done.Code != 9 || string(done.Stdout.Kept) != "before\nafter\n" {
		t.Errorf("error %v, done %+v", err, done)
	}
	remote.Forget(1, 1)
	remote.Forget(2, 1)
}

func TestAnOutcomeIsKeptUntilItIsForgotten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	killWorker(t, dir, "exit 3", "exit 4")
	for range 2 {
		remote := open(t, dir)
		if n := len(remote.Recall()); n != 2 {
			t.Fatalf("the runner has %d jobs, want 2", n)
		}
		if err := remote.Close(); err != nil {
			t.Fatal(err)
		}
	}
	remote := open(t, dir)
	for _, r := range remote.Recall() {
		if done, err := wait(r.Process); err != nil || *done.Code != int(r.Job)+2 {
			t.Errorf("job %d: error %v, done %+v", r.Job, err, done)
		}
		remote.Forget(r.Job, r.Attempt)
	}
}

// runnerOf finds the runner's process: it is the parent of a job.
func runnerOf(t *testing.T, remote *Remote) int {
	t.Helper()
	var pid int
	done, _ := wait(begin(t, remote, 4711, "echo $PPID"))
	remote.Forget(4711, 1)
	if _, err := fmt.Sscan(string(done.Stdout.Kept), &pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestARunnerEndsWhenNobodyNeedsIt(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	pidfd, err := unix.PidfdOpen(runnerOf(t, remote), 0)
	if err != nil {
		t.Fatal(err)
	}
	instance, err := remote.Instance()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	if err := remote.Close(); err != nil {
		t.Fatal(err)
	}
	n, err := 0, error(unix.EINTR)
	for err == unix.EINTR {
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 10_000)
	}
	if n != 1 {
		t.Errorf("the runner lives on: %v", err)
	}
	if !remote.Ended(instance) {
		t.Error("it ended without saying so: starts that it never heard of count as unknown")
	}
}

func TestAKilledRunnerIsReplaced(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	before, err := remote.Instance()
	if err != nil {
		t.Fatal(err)
	}
	running := begin(t, remote, 1, "exec sleep 300")
	link := linkOf(remote)
	if err := unix.Kill(runnerOf(t, remote), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-link.lost
	after, err := remote.Instance()
	if err != nil {
		t.Fatal(err)
	}
	if after == before {
		t.Error("the new runner has the name of the old one: a start that it never heard of would be repeated")
	}
	if remote.Ended(before) {
		t.Error("a killed runner counts as ended: what it was asked to start would be started again")
	}
	// The job lives on, can be signalled, and is not said to have an outcome.
	for deadline := time.Now().Add(10 * time.Second); running.Signal(15) != nil && time.Now().Before(deadline); {
	}
	if _, err := wait(running); !errors.Is(err, jobexec.ErrOutcomeUnknown) {
		t.Error("nobody can know how a job ended whose runner was killed")
	}
	if done, err := wait(begin(t, remote, 2, "exit 5")); err != nil || *done.Code != 5 {
		t.Errorf("error %v, done %+v", err, done)
	}
	remote.Forget(2, 1)
}

// A start that was announced with another runner's name is not done: after a crash it would
// be looked for where it never was, and be repeated.
func TestAStartIsForTheRunnerThatWasAnnounced(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	spec := script("exit 0")
	spec.Job, spec.Attempt, spec.Runner = 1, 1, "another"
	if _, err := remote.Start(spec); !errors.Is(err, jobexec.ErrRunnerChanged) {
		t.Errorf("error %v", err)
	}
	if _, err := ask(remote, spec); err != nil {
		t.Errorf("the start was counted, and can't be repeated: %v", err)
	}
	remote.Forget(1, 1)
}

func TestTheSocketIsPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir)
	for _, name := range []string{wire.SocketFile, logFile} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %o, want 600", name, mode)
		}
	}
}

func TestAFolderWithALongName(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 50))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if done, err := wait(begin(t, open(t, dir), 1, "exit 0")); err != nil || *done.Code != 0 {
		t.Errorf("error %v, done %+v", err, done)
	}
}

// A runner's own timers may ring late, its jobs' may not.
func TestAJobsTimersAreAsPreciseAsEverybodys(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	done, err := wait(begin(t, remote, 1, "read slack </proc/self/timerslack_ns; echo $slack"))
	if got := strings.TrimSpace(string(done.Stdout.Kept)); err != nil || got != strconv.Itoa(proc.UsualTimers) {
		t.Errorf("slack %q ns: %v", got, err)
	}
	remote.Forget(1, 1)
}
