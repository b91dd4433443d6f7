package host

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/wire"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// pidIn reads a process's number from a fifo, which it wrote when it was there.
func pidIn(t *testing.T, path string) int {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	pid := must.Get(strconv.Atoi(strings.TrimSpace(string(text))))(t)
	return pid
}

// open lets processes that wait at a gate go on.
func openGate(t *testing.T, path string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte("go\n"), 0))
}

// A forked job outlives its parent, and has its true end and its whole output, however much that is. It is
// old enough for its pipes to be listened to. It can be signalled.
func TestAForkedJobOutlivesItsParent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.pools(pooled("fork", 1))
	here, on := gate(t), gate(t)
	b.limited(1, wire.Limit{}, `DO=print "before\n"; select undef, undef, undef, 0.2; open(my $h, ">", "`+here+`"); print $h getppid(); close $h; open(my $g, "<", "`+on+`"); <$g>; print "x" x 1000000; exit 3`)
	parent := pidIn(t, here)
	must.Do(t, unix.Kill(parent, unix.SIGKILL))
	if note := b.noted("ended by SIGKILL; the job that it has forked runs on"); note.Job != 1 || note.Pid != parent {
		t.Errorf("noted %+v", note)
	}
	// The slot has another process meanwhile.
	if done := b.run(2, `DO=print "other"`); done.Result != "ok" || string(done.Stdout.Kept) != "other" {
		t.Errorf("another job: %+v", done)
	}
	openGate(t, on)
	if done := b.done(1); done.Code == nil || *done.Code != 3 || done.Stdout.Size != 1_000_007 || string(done.Stdout.Kept) != "before\n"+strings.Repeat("x", 93) {
		t.Errorf("done %+v, %d bytes", done, done.Stdout.Size)
	}
	b.start(3, `DO=open(my $h, ">", "`+here+`"); print $h getppid(); close $h; sleep 300`)
	parent = pidIn(t, here)
	must.Do(t, unix.Kill(parent, unix.SIGKILL))
	b.noted(fmt.Sprintf("process %d ended by SIGKILL; the job that it has forked runs on", parent))
	b.out.Post(wire.Message{Kind: wire.Signal, ID: id(3), Signo: 15})
	done := b.done(3)
	check.Equal(t, done.Signal, "SIGTERM", "done %+v", done)
}

// The end of a job whose process has ended, and what was in its group with it, is seen at once: jobd
// does not wait for output that nobody holds open any more, and does not say that somebody does.
func TestTheEndOfOutputIsSeenAfterTheProcess(t *testing.T) {
	t.Parallel()
	b := newBenchWith(t, func(ps *pools) { ps.reactor.delay = time.Hour })
	b.pools(pooled("pool", 1))
	for job := range int64(5) {
		if done := b.run(job, `DO=sleep 300 & sleep 0.2; echo out; kill -TERM $$; sleep 300`); done.Signal != "SIGTERM" || done.Reason != "" || string(done.Stdout.Kept) != "out\n" {
			t.Errorf("done %+v", done)
		}
	}
}

// A pool process that ends has ended its job, with its own exit code or signal; what it leaves in
// its group ends with it.
func TestAProcessThatEndsHasEndedItsJob(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.pools(pooled("pool", 1))
	if done := b.run(1, `DO=echo out; sleep 300 & exit 7`); done.Code == nil || *done.Code != 7 || string(done.Stdout.Kept) != "out\n" {
		t.Errorf("done %+v", done)
	}
	if done := b.run(2, `DO=echo out; kill -9 $$`); done.Signal != "SIGKILL" || !strings.HasPrefix(done.Note, "killed") {
		t.Errorf("done %+v", done)
	}
	if done := b.run(3, `DO=echo out; code=5`); done.Code == nil || *done.Code != 5 {
		t.Errorf("done %+v", done)
	}
}

// A process that has read nothing of the order was never asked: another one gets it.
func TestWhatWasNotReadIsStartedElsewhere(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, b *bench, mode string) {
		once := filepath.Join(t.TempDir(), "once")
		here := gate(t)
		p := pooled(mode, 1)
		deaf := `if mkdir ` + once + ` 2>/dev/null; then echo ready >&4; echo $$ > ` + here + `; exec sleep 300; fi; exec "$@"`
		p.Argv = append([]string{"/bin/sh", "-c", deaf, "sh"}, p.Argv...)
		b.pools(p)
		pid := pidIn(t, here)
		b.start(1, work(mode, "echo $id >>"+once+"/jobs", `open(my $o, ">>", "`+once+`/jobs"); print $o "1\n"`))
		b.stands("the job was passed on", func(s wire.Standing) bool { return s.Busy == 1 })
		must.Do(t, unix.Kill(pid, unix.SIGKILL))
		done := b.done(1)
		check.Equal(t, done.Result, "ok", "done %+v", done)
		b.noted("before it read the request")
		if ran, err := os.ReadFile(once + "/jobs"); string(ran) != "1\n" {
			t.Errorf("it ran %q: %v", ran, err)
		}
	})
}

// A process that has read the order and ended may have started the job: nobody can tell. The next job
// has a process again.
func TestWhatWasReadAndNotAnsweredIsUnknown(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ mode, answer string }{
		"pool":                  {"pool", `kill -9 $$`},
		"an end of its own":     {"pool", `exit 3`},
		"half an answer":        {"pool", `printf 'started %s' $id >&4; exit 0`},
		"refused by an end":     {"pool", `printf 'exit %s 0\n' $id >&4; exec sleep 300`},
		"an answer for another": {"pool", `echo started 77 >&4; exec sleep 300`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p := pooled(test.mode, 1)
			p.Argv[2] = strings.Replace(p.Argv[2], `echo "started $id" >&4`, `if test $id = 2; then `+test.answer+`; fi; echo "started $id" >&4`, 1)
			b.pools(p)
			b.run(1, "DO=true")
			done := b.run(2, "DO=true")
			if done.Result != wire.ResultLost || !strings.Contains(done.Reason, "before it said started") {
				t.Errorf("done %+v", done)
			}
			// That we had to kill its process is said, and why: nobody looks for the one who sent SIGKILL.
			const why = ` was asked for the job, and had to be killed before it said started: it wrote "exit 2 0" to descriptor 4, where started 2 or refused 2 is expected`
			if name == "refused by an end" && (!strings.HasPrefix(done.Reason, "process ") || !strings.Contains(done.Reason, why)) {
				t.Errorf("done %+v", done)
			}
			if done := b.run(3, "DO=true"); done.Result != "ok" {
				t.Errorf("the next job: %+v", done)
			}
		})
	}
}

// What a parent has forked and that had not said that it was started never begins: be it in the
// group of its parent still, or in its own.
func TestAChildThatDidNotSayStartedIsKilled(t *testing.T) {
	t.Parallel()
	for name, group := range map[string]string{"in its parent's group": "", "in a group of its own": "setpgid(0, 0);"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			here := gate(t)
			p := pooled("fork", 1)
			p.Argv[2] = strings.Replace(forkLoop, "setpgid(0, 0);",
				`if ($id == 2) { `+group+` open(my $h, ">", "`+here+`"); print $h getppid(), " ", $$; close $h; sleep 300 } setpgid(0, 0);`, 1)
			b.pools(p)
			b.run(1, "DO=1")
			b.start(2, "DO=1")
			text := must.Get(os.ReadFile(here))(t)
			var parent, child int
			must.Get(fmt.Sscan(string(text), &parent, &child))(t)
			must.Do(t, unix.Kill(parent, unix.SIGKILL))
			if done := b.done(2); done.Result != wire.ResultLost {
				t.Errorf("done %+v", done)
			}
			gone(t, child)
			gone(t, parent)
			if err := unix.Kill(child, 0); err == nil && !ended(child) {
				t.Error("the child lives on")
			}
			if done := b.run(3, "DO=1"); done.Result != "ok" {
				t.Errorf("the next job: %+v", done)
			}
		})
	}
}

// ended tells whether a process is a zombie.
func ended(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(text), ") Z ")
}

// untriedLoop gets ready, and ends as soon as it has a job: a function is missing, say.
const untriedLoop = `echo ready >&4; read -r line <&3; test "$line" = quit && exit 0; echo no such function >&2; exit 7`

// ends waits for the ends of jobs, and counts those that are lost. The others must be refused.
func (b *bench) ends(first, last int64) (lost int) {
	b.t.Helper()
	for job := first; job <= last; job++ {
		b.until("the job has ended", func() bool { return len(b.messages[job]) > 0 })
		m := b.messages[job][0]
		switch {
		case m.Kind == wire.Ended && m.Done.Result == wire.ResultLost:
			lost++
		case m.Kind != wire.Refused || m.Class != wire.Program || !strings.Contains(m.Text, "it wrote: no such function"):
			b.t.Errorf("job %d: %+v", job, m)
		}
	}
	return lost
}

// Regression: such a launcher took a job for each slot with it, each time that its processes were
// tried again.
func TestALauncherThatEndsWithItsFirstJobTakesOneJobAtATime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := pooled("pool", 4)
	good := p.Argv
	p.Argv = []string{"/bin/bash", "-c", untriedLoop}
	b.pools(p)
	b.stands("all are ready", func(s wire.Standing) bool { return s.Ready == 4 })
	for job := int64(1); job <= 20; job++ {
		b.start(job)
	}
	if lost := b.ends(1, 20); lost == 0 || lost > 4+mostBooting { // some may have been loading
		t.Errorf("%d jobs are lost at first, with four processes", lost)
	}
	b.inReactor(func(ps *pools) { // all that were there at first are one failure
		if delay := ps.find("mail").delay; delay > 2*leastDelay {
			t.Errorf("the next one is started after %s", time.Duration(delay))
		}
	})
	b.noted("a process for target mail gets ready, but runs no job: it ended with exit code 7 before it had run any job; it wrote: no such function")
	b.stands("one is ready", func(s wire.Standing) bool { return s.Unready == "" && s.Ready > 0 })
	for job := int64(101); job <= 110; job++ {
		b.start(job)
	}
	check.Equal(t, b.ends(101, 110), 1, "jobs are lost when it is tried again")
	b.stands("it is of no use", func(s wire.Standing) bool { return s.Unready != "" })
	p.Argv = good
	b.pools(p)
	b.stands("one is ready", func(s wire.Standing) bool { return s.Unready == "" && s.Ready > 0 })
	done := b.run(1001, "DO=echo works")
	check.Equal(t, string(done.Stdout.Kept), "works\n", "done %+v", done)
	b.stands("all are ready", func(s wire.Standing) bool { return s.Ready == 4 && s.Since == 0 })
}

// Those that wait for their first job go, too, where jobs come one after the other: not each of them
// takes one with it.
func TestProcessesThatAreUntriedGoWithThoseOfNoUse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := pooled("fork", 8)
	p.Argv = []string{"/bin/bash", "-c", untriedLoop}
	b.pools(p)
	b.stands("all are ready", func(s wire.Standing) bool { return s.Ready == 8 })
	lost := 0
	for job := int64(1); job <= 8; job++ {
		b.start(job)
		lost += b.ends(job, job)
	}
	if lost > 3 { // one may have been tried again meanwhile
		t.Errorf("%d of 8 jobs are lost", lost)
	}
}

// A new version that does not get ready takes nobody's place, and the standing says so, until one
// does.
func TestANewVersionThatDoesNotGetReady(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, b *bench, mode string) {
		file := filepath.Join(t.TempDir(), "launcher")
		p := pooled(mode, 2)
		install(t, file, "exec \"$@\"\n")
		p.Argv = append([]string{file}, p.Argv...)
		b.pools(p)
		b.stands("two are ready", func(s wire.Standing) bool { return s.Ready == 2 && s.Failing == "" && s.Since == 0 })
		install(t, file, "echo no such class >&2; exit 3\n")
		b.recycle(&p, "recycle")
		s := b.stands("new ones fail", func(s wire.Standing) bool { return s.Failing != "" })
		if s.Since == 0 || s.Ready != 2 || s.Unready != "" || !strings.Contains(s.Failing, "it ended with exit code 3; it wrote: no such class") {
			t.Errorf("standing %+v", s)
		}
		done := b.run(1, work(mode, "echo works", `print "works\n"`))
		check.Equal(t, string(done.Stdout.Kept), "works\n", "done %+v", done)
		install(t, file, "exec \"$@\"\n")
		b.recycle(&p, "recycle")
		b.stands("new ones are ready", func(s wire.Standing) bool { return s.Ready == 2 && s.Failing == "" && s.Since == 0 })
		note := b.noted("new processes for target mail get ready again")
		check.Equal(t, note.Level, slog.LevelWarn, "noted %+v, where the beginning was a warning", note)
	})
}

// install puts a script in the place of another one at once: one that is open for writing can't be
// executed.
func install(t *testing.T, file, script string) {
	t.Helper()
	must.Do(t, os.WriteFile(file+".new", []byte("#!/bin/sh\n"+script), 0o700))
	must.Do(t, os.Rename(file+".new", file))
}
