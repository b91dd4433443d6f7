package torture

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"jobd/tests/harness"
)

// Several workers share targets and are killed at random, one after the other: what one has claimed
// no other starts.
func TestWorkersKilledOnSharedTargets(t *testing.T) {
	t.Parallel()
	targets := map[string]int{"a": 2, "b": 2}
	s := newSite(t, shortJob, targets, polling)
	for i := range size(400, 4000) {
		s.insert(t, 1, string(rune('a'+i%2)))
	}
	type member struct {
		settings harness.Settings
		config   string
		daemon   *harness.Daemon
	}
	var members []*member
	var journals []string
	for i := range 4 {
		settings := s.worker(t, fmt.Sprintf("worker-%d", i)).With(harness.Targets(targets), polling)
		m := &member{settings: settings, config: settings.Write(t)}
		m.daemon = harness.Launch(t, "jobd", m.config, settings.Addr())
		members, journals = append(members, m), append(journals, settings["journal_dir"])
	}
	kills := size(12, 200)
	for i := range kills {
		m := members[i%len(members)]
		<-atRandom(100 * time.Millisecond)
		m.daemon.Kill(t)
		m.daemon = harness.Launch(t, "jobd", m.config, m.settings.Addr())
	}
	s.awaitDone(t)
	for _, m := range members {
		m.daemon.Ready(t) // its journal is whole
	}
	suite.matrix.add(line{fault: "6 workers on shared targets killed in turn", runs: kills, tally: s.known(t, journals...)})
}

// Jobs that clients wait for: the worker is killed while they are claimed and run. What was claimed runs once;
// what was not is still there to be asked for.
func TestKilledWhileClientsWait(t *testing.T) {
	t.Parallel()
	s := newSite(t, shortJob, map[string]int{"a": 8})
	s.insert(t, size(100, 1000), "a")
	s.Exec(t, "UPDATE jobs SET status = 'manual'")
	kills := 0
	for s.Count(t, "status = 'manual'") > 0 {
		worker, _ := s.start(t)
		for i := range s.jobs {
			client := harness.Dial(t, worker.Addr)
			client.Request(t, "run-manual", map[string]any{"ids": []int{i + 1}})
			if i%20 == 19 && kills < size(5, 50) {
				break
			}
		}
		<-atRandom(100 * time.Millisecond)
		if kills < size(5, 50) {
			worker.Kill(t)
			kills++
		} else {
			await(func() bool { return s.Count(t, "status = 'manual'") == 0 })
		}
	}
	if kills == size(5, 50) {
		s.awaitDone(t)
	}
	suite.matrix.add(line{fault: "2 worker killed, clients waiting", runs: kills, tally: s.known(t)})
}

// With launch_offline = run jobs start while the database is away; the worker is killed then, and comes back
// before the database does.
func TestKilledWhileLaunchingOffline(t *testing.T) {
	t.Parallel()
	s := newSite(t, shortJob, map[string]int{"a": 4}, polling, harness.Settings{"launch_offline": "run", "prefetch": "40"})
	link := newLink(t, s)
	s.settings = s.settings.With(link.settings())
	kills := size(4, 50)
	for range kills {
		worker, _ := s.start(t)
		s.insert(t, 40, "a")
		awaitProgress(t, s, s.jobs-36)
		link.Stop()
		<-atRandom(100 * time.Millisecond)
		worker.Kill(t)
		worker, _ = s.start(t)
		<-atRandom(100 * time.Millisecond)
		link.up(t)
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
