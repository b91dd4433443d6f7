package runner

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/wire"
	"jobd/journal"
)

// The former version was one package. What its worker and its runner said to each other was
// recorded from its programs, every kind of message both ways: first-worker has a worker that
// leaves one job running and the outcome of another, next-worker the one that comes for them.

// line is one recorded message.
type line struct {
	side  string // worker or runner
	bytes []byte
}

// transcript reads a recording: in each line the side, the kind, the bytes, and where there is much
// of the same behind them, how many times what.
func transcript(t *testing.T, name string) (lines []line) {
	t.Helper()
	return recording(t, filepath.Join("testdata", "former", name+".txt"))
}

func recording(t *testing.T, file string) (lines []line) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
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

// sameBytes checks that no byte of a recorded message is lost in reading it and writing it again.
func sameBytes(t *testing.T, dialect string, l line) wire.Kind {
	t.Helper()
	m := decoded(t, l.bytes)
	if m.Later { // the message has the length of what is not in it
		m.Done.Stdout.Kept = make([]byte, m.Done.Stdout.Size)
	}
	near, far := pair(t)
	put(t, near, m)
	near.Close()
	if sent, err := io.ReadAll(far); err != nil || !bytes.Equal(sent, l.bytes) {
		t.Errorf("%s: kind %d is sent as\n%q, it was\n%q: %v", dialect, m.Kind, sent, l.bytes, err)
	}
	return m.Kind
}

// The bytes are understood, and are what this version sends for the same messages.
func TestMessagesAreThoseOfTheFormerVersion(t *testing.T) {
	t.Parallel()
	kinds := make(map[wire.Kind]bool)
	for _, l := range append(transcript(t, "first-worker"), transcript(t, "next-worker")...) {
		kinds[sameBytes(t, "the former version", l)] = true
	}
	if len(kinds) != int(wire.Forget) {
		t.Errorf("only %d kinds of messages were recorded", len(kinds))
	}
}

// A worker of the former version, with the runner of this one: it gets the same answers, and so
// does the one that comes after it.
func TestAFormerWorkerIsServed(t *testing.T) {
	t.Parallel()
	config := formerFolder(t)
	play(t, &config, "first-worker")
	play(t, &config, "next-worker")
}

// A worker of the former version hands its jobs over to one of this version.
func TestAFormerWorkerHandsItsJobsOver(t *testing.T) {
	t.Parallel()
	config := formerFolder(t)
	play(t, &config, "first-worker")
	remote := open(t, config.Dir)
	recalled := recalledOf(t, remote)
	outcome(t, recalled[11], journal.Done{Result: "fail", Code: code(3), Stdout: kept("kept\n")})
	letGo(t, &config)
	outcome(t, recalled[10], journal.Done{Result: "fail", Code: code(9), Stdout: kept("before\nafter\n")})
	remote.Forget(10, claimToken, 1)
	remote.Forget(11, claimToken, 1)
}

// formerFolder has what the recorded jobs need: a gate to wait at, and a program that is being
// written.
func formerFolder(t *testing.T) Config {
	t.Helper()
	config := workerConfig(t.TempDir())
	if err := unix.Mkfifo(filepath.Join(config.Dir, "gate"), 0o600); err != nil {
		t.Fatal(err)
	}
	busy, err := os.OpenFile(filepath.Join(config.Dir, "busy"), os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { busy.Close() })
	return config
}

// letGo opens the gate at which job 10 waits.
func letGo(t *testing.T, config *Config) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(config.Dir, "gate"), []byte("after\n"), 0); err != nil {
		t.Fatal(err)
	}
}

// play sends a runner of this version what a worker of the former one sent, and compares its
// answers.
func play(t *testing.T, config *Config, name string) {
	t.Helper()
	conn, err := config.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := wire.NewReader(conn)
	for _, l := range transcript(t, name) {
		if l.side == "worker" {
			if _, err := conn.Write(l.bytes); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want := decoded(t, l.bytes)
		if want.Kind == wire.Ended && want.ID.Job == 10 {
			letGo(t, config)
		}
		got, err := in.Next()
		for err == nil && got.Kind == wire.Started && want.Kind != wire.Started {
			got, err = in.Next() // a short job took longer than when it was recorded
		}
		if err != nil {
			t.Fatalf("%s: instead of %+v: %v", name, want, err)
		}
		if masked(got) != masked(want) {
			t.Errorf("%s: the answer is\n%s, it was\n%s", name, masked(got), masked(want))
		}
	}
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
	m.Instance = fmt.Sprint(len(m.Instance))
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
