package host

import (
	"slices"
	"strings"
	"testing"
	"time"

	"jobd/exec/runner/wire"
)

// Regression: it was looked for a child of a child only where a process was idle when the clock
// ticked. One that always has a job was so for years, and its jobs had the output of what the first
// one had left behind.
func TestWhatAJobLeavesBehindIsFoundUnderLoad(t *testing.T) {
	t.Parallel()
	b := newBenchWith(t, func(ps *pools) { ps.times.tick = 20 * time.Millisecond })
	b.pools(pooled("pool", 2))
	const waiting = 6 // so that no process is ever idle
	for job := int64(1); job <= waiting; job++ {
		b.start(job, `DO=test $id = 1 && (while :; do echo stray; read -t 0.01 <> <(:); done & ) ; read -t 0.01 <> <(:); echo own`)
	}
	job := int64(waiting)
	more := func() string {
		job++
		b.start(job, `DO=read -t 0.01 <> <(:); echo own`)
		return string(b.done(job - waiting).Stdout.Kept)
	}
	for deadline := time.Now().Add(20 * time.Second); !b.hasFoundWhatIsLeft(); more() {
		if time.Now().After(deadline) {
			t.Fatal("it is not found")
		}
	}
	for range 2 * waiting { // those were under way, or had their output already
		more()
	}
	for range 20 {
		if out := more(); out != "own\n" {
			t.Fatalf("job %d has %q", job, out)
		}
	}
}

// What writes between two jobs is looked for at once, and not when the clock ticks next.
func TestWhatWritesBetweenJobsIsLookedForAtOnce(t *testing.T) {
	t.Parallel()
	b := newBenchWith(t, func(ps *pools) { ps.times.tick = time.Hour })
	b.pools(pooled("pool", 1))
	b.run(1, `DO=(while :; do echo stray; read -t 0.002 <> <(:); done & )`)
	b.inReactor(func(ps *pools) {
		for _, k := range ps.kept {
			k.soughtAt -= int64(2 * ps.times.tick) // as long ago as it has to be
		}
	})
	job := int64(1)
	for deadline := time.Now().Add(20 * time.Second); !b.hasFoundWhatIsLeft(); b.run(job, "DO=read -t 0.01 <> <(:)") {
		if job++; time.Now().After(deadline) {
			t.Fatal("it is not found")
		}
	}
	if done := b.run(job+1, "DO=echo own"); string(done.Stdout.Kept) != "own\n" {
		t.Errorf("the job has %q", done.Stdout.Kept)
	}
}

// hasFoundWhatIsLeft tells whether something was found that a job has left behind.
func (b *bench) hasFoundWhatIsLeft() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.notes, func(note wire.Note) bool {
		return strings.Contains(note.Text, "left it behind in the group")
	})
}
