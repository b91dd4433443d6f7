package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/wire"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// work is what a job does, in the words of the loop of a mode.
func work(mode, shell, perl string) string {
	if mode == "fork" {
		return "DO=" + perl
	}
	return "DO=" + shell
}

// A pool none of whose processes gets ready says why, refuses what it is asked for, and goes on when
// it can: nothing was started.
func TestAPoolThatDoesNotGetReady(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		argv []string
		why  string
	}{
		"there is no such program":    {[]string{"/none"}, "start /none: no such file or directory"},
		"it ends":                     {[]string{"/bin/sh", "-c", "echo some text; echo is missing >&2; exit 3"}, "it ended with exit code 3; it wrote: some text\nis missing"},
		"it is not ready in time":     {[]string{"/bin/sh", "-c", "echo loading; exec sleep 300"}, `it was not ready within 1s: the line "ready" on descriptor 4 did not come; it wrote: loading`},
		"it says something else":      {[]string{"/bin/sh", "-c", "echo hello >&4; exec sleep 300"}, `it wrote "hello" to descriptor 4, where ready is expected`},
		"it says more than it may":    {[]string{"/bin/sh", "-c", "yes | tr -d '\\n' >&4"}, `to descriptor 4, where ready is expected`},
		"it says ready twice":         {[]string{"/bin/sh", "-c", `printf 'ready\nready\n' >&4; exec sleep 300`}, `it wrote "ready" to descriptor 4, where`},
		"it says ready without a end": {[]string{"/bin/sh", "-c", "printf ready >&4; exit 0"}, "it ended with exit code 0 before it said ready: it must stay"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p := pooled("pool", 3)
			good := p.Argv
			p.Argv, p.BootTimeout = test.argv, time.Minute
			if strings.Contains(test.why, "within 1s") {
				p.BootTimeout = time.Second
			}
			b.pools(p)
			b.start(1)
			if m := b.of(1, wire.Refused); m.Class != wire.Program || !strings.Contains(m.Text, test.why) {
				t.Errorf("refused %+v, want %q", m, test.why)
			}
			s := b.stands("it is not ready", func(s wire.Standing) bool { return s.Unready != "" })
			if s.Since == 0 || !strings.Contains(s.Unready, test.why) {
				t.Errorf("standing %+v", s)
			}
			b.noted("a process for target mail ")
			p.Argv, p.BootTimeout = good, 0
			b.pools(p)
			b.stands("it is ready", func(s wire.Standing) bool { return s.Unready == "" && s.Ready > 0 })
			done := b.run(1, "DO=echo works")
			check.Equal(t, string(done.Stdout.Kept), "works\n", "done %+v", done)
		})
	}
}

// A configuration that is put right does not wait for processes that were started before, and load
// still, or hang.
func TestAnotherLauncherDoesNotWaitForTheOneBefore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := pooled("pool", 3)
	good := p.Argv
	p.Argv, p.BootTimeout = []string{"/bin/sleep", "300"}, time.Hour
	b.pools(p)
	b.start(1, "DO=echo works")
	b.stands("two boot", func(s wire.Standing) bool { return s.Booting == 2 && s.Processes == 2 })
	p.Argv = good
	b.pools(p)
	done := b.done(1)
	check.Equal(t, string(done.Stdout.Kept), "works\n", "done %+v", done)
	b.stands("all are ready", func(s wire.Standing) bool { return s.Ready == 3 && s.Unready == "" })
}

// It is tried again and again, and gets ready by itself when what was missing is there.
func TestAPoolGetsReadyByItself(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	file := filepath.Join(t.TempDir(), "launcher")
	p := pooled("pool", 2)
	p.Argv = []string{file}
	b.pools(p)
	b.stands("it is not ready", func(s wire.Standing) bool { return s.Unready != "" })
	must.Do(t, os.WriteFile(file, []byte("#!/bin/bash\n"+shellLoop), 0o700))
	b.stands("it is ready", func(s wire.Standing) bool { return s.Unready == "" && s.Ready == 2 })
	b.noted("get ready again")
}

// Two boot at a time.
func TestTwoProcessesBootAtATime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir := t.TempDir()
	p := pooled("pool", 6)
	// Each counts those that boot with it: folders, which are made at once or not.
	p.Argv[2] = `mkdir ` + dir + `/a 2>/dev/null && mine=a || { mkdir ` + dir + `/b 2>/dev/null && mine=b || echo many > ` + dir + `/many; }
i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; rmdir ` + dir + `/$mine; ` + p.Argv[2]
	b.pools(p)
	if s := b.stands("all are ready", func(s wire.Standing) bool { return s.Ready == 6 || s.Booting > 2 }); s.Booting > 2 {
		t.Errorf("%d boot", s.Booting)
	}
	if _, err := os.Stat(dir + "/many"); err == nil {
		t.Error("more than two booted at a time")
	}
}

// What a process writes before it is ready, and between jobs, is nobody's output: it is noted.
func TestWhatIsWrittenWithoutAJobIsNoted(t *testing.T) {
	t.Parallel()
	b := newBenchWith(t, func(ps *pools) { ps.times.tick = 20 * time.Millisecond })
	p := pooled("pool", 1)
	at := gate(t)
	p.Argv[2] = "echo loading; echo a warning >&2; " + p.Argv[2]
	b.pools(p)
	b.noted(`wrote before it was ready: "loading\na warning"`)
	done := b.run(1, "DO=(trap '' HUP; read line <"+at+"; echo late) & echo out; disown; true")
	if string(done.Stdout.Kept) != "out\n" {
		t.Errorf("stdout %q", done.Stdout.Kept)
	}
	b.noted("job 1 left it in the process group") // and so it never writes
	b.stands("the next one is there", func(s wire.Standing) bool { return s.Boots == 2 && s.Ready == 1 && s.Processes == 1 })
	// The loop itself writes on.
	p.Argv[2] = strings.Replace(shellLoop, `echo "exit $id $code" >&4`, `echo "exit $id $code" >&4; read line <`+at+`; echo too late`, 1)
	b.pools(p)
	b.stands("it is replaced", func(s wire.Standing) bool { return s.Recycled["reload"] == 1 && s.Processes == 1 })
	if done := b.run(2, "DO=echo two"); string(done.Stdout.Kept) != "two\n" {
		t.Errorf("stdout %q", done.Stdout.Kept)
	}
	openGate(t, at)
	b.noted(`between two jobs: "too late"`)
}

// loads is a launcher that says which process it is, and loads for ever.
func loads(mode, here string) wire.Pool {
	p := pooled(mode, 1)
	p.Argv, p.BootTimeout = []string{"/bin/sh", "-c", "echo $$ >" + here + "; trap '' TERM; exec sleep 3000"}, time.Hour
	return p
}

// A runner that ends does not wait until processes have loaded what nobody needs any more, however
// far they are: they end with it.
func TestProcessesThatLoadEndWithTheRunner(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, b *bench, mode string) {
		here := gate(t)
		b.pools(loads(mode, here))
		pid := pidIn(t, here)
		b.leave()
		b.local.pools.shutdown() // the limit of the test's time is far below that of the load
		if err := unix.Kill(pid, 0); err != unix.ESRCH {
			t.Errorf("process %d is there: %v", pid, err)
		}
	})
	b := newBench(t)
	b.local.pools.set([]wire.Pool{loads("pool", os.DevNull)}) // it is being started
	b.leave()
	b.local.pools.shutdown()
}

// A target that was removed and comes back begins anew: nothing that was said of it before is said
// of it now, and it waits for nothing, though a process of the one before runs a job still.
func TestATargetThatComesBackStandsAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := pooled("pool", 2)
	b.pools(p)
	b.stands("it is ready", func(s wire.Standing) bool { return s.Ready == 2 })
	at := gate(t)
	b.start(1, "DO=read line <"+at)
	b.of(1, wire.Started)
	broken := p
	broken.Argv = []string{"/bin/sh", "-c", "echo broken; exit 1"}
	b.pools(broken)
	b.stands("it fails", func(s wire.Standing) bool { return s.Failing != "" })
	b.inReactor(func(ps *pools) { ps.find("mail").delay = int64(time.Hour) })
	b.stands("it fails for long", func(s wire.Standing) bool { return s.Failing != "" })
	b.pools()
	b.until("it is gone", func() bool { return len(b.standings) == 0 })
	b.mu.Lock()
	b.standings = nil // of before
	b.standing = func(s wire.Standing) {
		if s.Failing != "" || s.Unready != "" || s.Since != 0 || s.Boots > 2 || s.Jobs != 0 || len(s.Recycled) > 0 {
			t.Errorf("standing %+v", s)
		}
	}
	b.mu.Unlock()
	b.pools(p)
	b.stands("it is ready again", func(s wire.Standing) bool { return s.Ready == 2 })
	b.mu.Lock()
	b.standing = nil
	b.mu.Unlock()
	openGate(t, at)
	b.done(1)
}

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
			note := b.noted(stranger)
			check.Contains(t, note.Text, "(", "the note … names no program")
		})
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
	must.Do(t, os.WriteFile(script, []byte(shellLoop), 0o600))
	p := pooled("pool", 1)
	p.Argv = []string{"/bin/sh", "-c", "/bin/bash " + script + "; true"}
	b.pools(p)
	done := b.run(1, "DO=echo out")
	check.Equal(t, string(done.Stdout.Kept), "out\n", "done %+v", done)
}
