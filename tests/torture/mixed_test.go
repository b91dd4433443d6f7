package torture

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"jobd/tests/harness"
)

// With launch_offline = run jobs start while the database is away; the worker is killed then, and comes back
// before the database does.
func TestKilledWhileLaunchingOffline(t *testing.T) {
	t.Parallel()
	s := newSite(t, shortJob, map[string]int{"a": 4}, polling, harness.Settings{"launch_offline": "run", "prefetch": "40"})
	link := harness.NewLink(t, s.Addr)
	s.settings = s.settings.With(link.ToDatabase())
	kills := size(4, 50)
	for range kills {
		worker, _ := s.start(t)
		s.insert(t, 40, "a")
		awaitProgress(t, s, s.jobs-36)
		link.Away()
		<-atRandom(100 * time.Millisecond)
		worker.Kill(t)
		worker, _ = s.start(t)
		<-atRandom(100 * time.Millisecond)
		link.Back()
		s.awaitDone(t)
		worker.Kill(t)
	}
	suite.matrix.add(line{fault: "4 killed while launching offline", runs: kills, tally: s.known(t)})
}

// A job that kills its worker, and the runner with it, does not do so for ever.
func TestAJobThatKillsItsWorker(t *testing.T) {
	t.Parallel()
	cases := []struct {
		onCrash string
		starts  int
		says    string
	}{
		{"fail", 1, "outcome unknown"},
		{"requeue", 3, "attempt 3 of 3"},
	}
	for _, c := range cases {
		t.Run(c.onCrash, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, `while [ ! -s $gate.worker ]; do sleep 0.01; done; kill -9 $(cat $gate.worker) $PPID; sleep 1`, map[string]int{"a": 1}, harness.Settings{"on_crash": c.onCrash})
			for range c.starts {
				s.writeWorker(t, nil)
				worker := s.launch(t, "jobd")
				if s.jobs == 0 {
					client := harness.Dial(t, worker.Ready(t).Addr)
					s.insert(t, 1, "a")
					client.Ask(t, "poll", nil)
				}
				s.writeWorker(t, fmt.Append(nil, worker.Pid)) // from here on it may be gone
				worker.ExitCode(t)
			}
			s.start(t)
			row := s.AwaitDone(t, 1)
			if !strings.Contains(harness.Text(row.Stderr), c.says) {
				t.Errorf("the row does not say %q: %s", c.says, row)
			}
			if started := s.oracle.read(t).starts; len(started) != c.starts {
				t.Errorf("it was started %d times, want %d: %v", len(started), c.starts, started)
			}
			suite.matrix.add(line{fault: "2 a job kills its worker, on_crash = " + c.onCrash, runs: c.starts, tally: s.audit(t)})
		})
	}
}

// writeWorker writes the file in which a job finds its worker's process id.
func (s *site) writeWorker(t *testing.T, pid []byte) {
	t.Helper()
	if err := os.WriteFile(s.oracle.gate+".worker", pid, 0o600); err != nil {
		t.Fatal(err)
	}
}
