package runner

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/runner/wire"
	"jobd/journal"
	"jobd/store/storetest/must"
)

// of starts a job for a claim.
func of(t *testing.T, remote *Remote, token, text string) jobexec.Process {
	t.Helper()
	spec := script(text)
	spec.Token, spec.Attempt = token, 1
	return asked(t, remote, spec)
}

// A row comes back, and another claim starts the job under the same number, while the runner still
// has the outcome of the one before. Each has its own.
func TestTwoClaimsOfOneJob(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	remote := open(t, dir)
	if done, err := wait(of(t, remote, "@first2345", "echo first; exit 1")); err != nil || *done.Code != 1 {
		t.Fatalf("error %v, done %+v", err, done)
	}
	second := of(t, remote, "@second234", "echo second; exec sleep 300")
	<-second.Begun()
	glance := jobexec.Glance{Job: 1, Token: "@second234", Attempt: 1, Most: 100}
	for deadline := time.Now().Add(hung); ; {
		if w, err := remote.Written(t.Context(), glance); err == nil && string(w[0].Bytes) == "second\n" {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("it has written %q, %v", w[0].Bytes, err)
		}
	}
	if p := of(t, remote, "@second234", "exit 0"); !isRefused(p) {
		t.Error("one claim's start was done twice")
	}
	must.Do(t, remote.Close())

	next := open(t, dir)
	recalled := make(map[string]jobexec.Process)
	for _, r := range next.Recall([]jobexec.Spec{{Job: 1, Token: "@second234", Attempt: 1}}) {
		recalled[r.Token] = r.Process
	}
	if len(recalled) != 2 {
		t.Fatalf("recalled are %v", recalled)
	}
	next.Forget(1, "@first2345", 1)
	if err := recalled["@second234"].Signal(15); err != nil {
		t.Error(err)
	}
	if done, err := wait(recalled["@second234"]); err != nil || done.Signal != "SIGTERM" || string(done.Stdout.Kept) != "second\n" {
		t.Errorf("error %v, done %+v", err, done)
	}
	if done, err := wait(recalled["@first2345"]); err != nil || *done.Code != 1 || string(done.Stdout.Kept) != "first\n" {
		t.Errorf("error %v, done %+v", err, done)
	}
	next.Forget(1, "@second234", 1)
}

// isRefused tells whether a start ended without a process.
func isRefused(p jobexec.Process) bool {
	_, err := wait(p)
	return err != nil && p.Started().Pid == 0
}

// The worker finds what a killed runner had on disk by the token of its claim, and removes what
// belongs to no start under way.
func TestOutputIsFoundByToken(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	folder := filepath.Join(remote.config.Dir, wire.OutputFolder)
	must.Do(t, os.Mkdir(folder, 0o700))
	process := journal.Started{Pid: 1, StartTime: 2, BootID: "before"}
	put := func(id wire.ID, text string) {
		t.Helper()
		must.Do(t, os.WriteFile(filepath.Join(folder, wire.OutputFiles(id, process)[0]), []byte(text), 0o600))
	}
	ours, theirs := wire.ID{Job: 1, Token: "@abcdefghi", Attempt: 1}, wire.ID{Job: 1, Token: "@bbbbbbbbb", Attempt: 1}
	put(ours, "ours")
	put(theirs, "theirs")
	if w, err := remote.Written(t.Context(), jobexec.Glance{Job: 1, Token: ours.Token, Attempt: 1, Started: process, Most: 9}); err != nil || string(w[0].Bytes) != "ours" {
		t.Errorf("of a running job is seen %q, %v", w[0].Bytes, err)
	}
	for id, want := range map[wire.ID]string{ours: "ours", theirs: "theirs"} {
		if stdout, _ := remote.Left(id.Job, id.Token, id.Attempt, process); string(stdout.Kept) != want {
			t.Errorf("%+v has left %q, want %q", id, stdout.Kept, want)
		}
	}
	remote.Forget(1, theirs.Token, 1)
	remote.Sweep(func(job int64, token string, attempt int) bool {
		return job == 1 && token == ours.Token && attempt == 1
	})
	left, err := os.ReadDir(folder)
	if err != nil || len(left) != 1 || left[0].Name() != wire.OutputFiles(ours, process)[0] {
		t.Errorf("left are %v, %v", left, err)
	}
}
