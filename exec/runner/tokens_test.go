package runner

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/runner/wire"
	"jobd/journal"
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
	if err := remote.Close(); err != nil {
		t.Fatal(err)
	}

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

// olderWorker connects as a worker of the version before, and gives the jobs that it is told of.
func olderWorker(t *testing.T, config *Config) (conn *net.UnixConn, in *wire.Reader, jobs []wire.Job) {
	t.Helper()
	conn, err := config.dialRunning()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	put(t, conn, wire.Message{Kind: wire.Hello, Version: wire.Version, Instance: "elapsed"})
	in = wire.NewReader(conn)
	hello := next(t, in)
	return conn, in, hello.Jobs
}

// next is what the runner says next. Nothing of it may be what older workers don't know.
func next(t *testing.T, in *wire.Reader) wire.Message {
	t.Helper()
	m, err := in.Next()
	if err != nil {
		t.Fatal(err)
	}
	if m.Tokens || m.ID.Token != "" {
		t.Errorf("an older worker is told %+v", m)
	}
	return m
}

// A worker of an older version comes after one of this: it is told of the newest start under each
// number, and can do with it what it does with its own.
func TestAnOlderWorkerTakesOver(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	wait(of(t, remote, "@first2345", "exit 1"))
	second := of(t, remote, "@second234", "exec sleep 300")
	<-second.Begun()
	process := second.Started()
	if err := remote.Close(); err != nil {
		t.Fatal(err)
	}

	bare := wire.ID{Job: 1, Attempt: 1}
	conn, in, jobs := olderWorker(t, &remote.connector.config)
	if len(jobs) != 1 || jobs[0] != (wire.Job{ID: bare, Started: process}) {
		t.Errorf("the older worker is told of %+v, want the second start", jobs)
	}
	put(t, conn, wire.Message{Kind: wire.Start, ID: bare, Argv: []string{"/bin/true"}})
	if m := next(t, in); m.Kind != wire.Refused || m.Text != wire.SaidAlready {
		t.Errorf("its start under the same number: %+v", m)
	}
	put(t, conn, wire.Message{Kind: wire.Signal, ID: bare, Signo: 15})
	if m := next(t, in); m.Kind != wire.Signalled || m.Text != "" {
		t.Errorf("its signal: %+v", m)
	}
	if m := next(t, in); m.Kind != wire.Ended || m.ID != bare || m.Done.Signal != "SIGTERM" {
		t.Errorf("the end: %+v", m)
	}
	put(t, conn, wire.Message{Kind: wire.Forget, ID: bare}, wire.Message{Kind: wire.Start, ID: bare, Argv: []string{"/bin/sh", "-c", "exit 5"}, MaxOutput: 1})
	m := next(t, in)
	if m.Kind == wire.Started { // it has run for some milliseconds by chance
		m = next(t, in)
	}
	// That is the answer to what the runner was told last: so it has read all of it.
	if m.Kind != wire.Ended || m.ID != bare || m.Done.Code == nil || *m.Done.Code != 5 {
		t.Fatalf("its own start: %+v", m)
	}
	conn.Close()

	after := open(t, remote.connector.config.Dir)
	recalled := make(map[string]jobexec.Process)
	for _, r := range after.Recall([]jobexec.Spec{{Job: 1, Token: "@third2345", Attempt: 1}}) {
		recalled[r.Token] = r.Process
	}
	if len(recalled) != 2 || recalled["@first2345"] == nil || recalled["@third2345"] == nil {
		t.Fatalf("the next worker of this version finds %v", recalled)
	}
	if done, err := wait(recalled["@third2345"]); err != nil || *done.Code != 5 {
		t.Errorf("error %v, done %+v", err, done)
	}
	after.Forget(1, "@third2345", 1)
	after.Forget(1, "@first2345", 1)
	if err := after.Close(); err != nil {
		t.Fatal(err)
	}
	if left := open(t, remote.connector.config.Dir).Recall(nil); len(left) != 0 {
		t.Errorf("the runner still has %+v", left)
	}
}

// A runner that knows no tokens is not asked for a second claim's start before it has forgotten the
// first one's.
func TestAnOlderRunnerHasOneStartUnderANumber(t *testing.T) {
	t.Parallel()
	near, far := pair(t)
	in := wire.NewReader(far)
	id := wire.ID{Job: 1, Attempt: 1}
	go func() {
		_, _ = in.Next()
		put(t, far, wire.Message{
			Kind: wire.Hello, Version: wire.Version, Instance: "older",
			Jobs: []wire.Job{{ID: id, Started: journal.Started{Pid: 7, StartTime: 8, BootID: "boot"}}},
		})
	}()
	l, err := newLink(near, testConfig(""), true, func(*link, map[wire.ID]*process) {}, nil)
	if err != nil {
		t.Fatal(err)
	}
	spec := script("")
	spec.Token, spec.Attempt = "@second234", 1
	if _, err := l.start(&spec); !errors.Is(err, jobexec.ErrRunnerChanged) || !errors.Is(err, errNumber) {
		t.Errorf("the second start: %v", err)
	}
	l.forget(id)
	if _, err := l.start(&spec); err != nil {
		t.Errorf("the second start when the first is forgotten: %v", err)
	}
	for _, want := range []wire.Kind{wire.Forget, wire.Environment, wire.Start} {
		if m := next(t, in); m.Kind != want {
			t.Errorf("the runner is sent %+v, want kind %d", m, want)
		}
	}
	far.CloseWrite()
	<-l.lost
}

// What a killed runner had on disk is found by the token of its claim; what one of an older version
// had, without. What is of no start under way is removed.
func TestOutputIsFoundByToken(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	folder := filepath.Join(remote.connector.config.Dir, wire.OutputFolder)
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	process := journal.Started{Pid: 1, StartTime: 2, BootID: "before"}
	put := func(id wire.ID, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, wire.OutputFiles(id, process)[0]), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ours, theirs := wire.ID{Job: 1, Token: "@abcdefghi", Attempt: 1}, wire.ID{Job: 1, Token: "@bbbbbbbbb", Attempt: 1}
	older := wire.ID{Job: 2, Token: "@abcdefghi", Attempt: 1}
	put(ours, "ours")
	put(theirs, "theirs")
	put(older.Bare(), "older")
	if w, err := remote.Written(t.Context(), jobexec.Glance{Job: 1, Token: ours.Token, Attempt: 1, Started: process, Most: 9}); err != nil || string(w[0].Bytes) != "ours" {
		t.Errorf("of a running job is seen %q, %v", w[0].Bytes, err)
	}
	for id, want := range map[wire.ID]string{ours: "ours", theirs: "theirs", older: "older"} {
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
