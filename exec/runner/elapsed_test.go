package runner

import (
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// ranFor asserts that a job is said to have run for so long at least, and no longer than the test
// did.
func ranFor(t *testing.T, what string, done journal.Done, least time.Duration, since int64) {
	t.Helper()
	got := time.Duration(done.Elapsed) * time.Microsecond
	if most := time.Duration(proc.Uptime()-since) + time.Duration(proc.Tick); got < least || got > most {
		t.Errorf("%s ran for %v, want %v to %v", what, got, least, most)
	}
}

func TestHowLongAJobRanIsMeasured(t *testing.T) {
	t.Parallel()
	since := proc.Uptime()
	remote := open(t, t.TempDir())
	done, err := wait(begin(t, remote, 1, "sleep 0.3"))
	if err != nil {
		t.Fatal(err)
	}
	ranFor(t, "a job that sleeps", done, 300*time.Millisecond, since)
	done, _ = wait(begin(t, remote, 2, "exit 0"))
	ranFor(t, "a job that ends at once", done, time.Microsecond, since)
	since = proc.Uptime()
	done, _ = wait(begin(t, remote, 3, "head -c 300000 /dev/zero"))
	ranFor(t, "a job whose output is fetched", done, time.Microsecond, since)
	for job := range int64(3) {
		remote.Forget(job+1, "", 1)
	}
}

// A job that outlives its runner: nobody learns how it ended, but how long it ran.
func TestHowLongAnOrphanRanIsKnown(t *testing.T) {
	t.Parallel()
	since := proc.Uptime()
	remote := open(t, t.TempDir())
	p := begin(t, remote, 1, "exec sleep 300")
	lost := linkOf(remote)
	if err := unix.Kill(runnerOf(t, remote), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-lost.lost
	for deadline := time.Now().Add(hung); p.Signal(15) != nil && time.Now().Before(deadline); {
	}
	done, err := wait(p)
	if !errors.Is(err, jobexec.ErrOutcomeUnknown) {
		t.Errorf("error %v", err)
	}
	ranFor(t, "the orphan", done, time.Microsecond, since)
	if done.Result != "" {
		t.Errorf("nobody can know that it ended with %q", done.Result)
	}
}

// pair is the two ends of a connection.
func pair(t *testing.T) (one, other *net.UnixConn) {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: t.TempDir() + "/socket"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if one, err = net.DialUnix("unix", nil, listener.Addr().(*net.UnixAddr)); err != nil {
		t.Fatal(err)
	}
	if other, err = listener.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { one.Close(); other.Close() })
	return one, other
}

// put writes messages as they pass.
func put(t *testing.T, conn *net.UnixConn, messages ...wire.Message) {
	t.Helper()
	out, err := wire.NewOutbox(conn)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		out.Send(m)
	}
	out.Close()
	<-out.Written()
}

// A runner of an older version, left by the worker before an upgrade, says nothing of how long a
// job ran: that is not known.
func TestAnOlderRunnerIsUnderstood(t *testing.T) {
	t.Parallel()
	worker, runner := pair(t)
	put(t, runner, wire.Message{Kind: wire.Hello, Version: 2, Instance: "older"})
	l, err := newLink(worker, Config{Logger: slog.New(slog.DiscardHandler)}, true, func(*link, map[wire.ID]*process) {}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close(time.Minute)
	r := wire.NewReader(runner)
	hello, err := r.Next()
	if err != nil || hello.Version != 2 || hello.Instance != "elapsed" {
		t.Fatalf("an older runner would be greeted with %+v, %v", hello, err)
	}
	p, err := l.start(&jobexec.Spec{Job: 1, Attempt: 1, Argv: []string{"/bin/true"}})
	if err != nil {
		t.Fatal(err)
	}
	code := 0
	put(t, runner, wire.Message{
		Kind: wire.Ended, ID: wire.ID{Job: 1, Attempt: 1}, Started: journal.Started{Pid: 2},
		Done: journal.Done{Result: "ok", Code: &code, Elapsed: 7},
	})
	done, err := wait(p)
	if err != nil || done.Result != "ok" || done.Elapsed != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	runner.Close()
	<-l.lost
}

// A worker of an older version, to which one went back, would refuse an outcome with more in it
// than it knows.
func TestAnOlderWorkerIsUnderstood(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	wait(begin(t, remote, 1, "exit 0")) // its outcome is kept
	wait(begin(t, remote, 2, "head -c 300000 /dev/zero"))
	if err := remote.Close(); err != nil {
		t.Fatal(err)
	}
	conn, err := remote.connector.config.dialRunning()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	put(t, conn, wire.Message{Kind: wire.Hello, Version: 2}, wire.Message{Kind: wire.Fetch, ID: wire.ID{Job: 2, Attempt: 1}})
	r := wire.NewReader(conn)
	for outcomes := 0; outcomes < 3; {
		m, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind == wire.Ended || m.Kind == wire.Output {
			outcomes++
			if m.Timed || m.Done.Elapsed != 0 {
				t.Errorf("the outcome of job %d has a duration in it: %+v", m.ID.Job, m.Done.Elapsed)
			}
		}
	}
	put(t, conn, wire.Message{Kind: wire.Forget, ID: wire.ID{Job: 1, Attempt: 1}}, wire.Message{Kind: wire.Forget, ID: wire.ID{Job: 2, Attempt: 1}})
}
