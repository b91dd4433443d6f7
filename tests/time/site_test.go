package time

import (
	"database/sql"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// site is a database with a table that has all columns about time, and a launcher with its oracle.
type site struct {
	*harness.Database
	t      testing.TB
	oracle oracle
}

// newSite makes a site on the server that the tests share. The script is what a job does behind its mark
// in the oracle, see newOracle.
func newSite(t testing.TB, script string) *site {
	t.Helper()
	return &site{harness.NewDatabase(t, harness.TimesTable), t, newOracle(t, script)}
}

func newSiteOn(t testing.TB, server *dbserver.Server, script string) *site {
	t.Helper()
	return &site{harness.NewDatabaseOn(t, server, harness.TimesTable), t, newOracle(t, script)}
}

// worker is the settings of a worker that uses all columns.
func (s *site) worker(name string, targets map[string]int, others ...harness.Settings) harness.Settings {
	settings := s.Worker(s.t, name, s.oracle.launcher+" {id}", targets).
		With(harness.UsesAll, harness.Settings{"launcher.env.SITE_WORKER": name}).With(others...)
	s.t.Cleanup(func() { s.endRunner(settings) })
	return settings
}

// endRunner kills a worker's runner, and what the launcher has left.
func (s *site) endRunner(settings harness.Settings) {
	if pid := harness.RunnerOf(settings["journal_dir"]); pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may be ending by itself
	}
	s.oracle.killRunning(s.t)
}

// timed is a row as the application inserts it, and as it reads it: what a row says about time.
type timed struct {
	id                             int64
	target, status                 string
	runAt, plannedAt, attempts     int64
	schedule, zone                 string // "": NULL
	maxAttempts, timeout, priority int64  // 0: NULL, but for the priority
	uniqueKey                      string // "": NULL
	result, stderr                 string // as they are read
	code                           int    // −1: NULL
	started                        int64
}

// String is for test failures.
func (r timed) String() string {
	return fmt.Sprintf("{job %d: %s, run_at %d, planned_at %d, attempts %d, schedule %q, zone %q, result %q, code %d, stderr %.200q}",
		r.id, r.status, r.runAt, r.plannedAt, r.attempts, r.schedule, r.zone, r.result, r.code, r.stderr)
}

// insert adds rows in one statement. Their target is a and their status delayed if they don't say.
func (s *site) insert(rows ...timed) {
	s.t.Helper()
	for start := 0; start < len(rows); start += 1000 {
		s.insertSome(rows[start:min(start+1000, len(rows))])
	}
}

func (s *site) insertSome(rows []timed) {
	s.t.Helper()
	var values []string
	var args []any
	for _, r := range rows {
		if r.target == "" {
			r.target = "a"
		}
		if r.status == "" {
			r.status = "delayed"
		}
		values = append(values, "(?, ?, UNIX_TIMESTAMP(), ?, ?, ?, ?, NULLIF(?, ''), NULLIF(?, ''), NULLIF(?, 0), NULLIF(?, 0), ?, NULLIF(?, ''))")
		args = append(args, r.id, r.target, r.status, r.runAt, r.plannedAt, r.attempts, r.schedule, r.zone, r.maxAttempts, r.timeout, r.priority, r.uniqueKey)
	}
	s.Exec(s.t, "INSERT INTO jobs (id, target, time_created, status, run_at, planned_at, attempts, schedule, time_zone, max_attempts, timeout, priority, unique_key) VALUES "+
		strings.Join(values, ", "), args...)
}

// row reads a row.
func (s *site) row(id int64) timed {
	s.t.Helper()
	rows := s.rows("id = ?", id)
	if len(rows) != 1 {
		s.t.Fatalf("there are %d rows of job %d", len(rows), id)
	}
	return rows[0]
}

// rows reads the rows for which a condition holds, in the order of their ids.
func (s *site) rows(where string, args ...any) (rows []timed) {
	s.t.Helper()
	result := must.Get(s.Admin.QueryContext(s.t.Context(), `SELECT id, target, status, run_at, planned_at, attempts, COALESCE(schedule, ''), COALESCE(time_zone, ''),
		COALESCE(max_attempts, 0), COALESCE(timeout, 0), priority, COALESCE(unique_key, ''), COALESCE(result, ''), COALESCE(return_code, -1),
		COALESCE(stderr, ''), time_started FROM jobs WHERE `+where+" ORDER BY id", args...))(s.t)
	defer result.Close()
	for result.Next() {
		r := must.Get(scan(result))(s.t)
		rows = append(rows, r)
	}
	must.Do(s.t, result.Err())
	return rows
}

func scan(result *sql.Rows) (r timed, err error) {
	return r, result.Scan(&r.id, &r.target, &r.status, &r.runAt, &r.plannedAt, &r.attempts, &r.schedule, &r.zone, &r.maxAttempts, &r.timeout,
		&r.priority, &r.uniqueKey, &r.result, &r.code, &r.stderr, &r.started)
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

// poll has a worker look for rows.
func poll(t testing.TB, d *harness.Daemon) {
	t.Helper()
	client := harness.Dial(t, d.Addr)
	defer client.Close()
	var answer string
	client.Ask(t, "poll", nil).Decode(t, &answer)
}

// idle waits until the worker has nothing under way, and its table shows all that its journal has.
func idle(t testing.TB, d *harness.Daemon) {
	t.Helper()
	client := harness.Dial(t, d.Addr)
	defer client.Close()
	harness.Until(t, func() string {
		var status struct {
			Targets map[string]struct{ Length, Running int }
			Journal struct{ Events, Mirrored uint64 }
		}
		client.Ask(t, "status", nil).Decode(t, &status)
		if status.Journal.Events != status.Journal.Mirrored {
			return fmt.Sprintf("the table is behind the journal: %+v", status)
		}
		return ""
	})
}
