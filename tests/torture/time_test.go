package torture

import (
	"fmt"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the application's driver

	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// wideTable is one whose columns can hold what makes no sense.
var wideTable = strings.NewReplacer(
	"`run_at` int(10) UNSIGNED", "`run_at` bigint UNSIGNED", "`planned_at` int(10) UNSIGNED", "`planned_at` bigint UNSIGNED",
	"`attempts` smallint UNSIGNED", "`attempts` smallint", "`max_attempts` smallint UNSIGNED", "`max_attempts` smallint",
).Replace(harness.TimesTable)

// Rows that say what can't be are ignored, and say why; all others run. (What all can't be, exec/board tests.)
func TestRowsThatSayWhatCannotBe(t *testing.T) {
	t.Parallel()
	s := &site{Database: harness.NewDatabase(t, wideTable), t: t, oracle: harness.NewOracle(t, "")}
	at := s.now()
	cases := []struct {
		row  timed
		want []string // in stderr
	}{
		{timed{schedule: "daily"}, []string{"daily", "02:30"}},
		{timed{schedule: "daily 02:30", zone: "Mars/Olympus"}, []string{"Mars/Olympus"}},
		{timed{runAt: at * 1000}, []string{fmt.Sprint(at * 1000), fmt.Sprint(at), "milliseconds"}},
		{timed{runAt: at, attempts: -1}, []string{"attempts = -1"}},
		{timed{status: "waiting", attempts: -1}, []string{"attempts = -1"}},
	}
	for i := range cases {
		cases[i].row.id, cases[i].row.uniqueKey = int64(i+1), fmt.Sprint("key ", i)
		s.insert(cases[i].row)
	}
	good := int64(len(cases) + 1)
	s.insert(timed{id: good, runAt: at}, timed{id: good + 1, status: "waiting"})
	worker := s.worker("w1", map[string]int{"a": 1}).StartWorker(t)
	s.awaitStatus(good, "done")
	s.awaitStatus(good+1, "done")
	for _, c := range cases {
		row := s.awaitStatus(c.row.id, "ignored")
		for _, want := range c.want {
			check.Contains(t, row.stderr, want, "is not told in %s", row)
		}
		check.Equal(t, row.uniqueKey, "", "%s keeps its unique key", row)
		t.Logf("%s", row.stderr)
	}
	starts := s.oracle.Starts(t)
	check.Equal(t, len(starts), 2, "started: %s", starts)

	// Somebody has to mend them: why tells the reason. Nothing sets them back together.
	check.Contains(t, mustJobctl(t, worker, "why", "2"), "Mars/Olympus", "why")
	if list := mustJobctl(t, worker, "retry", "--failed", "--dry-run"); strings.Contains(list, "daily") {
		t.Errorf("retry --failed would set back\n%s", list)
	}
}

// awaitTime waits until the server's clock says a time.
func (s *site) awaitTime(at int64) {
	s.t.Helper()
	harness.Until(s.t, func() string {
		if now := s.now(); now < at {
			return fmt.Sprintf("it is %d, not %d", now, at)
		}
		return ""
	})
}

// The database is away over planned times. With missed = once the run that was missed is made up for,
// once, and knows for when it was planned; with skip it waits for the next time. Nothing is run for the others that
// have passed. What does not recur, and what is tried again, is never missed.
func TestDatabaseAwayOverPlannedTimes(t *testing.T) {
	t.Parallel()
	const period = 2
	for _, missed := range []string{"once", "skip"} {
		t.Run(missed, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, `[ $id != 3 ] || exit 1`)
			way := harness.NewLink(t, s.Addr)
			settings := s.worker("w1", map[string]int{"a": 4}, way.ToDatabase(), harness.Settings{"missed": missed},
				harness.Terms("a", harness.Settings{"attempts": "2", "backoff": "2s"}))
			at := s.now()
			s.insert(timed{id: 1, runAt: at, schedule: fmt.Sprintf("every %ds", period)}, timed{id: 2, runAt: at + 4}, timed{id: 3, runAt: at})
			settings.StartWorker(t)
			s.await(3, "delayed for its second attempt", func(r timed) bool { return r.status == "delayed" && r.attempts == 1 })
			row := s.await(1, "delayed behind a run", func(r timed) bool { return r.status == "delayed" && r.result == "ok" })
			way.Away()
			if row = s.row(1); row.status != "delayed" {
				t.Skip("it was claimed in the moment in which the link was cut")
			}
			s.awaitTime(max(row.plannedAt+2*period+1, at+6))
			before := len(s.oracle.Starts(t, 1))
			back := s.now()
			way.Back()
			starts := s.oracle.AwaitStarts(t, before+3, 1)
			if first := starts[before]; missed == "once" && first.Planned != row.plannedAt || missed == "skip" && first.Planned <= back {
				t.Errorf("away until %d over what was planned for %d, the first start is %s", back, row.plannedAt, first)
			}
			if second := starts[before+1]; second.Planned <= back {
				t.Errorf("away until %d, the second start is %s, a backfill", back, second)
			}
			plans := harness.Events(t, settings, journal.KindPlanned)
			if (missed == "skip") != (len(plans) > 0) {
				t.Errorf("%d rows were planned anew in the journal: %v", len(plans), plans)
			}
			for _, e := range plans { // on a busy machine a run may be missed that came later
				if late := e.Time.Unix() - e.Payload.(journal.Planned).From.PlannedAt; late <= period {
					t.Errorf("planned anew, %d s late: %v", late, e)
				}
			}
			s.awaitStatus(2, "done")
			if row := s.awaitStatus(3, "done"); row.attempts != 2 {
				t.Errorf("%s: want both attempts", row)
			}
			for i, begun := range starts[1:] {
				check.Equal(t, (begun.Planned-starts[i].Planned)%period, 0, "%s behind %s: seconds beside the schedule", begun, starts[i])
			}
			s.expectNotBefore()
			harness.VerifyJournal(t, settings)
		})
	}
}

// An application that wants one row of a kind at a time inserts the next one as soon as the former has
// ended: the unique key is held while the row waits, runs or is delayed, and no longer.
func TestUniqueKeys(t *testing.T) {
	t.Parallel()
	s := newSite(t, `[ $id != 2 ] || [ $JOBD_ATTEMPT = 2 ] || exit 1`)
	worker := s.worker("w1", map[string]int{"a": 1}, harness.Terms("a", harness.Settings{"attempts": "2", "backoff": "1s"})).StartWorker(t)
	insert := func(id int64) error {
		_, err := s.Admin.ExecContext(t.Context(), "INSERT INTO jobs (id, target, time_created, status, run_at, unique_key) VALUES (?, 'a', UNIX_TIMESTAMP(), 'delayed', UNIX_TIMESTAMP(), 'nightly')", id)
		return err
	}
	jobs := int64(harness.Size(8, 100))
	for id := int64(1); id <= jobs; id++ {
		harness.Until(t, func() string {
			if err := insert(id); err != nil {
				return err.Error()
			}
			return ""
		})
		if insert(id+1000) == nil {
			row := s.row(id)
			must.Equal(t, row.status, "done", "a second row was inserted beside %s", row)
			s.Exec(t, "DELETE FROM jobs WHERE id = ?", id+1000)
		}
		poll(t, worker)
	}
	s.awaitAll(int(jobs))
	check.Equal(t, len(s.oracle.Starts(t, 2)), 2, "job 2 was started … times: it fails once")
	if n := s.Count(t, "unique_key IS NOT NULL"); n > 0 {
		t.Errorf("%d rows keep their key", n)
	}
}

// Rows that are due in the same second are found by the timers of two workers, none before its time
// and none twice. Nobody polls, and nobody is told of them.
func TestManyRowsDueInOneSecond(t *testing.T) {
	t.Parallel()
	jobs := harness.Size(300, 10_000)
	var s *site
	var one, two harness.Settings
	var due int64
	for ahead := harness.Size[int64](4, 15); ; ahead *= 2 {
		s = newSite(t, "")
		due = s.now() + ahead
		rows := make([]timed, jobs)
		for i := range rows {
			rows[i] = timed{id: int64(i + 1), runAt: due}
		}
		s.insert(rows...)
		one, two = s.worker("w1", map[string]int{"a": 8}), s.worker("w2", map[string]int{"a": 8})
		early := []*harness.Daemon{one.StartWorker(t), two.StartWorker(t)}
		if s.now() < due {
			break
		}
		for _, worker := range early { // on a busy machine the rows were due before the workers had started
			worker.Crash(t)
		}
	}
	s.awaitAll(jobs)
	s.oracle.ExpectOnce(t, jobs)
	for _, settings := range []harness.Settings{one, two} {
		claims := harness.Events(t, settings, journal.KindAccepted)
		for _, e := range claims {
			if at := e.Time.Unix(); at < due {
				t.Fatalf("%s claimed job %d at %d, and it was due at %d", settings["name"], e.Job, at, due)
			}
		}
		if len(claims) == 0 {
			t.Errorf("%s had no part in it", settings["name"])
		}
	}
}

// A rate holds over all claims of a worker. (How a bucket keeps it, exec's tests.)
func TestRate(t *testing.T) {
	t.Parallel()
	const jobs, rate = 30, 10
	s := newSite(t, "")
	settings := s.worker("w1", map[string]int{"a": 8}, harness.Terms("a", harness.Settings{"rate": "10/s"}))
	worker := settings.StartWorker(t)
	s.insertWaiting(jobs, "a")
	poll(t, worker)
	s.awaitAll(jobs)
	s.oracle.ExpectOnce(t, jobs)
	begun := harness.Events(t, settings, journal.KindRunning)
	// A bucket holds one second's worth, and begins with one token.
	if took := begun[jobs-1].Time.Sub(begun[0].Time); took < (jobs-2-rate)*time.Second/rate {
		t.Errorf("%d jobs started within %s, at %d/s", jobs, took, rate)
	}
}
