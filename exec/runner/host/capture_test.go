package host

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// The newest beyond the limit is there, whatever comes in whatever pieces, from the first question on, and as
// long as somebody follows.
func TestATailHasTheNewest(t *testing.T) {
	t.Parallel()
	var all []byte
	for i := 0; len(all) < 3*tailSize; i++ {
		all = fmt.Appendf(all, "%d ", i)
	}
	for _, piece := range []int{1, 1000, 4096, tailSize - 1, tailSize, tailSize + 1, len(all)} {
		c := &capture{limit: 77}
		if c.take(all[:1000]); c.tail != nil {
			t.Error("nobody asked, and there is a tail")
		}
		c.peek(0, 1)
		for at := 1000; at < len(all); at += piece {
			end := min(at+piece, len(all))
			c.take(all[at:end])
			c.peek(0, 1) // who follows asks again and again
			must.Equal(t, len(c.tail), min(tailSize, end-1000), "in pieces of %d there are … bytes at %d", piece, end)
		}
		if !bytes.Equal(c.tail, all[len(all)-tailSize:]) {
			t.Errorf("in pieces of %d the tail is wrong", piece)
		}
		c.followed = proc.Uptime() - 1
		if c.take(all); c.tail != nil || c.followed != 0 {
			t.Error("nobody has asked for long, and there is a tail")
		}
	}
}

// What a job writes can be looked at from any offset; what was not kept is passed over.
func TestPeeks(t *testing.T) {
	t.Parallel()
	first, second, third := gate(t), gate(t), gate(t)
	spec := script("printf 0123456789; printf err >&2; read line <" + first + "; printf abcdefghij; read line <" + second +
		"; head -c 200000 /dev/zero; printf xyz; read line <" + third)
	spec.maxOutput = 15
	p := launch(t, newTestLocal(t), spec)
	<-p.isBegun
	type want struct {
		from int64
		most int
		at   int64
		text string
	}
	look := func(size int64, wants ...want) {
		t.Helper()
		for p.stdout.peek(0, 1).Size != size { // it is read as it comes
		}
		for _, w := range wants {
			if got := p.stdout.peek(w.from, w.most); got.At != w.at || string(got.Bytes) != w.text || got.Size != size {
				t.Errorf("from %d, %d bytes: %d %q of %d, want %d %q of %d", w.from, w.most, got.At, got.Bytes, got.Size, w.at, w.text, size)
			}
		}
	}
	look(10, want{0, 100, 0, "0123456789"}, want{3, 2, 3, "34"}, want{10, 5, 10, ""}, want{99, 5, 10, ""}, want{-3, 100, 7, "789"}, want{-99, 2, 0, "01"})
	for p.stderr.peek(0, 1).Size != 3 { // it is read as it comes, too
	}
	if got := p.stderr.peek(1, 100); string(got.Bytes) != "rr" {
		t.Errorf("stderr has %q", got.Bytes)
	}
	openGate(t, first) // 5 of 10 bytes are beyond the limit
	look(20, want{12, 100, 12, "cde"}, want{15, 100, 15, "fghij"}, want{17, 2, 17, "hi"}, want{-8, 100, 12, "cde"}, want{-2, 9, 18, "ij"})
	openGate(t, second)
	const size, tailAt = 200_023, 200_023 - tailSize
	look(size, want{size - 3, 9, size - 3, "xyz"}, want{-3, 9, size - 3, "xyz"}, want{14, 1, 14, "e"}, want{16, 1, tailAt, "\x00"}, want{-size, 1, tailAt, "\x00"})
	openGate(t, third)
	if done := p.wait(); done.Stdout.Size != size || string(done.Stdout.Kept) != "0123456789abcde" {
		t.Errorf("%d bytes, kept %q", done.Stdout.Size, done.Stdout.Kept)
	}
}

// However a text comes, its beginning and its end are told, and that there was more.
func TestExcerpt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := newExcerpt()
		all := ""
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 500), 0, 8).Draw(t, "parts") {
			part := strings.Repeat("äb\n1", n/5) + strings.Repeat("x", n%5)
			e.take([]byte(part))
			all += part
		}
		want := all
		if len(all) > mostHead+mostTail {
			want = strings.ToValidUTF8(all[:mostHead]+" … "+all[len(all)-mostTail:], "�")
		}
		if got := e.excerpt(); got != strings.TrimRight(want, "\n") || !utf8.ValidString(got) {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}

func TestWhoKilledAJob(t *testing.T) {
	t.Parallel()
	local := newTestLocal(t)
	if done := run(t, local, script("echo out >&2; kill -KILL $$")); done.Note != "killed by a SIGKILL that was not jobd's" {
		t.Errorf("killed by somebody: %+v", done)
	} else if got, want := done.ShownStderr().Text(0, 0), "out\n[jobd: killed by a SIGKILL that was not jobd's]\n"; got != want {
		t.Errorf("stderr is shown as %q, want %q", got, want)
	}
	ours := launch(t, local, script("exec sleep 300"))
	must.Do(t, ours.signal(9))
	if done := ours.wait(); done.Signal != "SIGKILL" || done.Note != "" {
		t.Errorf("killed by jobd: %+v", done)
	}
}

// Not parallel: it is about the working folder.
func TestARunnerThatNobodyCanReach(t *testing.T) {
	tests := []struct {
		name   string
		change func(t *testing.T, dir string) error
		want   bool
	}{
		{"nothing happened", func(*testing.T, string) error { return nil }, true},
		{"the socket is gone", func(_ *testing.T, dir string) error { return os.Remove(filepath.Join(dir, wire.SocketFile)) }, false},
		{"another socket took its place", func(_ *testing.T, dir string) error {
			other := filepath.Join(dir, "other")
			if err := os.WriteFile(other, nil, 0o600); err != nil {
				return err
			}
			return os.Rename(other, filepath.Join(dir, wire.SocketFile))
		}, false},
		{"the folder was renamed", func(_ *testing.T, dir string) error { return os.Rename(dir, dir+".new") }, true},
		{"the folder is gone", func(_ *testing.T, dir string) error { return os.RemoveAll(dir) }, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "journal")
			must.Do(t, os.Mkdir(dir, 0o700))
			must.Do(t, os.WriteFile(filepath.Join(dir, wire.SocketFile), nil, 0o600))
			t.Chdir(dir)
			socket := must.Get(os.Stat(wire.SocketFile))(t)
			must.Do(t, test.change(t, dir))
			check.Equal(t, reachable(socket), test.want, "reachable")
		})
	}
}

func TestAnAbandonedRunnerWaitsForItsJobs(t *testing.T) {
	t.Parallel()
	known := newJobs("this")
	s := &server{jobs: known} // its home was never there
	j := known.add(wire.ID{Job: 1, Attempt: 1}, spec{})
	if s.abandoned() {
		t.Error("a runner ends while a job runs")
	}
	j.ended = true
	if !s.abandoned() {
		t.Error("a runner waits for ever for a worker that can't come")
	}
}

// A job can make processes that are no children of its own, but of the runner: those are reaped, too.
func TestChildrenThatAJobMakesOfOursAreReaped(t *testing.T) {
	t.Parallel()
	local := newTestLocal(t)
	const cloneParent = unix.CLONE_PARENT | int(unix.SIGCHLD)
	made := run(t, local, script(fmt.Sprintf(
		`exec perl -MPOSIX -e 'for (1 .. 3) { my $p = syscall(%d, %d, 0, 0, 0, 0); POSIX::_exit(0) if $p == 0; syswrite(STDOUT, "$p\n") }'`,
		unix.SYS_CLONE, cloneParent)))
	pids := strings.Fields(string(made.Stdout.Kept))
	must.Equal(t, len(pids), 3, "done %+v", made)
	for _, text := range pids {
		pid := must.Get(strconv.Atoi(text))(t)
		for who, there := proc.RelativesOf(pid); there && who.Parent == os.Getpid(); who, there = proc.RelativesOf(pid) {
			run(t, local, script("true"))
		}
	}
}
