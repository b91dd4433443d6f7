package time

import (
	"fmt"
	"strings"
	"testing"

	"jobd/tests/harness"
)

// wideTable is one whose columns can hold what makes no sense.
var wideTable = strings.NewReplacer(
	"`run_at` int(10) UNSIGNED", "`run_at` bigint UNSIGNED", "`planned_at` int(10) UNSIGNED", "`planned_at` bigint UNSIGNED",
	"`attempts` smallint UNSIGNED", "`attempts` smallint", "`max_attempts` smallint UNSIGNED", "`max_attempts` smallint",
).Replace(harness.TimesTable)

// Rows that say what can't be are ignored, and say why; all others run.
func TestRowsThatSayWhatCannotBe(t *testing.T) {
	t.Parallel()
	s := &site{harness.NewDatabase(t, wideTable), t, newOracle(t, "")}
	at := s.now()
	cases := []struct {
		row  timed
		want []string // in stderr
	}{
		{timed{schedule: "every 0s"}, []string{"every 0s", "at least 1s"}},
		{timed{schedule: "daily"}, []string{"daily", "02:30"}},
		{timed{schedule: "daily 24:00"}, []string{"24:00", "00:00"}},
		{timed{schedule: "weekly fri-mon 01:00"}, []string{"fri-mon"}},
		{timed{schedule: "61 * * * *"}, []string{"61"}},
		{timed{schedule: "0 0 30 2 *"}, []string{"0 0 30 2 *"}},
		{timed{schedule: "@reboot"}, []string{"@reboot"}},
		{timed{schedule: "0 30 2 * * 1"}, []string{"0 30 2 * * 1", "five"}},
		{timed{schedule: "nonsense"}, []string{"nonsense"}},
		{timed{schedule: "daily 02:30", zone: "Mars/Olympus"}, []string{"Mars/Olympus"}},
		{timed{schedule: "daily 02:30", zone: "Local"}, []string{"Local"}},
		{timed{schedule: "daily 02:30", zone: "+02:00"}, []string{"+02:00"}},
		{timed{runAt: at * 1000}, []string{fmt.Sprint(at * 1000), fmt.Sprint(at), "milliseconds"}},
		{timed{runAt: 4102444800}, []string{"4102444800", "before the year 2100"}},
		{timed{runAt: at, plannedAt: at * 1000}, []string{"planned_at", "milliseconds"}},
		{timed{runAt: at, attempts: -1}, []string{"attempts = -1"}},
		{timed{runAt: at, maxAttempts: -3}, []string{"max_attempts = -3"}},
		{timed{status: "waiting", schedule: "daily"}, []string{"daily", "02:30"}},
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
			if !strings.Contains(row.stderr, want) {
				t.Errorf("%q is not told in %s", want, row)
			}
		}
		if row.uniqueKey != "" {
			t.Errorf("%s keeps its unique key %q", row, row.uniqueKey)
		}
		t.Logf("%s", row.stderr)
	}
	if starts := s.oracle.starts(t); len(starts) != 2 {
		t.Errorf("started: %s", starts)
	}
	idle(t, worker)

	// Somebody has to mend them, so they are told as what failed is; but nothing sets them back together.
	s.insert(timed{id: good + 2, runAt: at + 3600})
	mustJobctl(t, worker, "cancel", fmt.Sprint(good+2))
	list := mustJobctl(t, worker, "failed", "-n", "100", "--target", "a")
	if n := strings.Count(list, "not run"); n != len(cases) || !strings.Contains(list, "Mars/Olympus") || !strings.Contains(list, " ignored ") {
		t.Errorf("%d of %d rows that were ignored are listed:\n%s", n, len(cases), list)
	}
	if list := mustJobctl(t, worker, "failed", "--target", "b"); strings.Contains(list, "not run") {
		t.Errorf("of another target:\n%s", list)
	}
	if list := mustJobctl(t, worker, "retry", "--failed", "--dry-run"); strings.Contains(list, "daily") || strings.Contains(list, "not run") {
		t.Errorf("retry --failed would set back\n%s", list)
	}
	s.Exec(t, "UPDATE jobs SET status = 'done', result = 'ok' WHERE id = 1")
	if list := mustJobctl(t, worker, "failed", "--group"); strings.Count(list, "not run") != len(cases)-3 {
		t.Errorf("three of them say the same as others, or are mended:\n%s", list)
	}
}

// awaitCountGrowing waits until a condition holds for n rows; as long as there are more and more of them
// it has patience.
func (s *site) awaitCountGrowing(n int, where string) {
	s.t.Helper()
	for before := -1; before < n; {
		harness.Until(s.t, func() string {
			if got := s.Count(s.t, where); got > before {
				before = got
				return ""
			}
			return fmt.Sprintf("%d of %d rows: %s", before, n, where)
		})
	}
}
