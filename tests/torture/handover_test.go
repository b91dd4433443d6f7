package torture

import (
	"syscall"
	"testing"
	"time"

	"jobd/tests/harness"
)

// A worker under load is told to hand over, again and again, to another program each time: no job is
// interrupted, lost or doubled.
func TestHandover(t *testing.T) {
	t.Parallel()
	harness.Armed(t)
	s := newSite(t, shortJob, map[string]int{"a": 8}, harness.Settings{"on_stop": "handover"})
	s.insert(t, size(600, 10_000), "a")
	programs := []string{"jobd", armed}
	times, up := size(8, 100), []time.Duration{}
	for i := range times {
		begun := time.Now()
		worker := s.launch(t, programs[i%2]).Ready(t)
		up = append(up, time.Since(begun))
		<-atRandom(200 * time.Millisecond)
		worker.Signal(t, syscall.SIGTERM)
		if code := worker.ExitCode(t); code != 0 {
			t.Fatalf("exit code %d on handover", code)
		}
	}
	s.start(t)
	s.awaitDone(t)
	suite.matrix.add(line{fault: "3 handed over to another program", runs: times, tally: s.known(t), up: up})
}
