package time

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store/storetest/check"
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
	must.Equal(s.t, len(rows), 1, "there are … rows of job %d", id)
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

// clockServer starts one whose clock can be set.
func clockServer(t *testing.T) *dbserver.Server {
	t.Helper()
	if os.Getenv("JOBD_TEST_MYSQL_ROOT") != "" {
		t.Skip("only MariaDB's clock can be set")
	}
	return startServer(t, dbserver.Options{Clock: true})
}

func startServer(t testing.TB, options dbserver.Options) *dbserver.Server {
	t.Helper()
	server := must.Get(dbserver.Start(context.Background(), options))(t)
	t.Cleanup(func() {
		check.Do(t, server.Close())
	})
	return server
}

func TestMain(m *testing.M) { harness.MainAtOnce(m, 8) } // most of their time they wait for a second to come

// size is a number that depends on the form: TORTURE=long chooses the long one.
func size[N any](short, inLong N) N {
	if os.Getenv("TORTURE") == "long" {
		return inLong
	}
	return short
}

// oracle is the file that tells what was started, and the launcher that writes it.
type oracle struct {
	file     string
	dir      string // of files by which a test steers jobs
	launcher string
}

// newOracle makes a launcher that marks its start in the oracle and does then what the script says, in
// which $1 is the id and $dir the oracle's folder.
func newOracle(t testing.TB, script string) oracle {
	t.Helper()
	dir := t.TempDir()
	o := oracle{file: filepath.Join(dir, "oracle"), dir: dir}
	o.launcher = harness.Script(t, fmt.Sprintf(`dir=%s
echo "$1 ${SITE_WORKER:--} ${JOBD_ATTEMPT:-0} ${JOBD_MAX_ATTEMPTS:-0} ${JOBD_PLANNED:-0} ${JOBD_DEADLINE:-0} ${JOBD_RECOVERED:-0} $$" >> %s
%s`, dir, o.file, script))
	return o
}

// start is one line of the oracle: what a job was told as it was started.
type start struct {
	id                           int64
	worker                       string
	attempt, most                int
	planned, deadline, recovered int64
	pid                          int
}

func (s start) String() string {
	return fmt.Sprintf("{job %d on %s, attempt %d of %d, planned for %d, deadline %d, recovered %d}", s.id, s.worker, s.attempt, s.most, s.planned, s.deadline, s.recovered)
}

// starts are all of them, in their order; of some jobs only where they are named.
func (o oracle) starts(t testing.TB, ids ...int64) (starts []start) {
	t.Helper()
	content, err := os.ReadFile(o.file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	content = content[:bytes.LastIndexByte(content, '\n')+1]
	for line := range strings.Lines(string(content)) {
		var s start
		if _, err := fmt.Sscan(line, &s.id, &s.worker, &s.attempt, &s.most, &s.planned, &s.deadline, &s.recovered, &s.pid); err != nil {
			t.Fatalf("the oracle says %q: %v", line, err)
		}
		if len(ids) == 0 || slices.Contains(ids, s.id) {
			starts = append(starts, s)
		}
	}
	return starts
}

// await waits until there are so many starts of a job.
func (o oracle) await(t testing.TB, id int64, n int) (starts []start) {
	t.Helper()
	harness.Until(t, func() string {
		if starts = o.starts(t, id); len(starts) < n {
			return fmt.Sprintf("job %d was started %d times, not %d", id, len(starts), n)
		}
		return ""
	})
	return starts
}

// touch makes a file in the oracle's folder.
func (o oracle) touch(t testing.TB, name, content string) {
	t.Helper()
	must.Do(t, os.WriteFile(filepath.Join(o.dir, name), []byte(content), 0o644))
}

// killRunning kills what the launcher has left.
func (o oracle) killRunning(t testing.TB) {
	t.Helper()
	for _, s := range o.starts(t) {
		harness.KillJob(o.launcher, s.pid)
	}
}

// A rate holds over all claims of a worker.
func TestRate(t *testing.T) {
	t.Parallel()
	const jobs, rate = 40, 10
	s := newSite(t, "")
	w := s.worker("w1", map[string]int{"a": 8}, harness.Terms("a", harness.Settings{"rate": "10/s"}))
	w.StartWorker(t)
	delay := measureDelay(t)
	s.insertWaiting(1, jobs, "a")
	harness.Dial(t, w.Addr()).Ask(t, "poll", nil)
	s.awaitAll(jobs)
	expectRate(t, begunOf(t, jobs, w), rate, delay())
	s.expectOnce(jobs)
}

// insertWaiting adds n waiting rows of a target, with ids from first on.
func (s *site) insertWaiting(first int64, n int, target string) {
	s.t.Helper()
	rows := make([]timed, n)
	for i := range rows {
		rows[i] = timed{id: first + int64(i), target: target, status: "waiting"}
	}
	s.insert(rows...)
}

// begunOf are the times at which jobs up to an id were about to be started, in order.
func begunOf(t testing.TB, upTo int64, workers ...harness.Settings) (times []time.Time) {
	t.Helper()
	for _, settings := range workers {
		for _, e := range events(t, settings, journal.KindRunning) {
			if e.Job <= upTo {
				times = append(times, e.Time)
			}
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// measureDelay measures, until it is asked, by how much the machine delays somebody who waits for a
// moment and writes a line to the disk: the most there was.
func measureDelay(t *testing.T) (most func() time.Duration) {
	t.Helper()
	const pause = 10 * time.Millisecond
	file := must.Get(os.Create(filepath.Join(t.TempDir(), "delay")))(t)
	var delay atomic.Int64
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			begun := time.Now()
			select {
			case <-time.After(pause):
			case <-stop:
				return
			}
			_, _ = file.WriteString("line\n") // the disk may be full: that takes no time
			_ = file.Sync()
			delay.Store(max(delay.Load(), int64(time.Since(begun)-pause)))
		}
	}()
	t.Cleanup(func() { close(stop); <-ended; file.Close() })
	return func() time.Duration { return time.Duration(delay.Load()) }
}

// expectRate checks that in no stretch of time there were more starts than a bucket of one second's
// worth gives, and what flows into it meanwhile. A start is journalled some time before or behind
// the moment at which its token was taken: a tenth of a second's worth is allowed for that, and what
// the machine delays.
func expectRate(t testing.TB, begun []time.Time, rate float64, delay time.Duration) {
	t.Helper()
	slack := 0.1 + 2*delay.Seconds()
	t.Logf("the machine's delay was %s", delay)
	for i := range begun {
		for j := i; j < len(begun); j++ {
			starts, stretch := float64(j-i+1), begun[j].Sub(begun[i]).Seconds()
			if most := rate + rate*(stretch+slack) + 1; starts > most {
				t.Fatalf("%g starts in %.3f s, where %g/s allows %.1f", starts, stretch, rate, most)
			}
		}
	}
	// It starts with one token, not with a full bucket.
	if n := len(begun); n > int(rate)*2 {
		if took := begun[n-1].Sub(begun[0]).Seconds(); took < (float64(n)-2)/rate-1-2*delay.Seconds() {
			t.Errorf("%d starts took only %.2f s", n, took)
		}
	}
}
