package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/exec/runner/wire"
)

// A connection that breaks while worker and runner live costs nothing: the worker connects again
// and goes on with the same jobs.
func TestALostConnectionIsMadeAgain(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	if err := unix.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	remote := open(t, t.TempDir())
	before, err := remote.Instance()
	if err != nil {
		t.Fatal(err)
	}
	waits := begin(t, remote, 1, "read line <"+gate+"; echo $line; exit 7")
	runs := begin(t, remote, 2, "exec sleep 300")
	const size = 200_000
	large := begin(t, remote, 3, fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", size))
	<-large.Ended() // but its output is with the runner
	lost := linkOf(remote)
	lost.conn.Close()
	<-lost.lost

	if done, err := large.Outcome(); err != nil || string(done.Stdout.Kept) != strings.Repeat("x", size) || done.Reason != "" {
		t.Errorf("the large output: error %v, %d bytes, reason %q", err, len(done.Stdout.Kept), done.Reason)
	}
	for deadline := time.Now().Add(hung); runs.Signal(15) != nil; {
		if time.Now().After(deadline) {
			t.Fatal("the running job can't be signalled any more")
		}
	}
	if done, err := wait(runs); err != nil || done.Signal != "SIGTERM" {
		t.Errorf("the signalled job: error %v, done %+v", err, done)
	}
	if err := os.WriteFile(gate, []byte("after\n"), 0); err != nil {
		t.Fatal(err)
	}
	if done, err := wait(waits); err != nil || *done.Code != 7 || string(done.Stdout.Kept) != "after\n" {
		t.Errorf("the job that waits: error %v, done %+v", err, done)
	}
	if after, err := remote.Instance(); err != nil || after != before {
		t.Errorf("the runner is %s now, not %s: %v", after, before, err)
	}
	for job := range int64(3) {
		remote.Forget(job+1, "", 1)
	}
}

// Regression: the order to forget large outputs was lost with the connection. The next one had the outputs
// again, nobody wanted them, and no other large output was ever fetched.
func TestWhatWasForgottenOverALostConnectionTakesNoRoom(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	const size = 200_000
	large := func(job int64) jobexec.Process {
		return begin(t, remote, job, fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", size))
	}
	for job := range int64(largeOutputs) {
		if done, err := wait(large(job + 1)); err != nil || len(done.Stdout.Kept) != size {
			t.Fatalf("error %v, %d bytes", err, len(done.Stdout.Kept))
		}
	}
	lost := linkOf(remote)
	lost.conn.Close()
	<-lost.lost
	for job := range int64(largeOutputs) {
		lost.forget(wire.ID{Job: job + 1, Attempt: 1}) // as the worker does that has not noticed yet
	}
	for job := range int64(largeOutputs) {
		job += largeOutputs + 1
		if done, err := wait(large(job)); err != nil || len(done.Stdout.Kept) != size {
			t.Errorf("error %v, %d bytes", err, len(done.Stdout.Kept))
		}
		remote.Forget(job, "", 1)
	}
}
