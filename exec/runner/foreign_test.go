package runner

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/exec/runner/wire"
	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// silent is the name of an impostor that says nothing.
const silent = "silent"

// impostor has another process, of the same account, listen in the runner's place: it says that it is
// the runner of this name, in which PID is its own process, and that each job has ended well.
func impostor(t *testing.T, dir, name string) (pid int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", dir, name)
	cmd.Env = append(os.Environ(), roleVariable+"=impostor")
	cmd.Stderr = os.Stderr
	listens := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	must.Get(listens.Read(make([]byte, 1)))(t)
	return cmd.Process.Pid
}

// beImpostor is what impostor starts.
func beImpostor(dir, name string) error {
	path := filepath.Join(dir, wire.SocketFile)
	_ = os.Remove(path)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		return err
	}
	os.Stdout.Write([]byte("."))
	for {
		conn, err := listener.AcceptUnix()
		if err != nil {
			return err
		}
		if name != silent {
			go forge(conn, strings.Replace(name, "PID", strconv.Itoa(os.Getpid()), 1))
		}
	}
}

func forge(conn *net.UnixConn, name string) {
	in := wire.NewReader(conn)
	out := wire.NewOutbox(conn)
	for {
		m, err := in.Next()
		switch {
		case err != nil:
			return
		case m.Kind == wire.Hello:
			out.Post(wire.Message{
				Kind: wire.Hello, Version: wire.Version, Instance: name, Jobs: m.RunnerWords(),
			})
		case m.Kind == wire.Start:
			process := journal.Started{Pid: os.Getpid(), StartTime: 1, BootID: "boot"}
			out.Post(wire.Message{Kind: wire.Ended, ID: m.ID, Started: process, Done: journal.Done{Result: "ok"}})
		}
	}
}

// expectRuns fails where a job is not run by a runner of the worker's own.
func expectRuns(t *testing.T, remote *Remote, dir string) {
	t.Helper()
	file := filepath.Join(dir, "was-run")
	done, err := wait(begin(t, remote, 100, "echo run >"+file+"; exit 3"))
	if err != nil || done.Code == nil || *done.Code != 3 {
		t.Errorf("error %v, done %+v; want exit code 3", err, done)
	}
	must.Get(os.Stat(file))(t)
}

// A job that kills the runner and listens in its place is found out by the kernel's word on who
// listens, even if it says that it is the same runner. The worker starts a runner and says so.
func TestAProcessInTheRunnersPlaceGetsNoJobs(t *testing.T) {
	t.Parallel()
	var log safeBuffer
	c := workerConfig(t.TempDir())
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	remote := openAs(t, c)
	before := must.Get(remote.Instance())(t)
	link := linkOf(remote)
	remote.connecting.Lock() // nobody connects before the other one listens
	check.Do(t, unix.Kill(link.pid, unix.SIGKILL))
	impostor(t, c.Dir, before)
	remote.connecting.Unlock()
	<-link.lost
	expectRuns(t, remote, c.Dir)
	if now, err := remote.Instance(); err != nil || now == before {
		t.Errorf("the runner is %s, as before, %v", now, err)
	}
	if remote.Ended(before) {
		t.Error("the runner that was killed counts as ended in order")
	}
	check.Do(t, remote.Close())
	if !strings.Contains(log.String(), "level=ERROR msg=\"another process listens in the runner's place") {
		t.Errorf("the log says\n%s", log.String())
	}
}

// A worker that starts takes only a runner that its journal knows, and only if the kernel names the
// process that the journal does.
func TestAStartTakesOnlyTheRunnerOfTheJournal(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		known     []string
		says      string
		displaced string
	}{
		"nothing is under way":               {[]string{}, "other", ""},
		"it says the name of the journal":    {[]string{"r.999999.1"}, "r.999999.1", "r.999999.1"},
		"it says another name":               {[]string{"r.999999.1"}, "other.1.1", "r.999999.1"},
		"it says none, and an old one had":   {[]string{"OLD"}, "", "OLD"},
		"it says another one than an older":  {[]string{"OLD"}, "OTHER", "OLD"},
		"it has the same process id":         {[]string{"r.PID.1"}, "r.PID.1", "r.PID.1"},
		"it says nothing":                    {[]string{"r.999999.1"}, silent, "r.999999.1"},
		"it says nothing, none is under way": {[]string{}, silent, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := workerConfig(t.TempDir())
			pid := strconv.Itoa(impostor(t, c.Dir, test.says))
			c.Runners = []string{}
			for _, known := range test.known {
				c.Runners = append(c.Runners, strings.Replace(known, "PID", pid, 1))
			}
			remote := openAs(t, c)
			expectRuns(t, remote, c.Dir)
			if got := remote.Displaced(); got != strings.Replace(test.displaced, "PID", pid, 1) {
				t.Errorf("displaced is %q, want %q", got, test.displaced)
			}
		})
	}
}

// The next worker goes on with the runner that its journal knows.
func TestAStartTakesUpTheRunnerOfTheJournal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	remote := open(t, dir)
	name := must.Get(remote.Instance())(t)
	begin(t, remote, 1, "exec sleep 300")
	must.Do(t, remote.Close())
	c := workerConfig(dir)
	c.Runners = []string{name}
	next := openAs(t, c)
	recalled := next.Recall(nil)
	if now, err := next.Instance(); err != nil || now != name || len(recalled) != 1 || next.Displaced() != "" {
		t.Fatalf("the runner is %s, %v, with %d jobs, and was %s", now, err, len(recalled), name)
	}
	check.Do(t, recalled[0].Process.Signal(int(unix.SIGKILL)))
	<-recalled[0].Process.Ended()
}

// A runner takes no order from a process that does not hold the journal's lock, be it of the same
// account, and goes on to serve the worker that does.
func TestARunnerTakesOrdersFromTheHolderOfTheLockOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	remote := open(t, dir)
	p := begin(t, remote, 1, "exec sleep 300")
	must.Do(t, remote.Close())
	cmd := exec.Command("/proc/self/exe", dir)
	cmd.Env = append(os.Environ(), roleVariable+"=intruder")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the process without the lock: %v: %s", err, out)
	}
	if unix.Kill(p.Started().Pid, 0) != nil {
		t.Error("the job is gone")
	}
	log, err := os.ReadFile(filepath.Join(dir, logFile))
	if err != nil || !strings.Contains(string(log), "does not hold the journal's lock") {
		t.Errorf("the runner's log, %v:\n%s", err, log)
	}
	recalled := open(t, dir).Recall(nil)
	must.Equal(t, len(recalled), 1, "the runner has … jobs")
	check.Do(t, recalled[0].Process.Signal(int(unix.SIGKILL)))
	<-recalled[0].Process.Ended()
}

// beIntruder fails where the runner answers a process that has no lock.
func beIntruder(dir string) error {
	c := testConfig(dir)
	conn, err := c.dialRunning()
	if err != nil {
		return err
	}
	out := wire.NewOutbox(conn.UnixConn)
	out.Post(wire.WorkerHello())
	out.Post(wire.Message{Kind: wire.Signal, ID: wire.ID{Job: 1, Attempt: 1}, Signo: int(unix.SIGKILL)})
	if m, err := wire.NewReader(conn).Next(); !wire.HungUp(err) {
		return errors.Join(io.ErrUnexpectedEOF, errors.New("the runner answered: "+m.Instance), err)
	}
	return nil
}

// A child of the runner that was stopped before its program goes on; one that is stopped again and again is
// killed, and what has a program of its own is left alone.
func TestThaw(t *testing.T) {
	t.Parallel()
	start := func(args ...string) int {
		child := exec.Command(os.Args[0])
		child.Args, child.Env = args, append(os.Environ(), roleVariable+"=sleeper")
		must.Get(child.StdinPipe())(t)
		must.Do(t, child.Start())
		t.Cleanup(func() {
			_ = child.Process.Kill()
			_ = child.Wait()
		})
		must.Do(t, unix.Kill(child.Process.Pid, unix.SIGSTOP))
		await(t, child.Process.Pid, unix.WSTOPPED)
		return child.Process.Pid
	}
	early, again, stopped := start(os.Args...), start(os.Args...), start("a job")
	thaws := thaw(os.Getpid(), map[int]int{early: mostThaws - 1, again: mostThaws})
	if thaws[early] != mostThaws || thaws[again] != mostThaws+1 || thaws[stopped] != 0 {
		t.Errorf("thaws %v, of %d, %d and %d", thaws, early, again, stopped)
	}
	await(t, early, unix.WCONTINUED)
	await(t, again, unix.WEXITED)
	if left := thaw(os.Getpid(), nil); left[early] != 0 || left[stopped] != 0 {
		t.Errorf("a second look finds %v", left)
	}
}

// await waits until a child is stopped, goes on, or has ended; it does not reap it.
func await(t *testing.T, pid, what int) {
	t.Helper()
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, what|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			must.Do(t, err)
			return
		}
	}
}

// What a runner says that nobody can tell is unknown, with what it knows: which process it was, and
// what it has written.
func TestARunnerSaysThatAnOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	p := newProcess(claim{id: wire.ID{Job: 1, Attempt: 1}})
	done := journal.Done{Result: wire.ResultLost, Reason: "its process is gone", Stdout: journal.Output{Kept: []byte("out"), Size: 3}}
	p.exit(journal.Started{Pid: 7}, done)
	p.end(nil, &notices{})
	<-p.Ended()
	got, err := p.Outcome()
	if !errors.Is(err, jobexec.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "its process is gone") {
		t.Errorf("error %v", err)
	}
	if got.Result != "" || string(got.Stdout.Kept) != "out" || p.Started().Pid != 7 {
		t.Errorf("outcome %+v of %+v", got, p.Started())
	}
}
