package host

import (
	"strings"
	"testing"
	"time"

	"jobd/exec/runner/wire"
)

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
		if delay := ps.byTarget["mail"].delay; delay > 2*leastDelay {
			t.Errorf("the next one is started after %s", time.Duration(delay))
		}
	})
	b.noted("a process for target mail gets ready, and does no job: it ended with exit code 7 before it had done any job; it wrote: no such function")
	b.stands("one is ready", func(s wire.Standing) bool { return s.Unready == "" && s.Ready > 0 })
	for job := int64(101); job <= 110; job++ {
		b.start(job)
	}
	if lost := b.ends(101, 110); lost != 1 {
		t.Errorf("%d jobs are lost when it is tried again", lost)
	}
	b.stands("it is of no use", func(s wire.Standing) bool { return s.Unready != "" })
	p.Argv = good
	b.pools(p)
	b.stands("one is ready", func(s wire.Standing) bool { return s.Unready == "" && s.Ready > 0 })
	if done := b.run(1001, "DO=echo works"); string(done.Stdout.Kept) != "works\n" {
		t.Errorf("done %+v", done)
	}
	b.stands("all are ready", func(s wire.Standing) bool { return s.Ready == 4 && s.Since == 0 })
}

// Regression: no process was tried while one of before had a job, however long.
func TestAJobThatLastsHoldsUpNoTry(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.pools(pooled("pool", 2))
	b.stands("all are ready", func(s wire.Standing) bool { return s.Ready == 2 })
	at := gate(t)
	b.start(1, "DO=read line <"+at)
	b.of(1, wire.Started)
	b.inReactor(func(ps *pools) {
		ps.byTarget["mail"].useless = 2
		ps.byTarget["mail"].endUntried()
	})
	if done := b.run(2, "DO=echo works"); string(done.Stdout.Kept) != "works\n" {
		t.Errorf("done %+v", done)
	}
	openGate(t, at)
	b.done(1)
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

// A launcher that was written for another mode is called so.
func TestALauncherForAnotherModeIsNamed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ mode, launcher, want string }{
		{"pool", "fork", "so answers a launcher for fork, and launcher_mode is pool"},
		{"fork", "pool", "so answers a launcher for pool, and launcher_mode is fork"},
	} {
		t.Run(test.launcher+" as "+test.mode, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			p := pooled(test.mode, 1)
			p.Argv = pooled(test.launcher, 1).Argv
			b.pools(p)
			b.start(1, "DO=true")
			b.noted(test.want)
		})
	}
}

// A launcher that does not get ready at one of its tries is doubted still: it has shown nothing better.
func TestALauncherStaysInDoubtThatDoesNotGetReady(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.pools(pooled("pool", 1))
	b.stands("it is ready", func(s wire.Standing) bool { return s.Ready == 1 })
	b.inReactor(func(ps *pools) {
		p := ps.byTarget["mail"]
		for useless, want := range map[int]bool{1: false, 2: true} {
			if p.useless = useless; p.isDoubted() != want {
				t.Errorf("after %d it is doubted: %t", useless, !want)
			}
			if p.fails(nil, notReady, "no database"); p.isDoubted() != want {
				t.Errorf("after %d, and one that did not get ready, it is doubted: %t", useless, !want)
			}
		}
	})
	b.stands("it is tried", func(s wire.Standing) bool { return s.Ready == 1 && s.Boots == 2 && s.Unready == "" })
	if done := b.run(1, "DO=true"); done.Result != "ok" {
		t.Errorf("done %+v", done)
	}
	b.inReactor(func(ps *pools) {
		if p := ps.byTarget["mail"]; p.isDoubted() || p.delay != 0 {
			t.Errorf("it has started a job, and is doubted: %t, waits %s", p.isDoubted(), time.Duration(p.delay))
		}
	})
}

// Regression: what was known of the launcher before was said of another one: since when it fails, and
// that it loads slowly.
func TestAnotherLauncherIsToldOfByItself(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := pooled("pool", 1)
	good := p.Argv
	p.Argv = []string{"/bin/sh", "-c", "echo the first >&2; exit 1"}
	b.pools(p)
	first := b.stands("it fails", func(s wire.Standing) bool { return strings.Contains(s.Unready, "the first") })
	b.inReactor(func(ps *pools) {
		ps.byTarget["mail"].failed = first.Since - 5000 // it has failed for a while
	})
	p.Argv = []string{"/bin/sh", "-c", "echo the second >&2; exit 1"}
	b.pools(p)
	second := b.stands("the other one fails", func(s wire.Standing) bool { return strings.Contains(s.Unready, "the second") })
	if second.Since < first.Since {
		t.Errorf("it fails since %d, and the one before did since %d", second.Since, first.Since)
	}
	b.inReactor(func(ps *pools) {
		was := ps.byTarget["mail"]
		def := was.def
		def.Argv, was.slow = good, true
		if was.define(def); was.slow {
			t.Error("it is slow, as the one before was")
		}
	})
	b.stands("it is ready", func(s wire.Standing) bool { return s.Ready == 1 && s.Since == 0 })
}
