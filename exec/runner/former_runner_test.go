package runner

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// A worker of this version, with the runner of the former one: behind its hello it sends what a
// former worker sent, byte for byte, and learns the same.
func TestAFormerRunnerIsUnderstood(t *testing.T) {
	t.Parallel()
	config := formerFolder(t)
	config.Path = "/none" // there is to be no runner but the recorded one
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(config.Dir, wire.SocketFile)})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	session := func(name string, work func(*Remote)) {
		played := make(chan error, 1)
		go func() { played <- playRunner(listener, transcript(t, name)) }()
		remote, err := Open(config)
		if err != nil {
			t.Fatalf("%s: %v, %v", name, err, <-played)
		}
		work(remote)
		if err := remote.Close(); err != nil {
			t.Error(err)
		}
		if err := <-played; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	session("first-worker", func(r *Remote) { firstWorker(t, r) })
	session("next-worker", func(r *Remote) {
		recalled := recalledOf(t, r)
		outcome(t, recalled[11], journal.Done{Result: "fail", Code: code(3), Stdout: kept("kept\n")})
		outcome(t, recalled[10], journal.Done{Result: "fail", Code: code(9), Stdout: kept("before\nafter\n")})
		r.Forget(10, claimToken, 1)
		r.Forget(11, claimToken, 1)
	})
}

// playRunner is a runner that knows one worker's requests and the answers to them.
func playRunner(listener *net.UnixListener, lines []line) error {
	conn, err := listener.AcceptUnix()
	if err != nil {
		return err
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for i, l := range lines {
		if i == 0 { // the worker may say that it understands more than a former one did
			if err := playHello(in, l.bytes); err != nil {
				return err
			}
			continue
		}
		if l.side == "runner" {
			if _, err := conn.Write(l.bytes); err != nil {
				return err
			}
			continue
		}
		got := make([]byte, len(l.bytes))
		if err := conn.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
			return err
		}
		if n, err := io.ReadFull(in, got); err != nil || !bytes.Equal(got, l.bytes) {
			listener.Close()
			return fmt.Errorf("the worker sent\n%q, a former one\n%q: %w", got[:n], l.bytes, err)
		}
	}
	if more, err := in.ReadByte(); err != io.EOF {
		return fmt.Errorf("the worker sent more: %q, %w", more, err)
	}
	return nil
}

// playHello reads a worker's hello, which has all that a former one's had.
func playHello(in *bufio.Reader, recorded []byte) error {
	former, err := wire.NewReader(bytes.NewReader(recorded)).Next()
	if err != nil {
		return err
	}
	var length [4]byte
	if _, err := io.ReadFull(in, length[:]); err != nil {
		return err
	}
	body := make([]byte, binary.LittleEndian.Uint32(length[:]))
	if _, err := io.ReadFull(in, body); err != nil {
		return err
	}
	hello, err := wire.NewReader(bytes.NewReader(append(length[:], body...))).Next()
	if err != nil || hello.Kind != wire.Hello || hello.Version != former.Version ||
		former.Instance != "" && hello.Instance != former.Instance || !slices.Equal(hello.Jobs[:len(former.Jobs)], former.Jobs) {
		return fmt.Errorf("the worker begins with %+v, a former one with %+v: %w", hello, former, err)
	}
	return nil
}

// firstWorker does what the recorded one did.
func firstWorker(t *testing.T, remote *Remote) {
	t.Helper()
	env := []string{"PATH=/usr/bin:/bin", "WORD=a word"}
	do := func(job int64, dir string, argv ...string) jobexec.Process {
		return asked(t, remote, jobexec.Spec{Job: job, Token: claimToken, Attempt: 1, Argv: argv, Dir: dir, Env: env, MaxOutput: 1 << 20})
	}
	sh := func(job int64, text string) jobexec.Process { return do(job, "", "/bin/sh", "-c", text) }
	refused := func(p jobexec.Process, want error) {
		t.Helper()
		if _, err := wait(p); !reflect.DeepEqual(err, want) {
			t.Errorf("refused with %#v, want %#v", err, want)
		}
	}
	done := func(job int64, p jobexec.Process, want journal.Done) {
		t.Helper()
		outcome(t, p, want)
		remote.Forget(job, claimToken, 1)
	}
	outcome(t, sh(1, `echo "$WORD"; echo err >&2; exit 7`),
		journal.Done{Result: "fail", Code: code(7), Stdout: kept("a word\n"), Stderr: kept("err\n")})
	outcome(t, do(2, "/", "/bin/true"), journal.Done{Result: "ok", Code: code(0)})
	refused(do(2, "/", "/bin/true"), errors.New("it was started already"))
	remote.Forget(1, claimToken, 1)
	remote.Forget(2, claimToken, 1)
	refused(do(3, "", "/none"), &jobexec.NotStartedError{Why: "start /none: no such file or directory"})
	refused(do(4, "/none", "/bin/true"),
		&jobexec.NotStartedError{Why: "start /bin/true: working folder: stat /none: no such file or directory"})
	refused(do(5, "", "./busy"), &jobexec.NotStartedError{Why: "start ./busy: text file busy", Short: true})
	signalled := sh(6, "exec sleep 300")
	<-signalled.Begun()
	if err := signalled.Signal(15); err != nil {
		t.Errorf("signal: %v", err)
	}
	done(6, signalled, journal.Done{Result: "fail", Signal: "SIGTERM"})
	if err := linkOf(remote).signal(wire.ID{Job: 6, Attempt: 1}, 15); err == nil || err.Error() != os.ErrProcessDone.Error() {
		t.Errorf("signal to a process that is gone: %v", err)
	}
	done(7, sh(7, "kill -KILL $$"),
		journal.Done{Result: "fail", Signal: "SIGKILL", Note: "killed by a SIGKILL that was not jobd's"})
	done(8, sh(8, "sleep 300 & exit 0"), journal.Done{
		Result: "ok", Code: code(0), Reason: "a process it left behind kept its output open for more than 1s",
	})
	done(9, sh(9, "printf %070000d 0"), journal.Done{Result: "ok", Code: code(0), Stdout: kept(strings.Repeat("0", 70_000))})
	<-sh(10, "echo before; read line <gate; echo $line; exit 9").Begun()
	env = []string{"WORD="}
	outcome(t, sh(11, "echo kept; exit 3"), journal.Done{Result: "fail", Code: code(3), Stdout: kept("kept\n")})
}

// claimToken is that of the claims of a worker of this version, of which a former runner knows
// nothing.
const claimToken = "@abcde2345"

func recalledOf(t *testing.T, remote *Remote) map[int64]jobexec.Process {
	t.Helper()
	recalled := make(map[int64]jobexec.Process)
	for _, r := range remote.Recall([]jobexec.Spec{{Job: 10, Token: claimToken, Attempt: 1}, {Job: 11, Token: claimToken, Attempt: 1}}) {
		if r.Token != claimToken {
			t.Errorf("recalled is %+v", r)
		}
		recalled[r.Job] = r.Process
	}
	if len(recalled) != 2 || recalled[10] == nil || recalled[11] == nil {
		t.Fatalf("the runner has %v, want jobs 10 and 11", recalled)
	}
	return recalled
}

// outcome asserts how a process ended. How long it ran is known, and differs from run to run.
func outcome(t *testing.T, p jobexec.Process, want journal.Done) {
	t.Helper()
	got, err := wait(p)
	if got.Elapsed <= 0 {
		t.Errorf("it ran for %d µs", got.Elapsed)
	}
	got.Elapsed = 0
	for _, o := range []*journal.Output{&got.Stdout, &got.Stderr} {
		if len(o.Kept) == 0 {
			o.Kept = nil
		}
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("it ended with %+v, want %+v: %v", got, want, err)
	}
}

func code(n int) *int { return &n }

func kept(text string) journal.Output {
	return journal.Output{Kept: []byte(text), Size: int64(len(text))}
}
