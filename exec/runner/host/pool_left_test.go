package host

import "testing"

// Regression: what a job leaves behind is killed, but may complete a write into the pipes by which the
// next job's output comes: up to 64 KiB of it was in the rows of other jobs.
func TestWhatAJobLeavesBehindWritesIntoNoOthersOutput(t *testing.T) {
	t.Parallel()
	leaving := map[string]string{
		"pool": `DO=yes left & disown; read -t 0.02 <> <(:); echo own`,
		"fork": `DO=if (!fork) { exec "yes", "left" } select undef, undef, undef, 0.02; print "own\n"`,
	}
	next := map[string]string{"pool": "DO=echo next", "fork": `DO=print "next\n"`}
	for mode := range leaving {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.pools(pooled(mode, 1))
			for job := int64(1); job <= 10; job += 2 {
				if done := b.run(job, leaving[mode]); done.Result != "ok" {
					t.Fatalf("job %d: %+v", job, done)
				}
				if done := b.run(job+1, next[mode]); done.Result != "ok" || string(done.Stdout.Kept) != "next\n" || done.Stdout.Size != 5 {
					t.Fatalf("job %d: %s, %d bytes: %.40q", job+1, done.Result, done.Stdout.Size, done.Stdout.Kept)
				}
			}
		})
	}
}
