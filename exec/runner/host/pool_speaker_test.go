package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/wire"
)

// Every process that has descriptor 4 may write to it. Only the process that said ready, and a forked
// child of itself, answer: the kernel names the writer.
func TestAStrangerForgesNothing(t *testing.T) {
	t.Parallel()
	const stranger = "which is no answer: it is not the process that said ready"
	for name, test := range map[string]struct {
		mode, do string
		code     int
		change   func(p *wire.Pool)
	}{
		"a job's child says exit":      {mode: "pool", do: `bash -c 'echo exit 1 0 >&4'; code=7`, code: 7},
		"a job's child says garbage":   {mode: "pool", do: `bash -c 'echo nonsense >&4'; code=7`, code: 7},
		"a job's child says ready":     {mode: "pool", do: `bash -c 'echo ready >&4'; code=7`, code: 7},
		"a forked job says ended":      {mode: "fork", do: `print $out "ended 1 0\n"; POSIX::_exit(7)`, code: 7},
		"a forked job's child says so": {mode: "fork", do: `my $c = fork(); if (!$c) { print $out "ended 1 0\n"; POSIX::_exit(0) } waitpid($c, 0); POSIX::_exit(7)`, code: 7},
		"a child says exit when asked": {mode: "pool", do: "code=7", code: 7, change: beforeStarted("bash -c 'echo exit 1 0 >&4'; ")},
		"a child says started":         {mode: "pool", do: "code=7", code: 7, change: beforeStarted("bash -c 'echo started 1 >&4'; ")},
		"a child refuses":              {mode: "pool", do: "code=7", code: 7, change: beforeStarted("bash -c 'echo refused 1 >&4'; ")},
		"half a line of somebody else's": {
			mode: "pool", do: `bash -c 'printf "exit 1 0" >&4; kill -STOP $$; echo >&4' & until grep -q "State:.T" /proc/$!/status; do :; done; printf "exit 1 7" >&4; kill -CONT $!; wait $!; code=""; exec 6>&4; echo >&4; exec sleep 300`, code: 7,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p := pooled(test.mode, 1)
			if test.change != nil {
				test.change(&p)
			}
			b.pools(p)
			if done := b.run(1, "DO="+test.do); done.Code == nil || *done.Code != test.code {
				t.Errorf("done %+v, want exit code %d", done, test.code)
			}
			if note := b.noted(stranger); !strings.Contains(note.Text, "(") {
				t.Errorf("the note %q names no program", note.Text)
			}
		})
	}
}

// What others have written holds up no answer behind it.
func TestAllThatWasWrittenIsHeardAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.pools(pooled("pool", 1))
	b.run(1, "DO=echo out")
	left := make(chan int, 1)
	b.local.do(func() {
		for _, k := range b.local.pools.processes {
			its, err := unix.Dup(k.answers.its)
			if err != nil {
				t.Error(err)
			}
			answers := os.NewFile(uintptr(its), "answers")
			for range 3 {
				stranger := exec.Command("/bin/sh", "-c", "echo nonsense >&3")
				stranger.ExtraFiles = []*os.File{answers}
				if err := stranger.Run(); err != nil {
					t.Error(err)
				}
			}
			answers.Close()
			b.local.pools.hear(k)
			left <- pending(k.answers.ours)
		}
	})
	if bytes := <-left; bytes != 0 {
		t.Errorf("%d bytes are left", bytes)
	}
}

// beforeStarted has a shell's loop do something when it was asked for a job.
func beforeStarted(do string) func(*wire.Pool) {
	return func(p *wire.Pool) { p.Argv[2] = strings.Replace(p.Argv[2], `echo "started`, do+`echo "started`, 1) }
}

// A launcher may be a shell that starts the loop: then that one says ready, and answers.
func TestADescendantSaysReady(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	script := filepath.Join(t.TempDir(), "loop")
	if err := os.WriteFile(script, []byte(shellLoop), 0o600); err != nil {
		t.Fatal(err)
	}
	p := pooled("pool", 1)
	p.Argv = []string{"/bin/sh", "-c", "/bin/bash " + script + "; true"}
	b.pools(p)
	if done := b.run(1, "DO=echo out"); string(done.Stdout.Kept) != "out\n" {
		t.Errorf("done %+v", done)
	}
}

// A loop that opens the descriptors by path, as one could when they were pipes, is told what to do.
func TestALoopThatOpensByPathIsTold(t *testing.T) {
	t.Parallel()
	for name, argv := range map[string][]string{
		"by path":         {"/usr/bin/perl", "-e", `open(my $in, "<", "/proc/self/fd/3") or die "no requests: $!\n"`},
		"asks for a pipe": {"/usr/bin/perl", "-e", `-p STDIN or die "descriptors 3 and 4 are no pipes of jobd: is launcher_mode = fork set?\n"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBenchWith(t, func(ps *pools) { ps.times.tick = 50 * time.Millisecond })
			p := pooled("fork", 1)
			p.Argv = argv
			b.pools(p)
			s := b.stands("it does not get ready", func(s wire.Standing) bool { return s.Unready != "" })
			if want := "are sockets since version 1.1.0: open them by number, not by path"; !strings.Contains(s.Unready, want) {
				t.Errorf("unready %q, want %q in it", s.Unready, want)
			}
		})
	}
}
