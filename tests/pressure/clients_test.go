package pressure

import (
	"fmt"
	"syscall"
	"testing"

	"jobd/tests/harness"
)

// One client wants more jobs run by hand than a worker does in a minute: they cost it little each, go
// on without the client, and what was not started is given back when the worker stops.
func TestManyManualJobsOfOneClient(t *testing.T) {
	t.Parallel()
	const jobs, bytesEach = 30_000, 2 << 10
	s := newSite(t)
	s.InsertMany(t, jobs, "a", "manual")
	w := s.start("asked", s.gated(), map[string]int{"a": 2})
	w.client.Ask(t, "pause", nil)
	memory := w.own()
	ids := make([]int, jobs)
	for i := range ids {
		ids[i] = i + 1
	}
	client := harness.Dial(t, w.Addr)
	client.Request(t, "run-manual", map[string]any{"ids": ids})
	w.awaitLength(jobs)
	atMost(t, "clients' jobs", w.status().Clients, jobs)
	t.Logf("%d bytes more for each", (w.own()-memory)/jobs)
	atMost(t, "bytes more in memory", w.own()-memory, jobs*bytesEach)
	client.Close()
	harness.Until(t, func() string {
		if n := w.status().Clients; n != 0 {
			return fmt.Sprintf("%d jobs have a client still, which is gone", n)
		}
		return ""
	})
	w.Signal(t, syscall.SIGTERM)
	if code := w.ExitCode(t); code != 0 {
		t.Errorf("exit code %d:\n%s", code, w.Output())
	}
	harness.Launch(t, "jobd", w.Config, w.Addr).Ready(t) // what the stop had no time to write, the next start does
	s.AwaitCount(t, jobs, "status = 'manual' AND sig IS NULL")
}
