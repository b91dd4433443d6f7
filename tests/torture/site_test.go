package torture

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func TestMain(m *testing.M) { harness.MainAtOnce(m, 6) } // most of their time they wait for a second to come

// site is a database with a table that has all columns about time, and a launcher with its oracle.
type site struct {
	*harness.Database
	t      testing.TB
	oracle harness.Oracle
	jobs   int // how many were inserted by insertWaiting: their ids are 1 to jobs
}

// newSite makes a site on the server that the tests share. The script is what a job does between its marks in
// the oracle.
func newSite(t testing.TB, script string) *site {
	t.Helper()
	return &site{Database: harness.NewDatabase(t, harness.TimesTable), t: t, oracle: harness.NewOracle(t, script)}
}

func newSiteOn(t testing.TB, server *dbserver.Server, script string) *site {
	t.Helper()
	return &site{Database: harness.NewDatabaseOn(t, server, harness.TimesTable), t: t, oracle: harness.NewOracle(t, script)}
}

// worker is the settings of a worker that uses all columns.
func (s *site) worker(name string, targets map[string]int, others ...harness.Settings) harness.Settings {
	settings := s.Worker(s.t, name, s.oracle.Command, targets).
		With(harness.UsesAll, harness.Settings{"launcher.env.SITE_WORKER": name}).With(others...)
	s.oracle.EndWith(s.t, settings)
	return settings
}

// polling makes a worker look for jobs by itself, so that a test needs no clients.
var polling = harness.Settings{"poll_interval": "200ms"}

// timed is a row as the application inserts it, and as it reads it: what a row says about time.
type timed struct {
	id                         int64
	target, status             string
	runAt, plannedAt, attempts int64
	schedule, zone             string // "": NULL
	maxAttempts                int64  // 0: NULL
	uniqueKey                  string // "": NULL
	result, stdout, stderr     string // as they are read
	code                       int    // −1: NULL
	started, finished          int64
}

// String is for test failures.
func (r timed) String() string {
	return fmt.Sprintf("{job %d: %s, run_at %d, planned_at %d, attempts %d, schedule %q, zone %q, result %q, code %d, stderr %.200q}",
		r.id, r.status, r.runAt, r.plannedAt, r.attempts, r.schedule, r.zone, r.result, r.code, r.stderr)
}

// insert adds rows, a thousand in a statement. Their target is a and their status delayed if they don't say.
func (s *site) insert(rows ...timed) {
	s.t.Helper()
	for some := range slices.Chunk(rows, 1000) {
		var values []string
		var args []any
		for _, r := range some {
			if r.target == "" {
				r.target = "a"
			}
			if r.status == "" {
				r.status = "delayed"
			}
			values = append(values, "(?, ?, UNIX_TIMESTAMP(), ?, ?, ?, ?, NULLIF(?, ''), NULLIF(?, ''), NULLIF(?, 0), NULLIF(?, ''))")
			args = append(args, r.id, r.target, r.status, r.runAt, r.plannedAt, r.attempts, r.schedule, r.zone, r.maxAttempts, r.uniqueKey)
		}
		s.Exec(s.t, "INSERT INTO jobs (id, target, time_created, status, run_at, planned_at, attempts, schedule, time_zone, max_attempts, unique_key) VALUES "+
			strings.Join(values, ", "), args...)
	}
}

// insertWaiting adds n waiting rows of a target, under the next ids.
func (s *site) insertWaiting(n int, target string) {
	s.t.Helper()
	rows := make([]timed, n)
	for i := range rows {
		s.jobs++
		rows[i] = timed{id: int64(s.jobs), target: target, status: "waiting"}
	}
	s.insert(rows...)
}

// row reads a row.
func (s *site) row(id int64) timed {
	s.t.Helper()
	rows := s.rows("id = ?", id)
	must.Equal(s.t, len(rows), 1, "there are … rows of job %d", id)
	return rows[0]
}

// rows reads the rows for which a condition holds, in the order of their ids.
func (s *site) rows(where string, args ...any) (rows []timed) {
	s.t.Helper()
	result := must.Get(s.Admin.QueryContext(s.t.Context(), `SELECT id, target, status, run_at, planned_at, attempts, COALESCE(schedule, ''), COALESCE(time_zone, ''),
		COALESCE(max_attempts, 0), COALESCE(unique_key, ''), COALESCE(result, ''), COALESCE(return_code, -1), COALESCE(RIGHT(stdout, 100), ''),
		COALESCE(stderr, ''), time_started, time_finished FROM jobs WHERE `+where+" ORDER BY id", args...))(s.t)
	defer result.Close()
	for result.Next() {
		rows = append(rows, must.Get(scan(result))(s.t))
	}
	must.Do(s.t, result.Err())
	return rows
}

func scan(result *sql.Rows) (r timed, err error) {
	return r, result.Scan(&r.id, &r.target, &r.status, &r.runAt, &r.plannedAt, &r.attempts, &r.schedule, &r.zone, &r.maxAttempts,
		&r.uniqueKey, &r.result, &r.code, &r.stdout, &r.stderr, &r.started, &r.finished)
}

// now is what the server's clock says.
func (s *site) now() (now int64) {
	s.t.Helper()
	must.Do(s.t, s.Admin.QueryRowContext(s.t.Context(), "SELECT UNIX_TIMESTAMP()").Scan(&now))
	return now
}

// await waits until a row is as a condition wants it, and gives it.
func (s *site) await(id int64, what string, is func(timed) bool) (row timed) {
	s.t.Helper()
	harness.Until(s.t, func() string {
		if row = s.row(id); !is(row) {
			return fmt.Sprintf("%s is not %s", row, what)
		}
		return ""
	})
	return row
}

func (s *site) awaitStatus(id int64, status string) timed {
	s.t.Helper()
	return s.await(id, status, func(r timed) bool { return r.status == status })
}

// awaitAll waits until at least so many rows are done; as long as there are more and more of them it has patience.
func (s *site) awaitAll(n int) {
	s.t.Helper()
	for before := -1; before < n; {
		harness.Until(s.t, func() string {
			if done := s.Count(s.t, "status = 'done'"); done > before {
				before = done
				return ""
			}
			return fmt.Sprintf("%d of %d rows are done; others: %.2000v", before, n, s.rows("status <> 'done'"))
		})
	}
}

// expectNotBefore checks that no row says that it was started before it was due. The machine's clock is
// the server's.
func (s *site) expectNotBefore() {
	s.t.Helper()
	for _, r := range s.rows("status = 'done' AND time_started < run_at") {
		s.t.Errorf("%s was started at %d", r, r.started)
	}
}

// audit compares table, oracle and journals when all is over: each of the waiting rows is done, as its job
// ended or, of at most so many, as unknown; none was started twice in one attempt, and the journals verify.
func (s *site) audit(unknown int, workers ...harness.Settings) {
	s.t.Helper()
	ended := s.oracle.Ended(s.t)
	rows := s.rows("TRUE")
	check.Equal(s.t, len(rows), s.jobs, "the table has … rows, and had")
	for i, r := range rows {
		must.Equal(s.t, r.id, int64(i+1), "row … of the table is job …: rows came or went")
		switch {
		case r.status != "done":
			s.t.Errorf("%s is not at its end", r)
		case r.result == "fail" && r.code == -1 && strings.Contains(r.stderr, "outcome unknown"):
			unknown--
		case r.result != "ok" || r.code != 0 || r.stdout != fmt.Sprintf("out %d\n", r.id) || r.started == 0 || r.finished < r.started:
			s.t.Errorf("%s, stdout %q, started at %d, finished at %d", r, r.stdout, r.started, r.finished)
		case !ended[r.id]:
			s.t.Errorf("%s was never run to its end", r)
		}
	}
	if unknown < 0 {
		s.t.Errorf("%d outcomes more are unknown than can be", -unknown)
	}
	attempts := map[[2]int64]bool{}
	for _, begun := range s.oracle.Starts(s.t) {
		attempt := [2]int64{begun.Job, int64(begun.Attempt)}
		if attempts[attempt] {
			s.t.Errorf("%s was started before in that attempt", begun)
		}
		attempts[attempt] = true
	}
	for _, worker := range workers {
		harness.VerifyJournal(s.t, worker)
		s.compareProcesses(worker)
	}
}

// compareProcesses checks that the journal names no other processes than the oracle.
func (s *site) compareProcesses(worker harness.Settings) {
	s.t.Helper()
	pids := map[[2]int64][]int{}
	for _, begun := range s.oracle.Starts(s.t) {
		attempt := [2]int64{begun.Job, int64(begun.Attempt)}
		pids[attempt] = append(pids[attempt], begun.Pid)
	}
	attempts := map[int64]int64{}
	for _, e := range harness.Events(s.t, worker, journal.KindRunning, journal.KindStarted) {
		switch p := e.Payload.(type) {
		case journal.Running:
			attempts[e.Job] = int64(p.Attempt)
		case journal.Started:
			if known := pids[[2]int64{e.Job, attempts[e.Job]}]; len(known) > 0 && !slices.Contains(known, p.Pid) {
				s.t.Errorf("job %d: the journal knows process %d, the oracle %d", e.Job, p.Pid, known)
			}
		}
	}
}

// poll has a worker look for rows.
func poll(t testing.TB, d *harness.Daemon) {
	t.Helper()
	client := harness.Dial(t, d.Addr)
	defer client.Close()
	var answer string
	client.Ask(t, "poll", nil).Decode(t, &answer)
}
