package runner

import (
	"errors"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
	"jobd/store/storetest/must"
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
	done := must.Get(wait(begin(t, remote, 1, "sleep 0.3")))(t)
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

// A job's end tells what its process and those that it waited for used; less memory than the runner has is not known.
func TestWhatAJobUsedIsMeasured(t *testing.T) {
	t.Parallel()
	since := proc.Uptime()
	remote := open(t, t.TempDir())
	done := must.Get(wait(begin(t, remote, 1, "dd if=/dev/zero of=/dev/null bs=100M count=3 2>/dev/null; exit 0")))(t)
	if most := int64(runtime.NumCPU()) * (proc.Uptime() - since) / 1000; done.CPU <= 0 || done.CPU > most || done.Memory < 100<<20 || done.Memory > 200<<20 {
		t.Errorf("%d µs of %d, %d bytes", done.CPU, most, done.Memory)
	}
	if done = must.Get(wait(begin(t, remote, 2, "head -c 300000 /dev/zero")))(t); done.Memory != 0 || len(done.Stdout.Kept) != 300000 {
		t.Errorf("a small one: %d bytes, %d of output", done.Memory, len(done.Stdout.Kept))
	}
}

// A job that outlives its runner: nobody learns how it ended, but how long it ran.
func TestHowLongAnOrphanRanIsKnown(t *testing.T) {
	t.Parallel()
	since := proc.Uptime()
	remote := open(t, t.TempDir())
	p := begin(t, remote, 1, "exec sleep 300")
	lost := linkOf(remote)
	must.Do(t, unix.Kill(runnerOf(t, remote), unix.SIGKILL))
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
	out := wire.NewOutbox(conn)
	for _, m := range messages {
		out.Post(m)
	}
	out.Close()
	<-out.Written()
}
