package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jobd/exec/runner/wire"
)

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
		"it is not ready in time":     {[]string{"/bin/sh", "-c", "echo loading; exec sleep 300"}, `it was not ready within 300ms: the line "ready" on descriptor 4 did not come; it wrote: loading`},
		"it says something else":      {[]string{"/bin/sh", "-c", "echo hello >&4; exec sleep 300"}, `it wrote "hello" to descriptor 4, where ready is expected`},
		"it says more than it may":    {[]string{"/bin/sh", "-c", "yes | tr -d '\\n' >&4"}, `to descriptor 4, where ready is expected`},
		"it says ready twice":         {[]string{"/bin/sh", "-c", `printf 'ready\nready\n' >&4; exec sleep 300`}, `it wrote "ready" to descriptor 4, where`},
		"it says ready without a end": {[]string{"/bin/sh", "-c", "printf ready >&4; exit 0"}, "it ended with exit code 0 before it said ready: it is to stay"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p := pooled("pool", 3)
			good := p.Argv
			p.Argv, p.BootTimeout = test.argv, 300*time.Millisecond
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
			if done := b.run(1, "DO=echo works"); string(done.Stdout.Kept) != "works\n" {
				t.Errorf("done %+v", done)
			}
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
	if done := b.done(1); string(done.Stdout.Kept) != "works\n" {
		t.Errorf("done %+v", done)
	}
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
	if err := os.WriteFile(file, []byte("#!/bin/bash\n"+shellLoop), 0o700); err != nil {
		t.Fatal(err)
	}
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
	b.noted("job 1 has left it behind") // and so it never writes
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
