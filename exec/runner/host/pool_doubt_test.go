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
		if delay := ps.find("mail").delay; delay > 2*leastDelay {
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
