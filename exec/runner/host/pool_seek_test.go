package host

import (
	"strings"
	"testing"
	"time"
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
	isFound := func() (found bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, note := range b.notes {
			found = found || strings.Contains(note.Text, "left it behind in the group")
		}
		return found
	}
	for deadline := time.Now().Add(20 * time.Second); !isFound(); more() {
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
