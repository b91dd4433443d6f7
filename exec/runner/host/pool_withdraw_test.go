package host

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/wire"
)

// A job that waits for a process can be taken back: it was never started. One that was asked for can't;
// where its process is gone before it has read that it is started by another one.
func TestAJobIsTakenBackThatWaitsForAProcess(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := pooled("pool", 1)
	here, at := gate(t), gate(t)
	p.Argv = append([]string{"/bin/sh", "-c", `if mkdir ` + t.TempDir() + `/once; then echo $$ >` + here + `; read line <` + at + `; echo ready >&4; exec sleep 300; fi; exec "$@"`, "sh"}, p.Argv...)
	b.pools(p)
	withdraw := func(job int64) { b.out.Post(wire.Message{Kind: wire.Withdraw, ID: id(job)}) }
	refused := func(job int64) {
		t.Helper()
		if m := b.of(job, wire.Refused); m.Class != wire.Short || !strings.Contains(m.Text, "taken back while it waited") {
			t.Errorf("refused %+v", m)
		}
	}
	pid := pidIn(t, here)
	b.start(1)
	withdraw(1)
	refused(1)
	withdraw(1) // nobody knows it any more
	b.start(2, "DO=echo two")
	openGate(t, at)
	b.stands("it is asked", func(s wire.Standing) bool { return s.Busy == 1 })
	withdraw(2)
	withdraw(2)
	b.out.Post(wire.Message{Kind: wire.Signal, ID: id(3)})
	b.of(3, wire.Signalled) // the runner has read all of that
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if done := b.done(2); string(done.Stdout.Kept) != "two\n" {
		t.Errorf("done %+v", done)
	}
	b.start(4, "DO=read line <"+at+"; echo out")
	b.of(4, wire.Started)
	withdraw(4)
	openGate(t, at)
	if done := b.done(4); done.Result != "ok" || string(done.Stdout.Kept) != "out\n" {
		t.Errorf("done %+v", done)
	}
}
