package pressure

import (
	"fmt"
	"syscall"
	"testing"

	"jobd/tests/harness"
)

// The worker stands still while its jobs end, each with much more output than is kept: the runner keeps one
// outcome a slot, within the limit, and nothing else of the jobs, until the worker asks for them.
func TestRunnerKeepsOutcomesOfAWorkerThatStandsStill(t *testing.T) {
	t.Parallel()
	const slots, written, kept = 8, 16 << 20, 1 << 20
	s := newSite(t)
	s.InsertMany(t, 1000, "a", "waiting")
	launcher := harness.Script(t, fmt.Sprintf("while [ ! -e %s ]; do sleep 0.2; done; head -c %d /dev/zero", s.gate, written))
	w := s.start("still", launcher+" {id}", map[string]int{"a": slots}, harness.Settings{"prefetch": "0"})
	runner := w.Runner(t)
	before := descriptors(t, runner)
	s.AwaitCount(t, slots, "status = 'running'")
	memory := harness.Memory(t, runner)
	w.Signal(t, syscall.SIGSTOP)
	s.open()
	harness.Until(t, func() string {
		if now := descriptors(t, runner); now > before {
			return fmt.Sprintf("the runner has %d files open, and had %d before the jobs", now, before)
		}
		return ""
	})
	atMost(t, "bytes of outcomes in the runner", harness.Memory(t, runner)-memory, 2*slots*kept)
	atMost(t, "rows claimed", s.held(), slots)
	w.Signal(t, syscall.SIGCONT)
	s.awaitDone(slots + 1)
	if wrong := s.Count(t, "status = 'done' AND (result <> 'ok' OR LENGTH(stdout) < ?)", kept); wrong > 0 {
		t.Errorf("%d outcomes are not what the jobs wrote", wrong)
	}
	s.ignoreRest()
}
