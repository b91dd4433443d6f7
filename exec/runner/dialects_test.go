package runner

import (
	"bufio"
	"bytes"
	"cmp"
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
	"jobd/exec/runner/proc"
	"jobd/exec/runner/proctest"
	"jobd/exec/runner/wire"
	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// recorded is what worker and runner of the former version said to each other, recorded from the programs
// themselves: two sessions, of a worker that leaves a job running, and of the next one, which comes for it.
func recorded(t *testing.T) (sessions [2][]line) {
	t.Helper()
	for i, session := range []string{"first-worker", "next-worker"} {
		sessions[i] = recording(t, filepath.Join("..", "..", "testdata", "compat", "runner", "tokens", session+".txt"))
		if len(sessions[i]) < 5 {
			t.Fatalf("%s: only %d messages", session, len(sessions[i]))
		}
	}
	return sessions
}

// No byte of a recorded message is lost in reading it and writing it again.
func TestMessagesAreThoseOfTheFormerVersion(t *testing.T) {
	t.Parallel()
	for _, lines := range recorded(t) {
		for _, l := range lines {
			m := decoded(t, l.bytes)
			if m.Later { // the message has the length of what is not in it
				m.Done.Stdout.Kept = make([]byte, m.Done.Stdout.Size)
			}
			near, far := proctest.Connected(t)
			put(t, near, m)
			near.Close()
			if sent, err := io.ReadAll(far); err != nil || !bytes.Equal(sent, l.bytes) {
				t.Errorf("kind %d is sent as\n%q, it was\n%q: %v", m.Kind, sent, l.bytes, err)
			}
		}
	}
}

// A worker of the former version, with the runner of this one: it gets the answers that its own runner gave.
func TestAWorkerOfTheFormerVersionIsServed(t *testing.T) {
	t.Parallel()
	config := workerConfig(t.TempDir())
	for _, lines := range recorded(t) {
		speak(t, &config, lines)
	}
}

// speak sends a runner of this version what a worker sent, and compares its answers. When a process
// was told of as started is left out: that depends on how quick the machine was.
func speak(t *testing.T, config *Config, lines []line) {
	t.Helper()
	conn := must.Get(config.dial())(t)
	defer conn.Close()
	in := wire.NewReader(conn)
	for _, l := range lines {
		if l.side == "worker" {
			must.Get(conn.Write(l.bytes))(t)
			continue
		}
		want := decoded(t, l.bytes)
		if want.Kind == wire.Started {
			continue
		}
		got, err := in.Next()
		for err == nil && got.Kind == wire.Started {
			got, err = in.Next()
		}
		if err != nil {
			t.Fatalf("instead of %+v: %v", want, err)
		}
		check.Equal(t, masked(got), masked(want), "the answer is …, it was")
	}
}

// A runner of the former version, with a worker of this one: behind its hello it sends what a worker of that
// version sent, byte for byte, and learns what its jobs came to. It is asked for no job of another account,
// which it would start under its own.
func TestARunnerOfTheFormerVersionIsUnderstood(t *testing.T) {
	t.Parallel()
	config := workerConfig(t.TempDir())
	config.Path = "/none" // no runner but the recorded one may start
	listener := must.Get(net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(config.Dir, wire.SocketFile)}))(t)
	defer listener.Close()
	for _, lines := range recorded(t) {
		played := make(chan error, 1)
		go func() { played <- playRunner(listener, lines) }()
		remote, err := Open(config)
		if err != nil {
			t.Fatalf("%v, %v", err, <-played)
		}
		repeat(t, remote, lines)
		another := script("true")
		another.Account = &proc.Account{Name: "app"}
		var refused *jobexec.NotStartedError
		if _, err := ask(remote, another); !errors.As(err, &refused) || !refused.Short {
			t.Errorf("a start under another account: %v", err)
		}
		check.Do(t, remote.Close())
		check.Do(t, <-played)
	}
}

// repeat does what the worker of a recorded session did.
func repeat(t *testing.T, remote *Remote, lines []line) {
	t.Helper()
	jobs, ends := recordedJobs(t, lines)
	processes := map[int64]jobexec.Process{}
	for _, r := range remote.Recall(jobs) {
		processes[r.Job] = r.Process
	}
	check.Equal(t, len(processes), len(jobs)+1, "jobs are recalled of %+v", jobs)
	var env []string
	for _, l := range lines[1:] {
		if l.side != "worker" {
			continue
		}
		m := decoded(t, l.bytes)
		process := processes[m.ID.Job]
		switch m.Kind {
		case wire.Environment:
			env = m.Env
		case wire.Start:
			processes[m.ID.Job] = asked(t, remote, jobexec.Spec{
				Job: m.ID.Job, Token: m.ID.Token, Attempt: m.ID.Attempt,
				Argv: m.Argv, Dir: m.Dir, Env: env, MaxOutput: m.MaxOutput,
			})
		case wire.Signal:
			<-process.Begun()
			if err := process.Signal(m.Signo); err != nil {
				t.Errorf("signal to job %d: %v", m.ID.Job, err)
			}
		case wire.Forget:
			done, err := wait(process)
			if want := ends[m.ID.Job]; err != nil || !reflect.DeepEqual(done, want) {
				t.Errorf("job %d ended with %+v, want %+v: %v", m.ID.Job, done, want, err)
			}
			remote.Forget(m.ID.Job, m.ID.Token, m.ID.Attempt)
		}
	}
}

// recordedJobs is the jobs that a recorded runner had of the worker before, and how each of its
// jobs ended.
func recordedJobs(t *testing.T, lines []line) (had []jobexec.Spec, ends map[int64]journal.Done) {
	t.Helper()
	ends = map[int64]journal.Done{}
	for _, l := range lines {
		switch m := decoded(t, l.bytes); {
		case l.side == "runner" && m.Kind == wire.Hello:
			for _, j := range m.Jobs {
				if !j.IsWord() {
					had = append(had, jobexec.Spec{Job: j.ID.Job, Token: j.ID.Token, Attempt: j.ID.Attempt})
				}
			}
		case m.Kind == wire.Ended && !m.Later, m.Kind == wire.Output:
			ends[m.ID.Job] = m.Done
		}
	}
	return had, ends
}

// line is one recorded message.
type line struct {
	side  string // worker or runner
	bytes []byte
}

// recording reads one: in each line the side, the kind, the bytes, and where there is much of the same
// behind them, how many times what.
func recording(t *testing.T, file string) (lines []line) {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	for each := range strings.Lines(string(text)) {
		var side, kind, begin, more string
		var times int
		if n, err := fmt.Sscanf(each, "%s %s %q %d %q", &side, &kind, &begin, &times, &more); n != 3 && n != 5 {
			t.Fatalf("%s: %v in %s", file, err, each)
		}
		lines = append(lines, line{side, []byte(begin + strings.Repeat(more, times))})
	}
	return lines
}

func decoded(t *testing.T, b []byte) wire.Message {
	t.Helper()
	m, err := wire.NewReader(bytes.NewReader(b)).Next()
	if err != nil {
		t.Fatalf("%q is not understood: %v", b, err)
	}
	return m
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
		if l.side == "runner" && i == 1 {
			if err := sendBusyHello(conn, l.bytes); err != nil {
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

// sendBusyHello sends a recorded runner's hello, with one more job: a runner of another build that has
// none would be left at once.
func sendBusyHello(conn *net.UnixConn, recorded []byte) error {
	hello, err := wire.NewReader(bytes.NewReader(recorded)).Next()
	if err != nil || hello.Kind != wire.Hello {
		return fmt.Errorf("the runner begins with %+v: %w", hello, err)
	}
	hello.Jobs = append(hello.Jobs, wire.Job{ID: wire.ID{Job: 1 << 40, Attempt: 1, Token: workerToken}})
	out := wire.NewOutbox(conn)
	out.Post(hello)
	out.Close()
	<-out.Written()
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

// masked shows a message without what differs from run to run.
func masked(m wire.Message) string {
	mask := func(s *journal.Started) {
		if s.Pid > 0 && s.StartTime > 0 && s.BootID != "" {
			*s = journal.Started{Pid: 1}
		}
	}
	mask(&m.Started)
	for i := range m.Jobs {
		mask(&m.Jobs[i].Started)
	}
	slices.SortFunc(m.Jobs, func(a, b wire.Job) int { return cmp.Compare(a.ID.Job, b.ID.Job) })
	m.Done.Elapsed = min(m.Done.Elapsed, 1)
	name, _, _ := strings.Cut(m.Instance, ".") // behind that stands which process it is
	m.Instance = fmt.Sprint(len(name))
	exit := fmt.Sprint(deref(m.Done.Code))
	m.Done.Code = nil
	return fmt.Sprintf("%+v exit code %s", m, exit)
}

func deref(n *int) any {
	if n == nil {
		return nil
	}
	return *n
}
