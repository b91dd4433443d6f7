package torture

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/store/storetest/dbserver"
	"jobd/tests/harness"
)

// site is a database, a launcher with its oracle, and the configuration of a worker.
type site struct {
	*harness.Database
	oracle   oracle
	settings harness.Settings
	config   string // the configuration file, once it is written
	jobs     int    // how many there are in the table: their ids are 1 to jobs
}

// newSite makes a site on the shared server. The job's script is what the launcher does
// between its marks in the oracle, see newOracle.
func newSite(t *testing.T, script string, targets map[string]int, settings ...harness.Settings) *site {
	t.Helper()
	return newSiteOn(t, suite.server, script, targets, settings...)
}

func newSiteOn(t *testing.T, server *dbserver.Server, script string, targets map[string]int, settings ...harness.Settings) *site {
	t.Helper()
	s := &site{Database: harness.NewDatabaseOn(t, server), oracle: newOracle(t, script)}
	s.settings = s.worker(t, "worker").With(harness.Targets(targets)).With(settings...)
	return s
}

// worker is the settings of one more worker of the site.
func (s *site) worker(t *testing.T, name string) harness.Settings {
	settings := s.Worker(t, name, s.oracle.launcher+" {id}", nil)
	t.Cleanup(func() {
		if pid := harness.RunnerOf(settings["journal_dir"]); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be ending by itself
		}
		s.oracle.killRunning(t)
	})
	return settings
}

// insert adds n waiting jobs of a target, under the next ids.
func (s *site) insert(t *testing.T, n int, target string) {
	t.Helper()
	for n > 0 {
		batch := min(n, 1000)
		rows := make([]string, batch)
		for i := range rows {
			s.jobs++
			rows[i] = fmt.Sprintf("(%d, '%s', UNIX_TIMESTAMP(), 'waiting')", s.jobs, target)
		}
		s.Exec(t, "INSERT INTO jobs (id, target, time_created, status) VALUES "+strings.Join(rows, ", "))
		n -= batch
	}
}

// launch starts the site's worker and waits for nothing; program is jobd, or armed.
func (s *site) launch(t *testing.T, program string) *harness.Daemon {
	t.Helper()
	if s.config == "" {
		s.config = s.settings.Write(t)
	}
	return harness.Launch(t, program, s.config, s.settings.Addr())
}

// start starts the site's worker and tells how long it took until it answered.
func (s *site) start(t *testing.T) (*harness.Daemon, time.Duration) {
	t.Helper()
	harness.Program(t, "jobd") // building it is not part of the time
	begun := time.Now()
	worker := s.launch(t, "jobd").Ready(t)
	return worker, time.Since(begun)
}

// awaitDone waits until all jobs are done; as long as there are more and more of them it
// has patience.
func (s *site) awaitDone(t *testing.T) {
	t.Helper()
	for before := -1; ; {
		done := s.Count(t, "status = 'done'")
		if done == s.jobs {
			return
		}
		if done == before {
			t.Fatalf("no progress for %s: %d of %d jobs are done; the others:\n%s", patience, done, s.jobs, s.undone(t))
		}
		before = done
		await(func() bool { return s.Count(t, "status = 'done'") > before })
	}
}

// undone describes some of the rows that are not at their end.
func (s *site) undone(t *testing.T) string {
	var text strings.Builder
	rows, err := s.Admin.QueryContext(t.Context(), "SELECT id, status, COALESCE(sig, '') FROM jobs WHERE status <> 'done' ORDER BY id LIMIT 20")
	if err != nil {
		return err.Error()
	}
	defer rows.Close()
	for rows.Next() {
		var id, status, sig string
		if err := rows.Scan(&id, &status, &sig); err != nil {
			return err.Error()
		}
		fmt.Fprintf(&text, "  job %s: %s, owner %q\n", id, status, sig)
	}
	return text.String()
}

// patience is how long nothing may happen.
const patience = 2 * time.Minute

// await waits until a condition holds; it gives up when patience is over.
func await(condition func() bool) bool {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !condition() {
		select {
		case <-again.C:
		case <-deadline.C:
			return condition()
		}
	}
	return true
}
