package torture

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"jobd/store/storetest/check"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// recurring is a row of the year, and the list of its planned times, written by hand: in universal
// time, as daily times from one day to another, and single ones.
type recurring struct {
	schedule, zone string
	daily          []span
	single         []string
}

// span is a daily time from one day to another.
type span struct{ from, to, at string }

// year has the changes of clocks of 2027 in
//
//	Berlin     28 March 01:00 and 31 October 01:00   +1, +2 in summer
//	New York   14 March 07:00 and 7 November 06:00   −5, −4 in summer
//
// all in universal time.
var year = []recurring{
	{schedule: "daily 02:30", zone: "Europe/Berlin", daily: []span{
		{"2027-02-20", "2027-03-27", "01:30"},
		{"2027-03-28", "2027-03-28", "01:00"}, // 02:30 does not exist: at the end of the gap
		{"2027-03-29", "2027-10-31", "00:30"}, // on the last day the first of two
		{"2027-11-01", "2028-03-05", "01:30"},
	}},
	{schedule: "daily 02:30", zone: "America/New_York", daily: []span{
		{"2027-02-20", "2027-03-13", "07:30"},
		{"2027-03-14", "2027-03-14", "07:00"}, // does not exist
		{"2027-03-15", "2027-11-06", "06:30"},
		{"2027-11-07", "2028-03-05", "07:30"}, // there is one only: 01:00 to 02:00 come twice
	}},
	{schedule: "daily 01:30", zone: "America/New_York", daily: []span{
		{"2027-02-20", "2027-03-14", "06:30"},
		{"2027-03-15", "2027-11-07", "05:30"}, // on the last day the first of two
		{"2027-11-08", "2028-03-05", "06:30"},
	}},
	{schedule: "every 1d", daily: []span{{"2027-02-20", "2028-03-05", "00:00"}}},
	{schedule: "weekly mon 01:00", zone: "Europe/Berlin", single: []string{
		"2027-03-01 00:00", "2027-03-15 00:00", "2027-03-28 23:00", "2027-11-01 00:00", "2027-11-08 00:00",
		"2028-02-28 00:00",
	}},
	{schedule: "monthly last 23:00", zone: "America/New_York", single: []string{
		"2027-03-01 04:00", "2027-11-01 03:00", "2028-03-01 04:00",
	}},
	{schedule: "yearly 02-29 12:00", zone: "Europe/Berlin", single: []string{"2027-02-28 11:00", "2028-02-29 11:00"}},
	{schedule: "30 2 * * sun", zone: "America/New_York", single: []string{
		"2027-02-28 07:30", "2027-03-14 07:00", "2027-03-28 06:30", "2027-10-31 06:30", "2027-11-07 07:30",
	}},
}

// windows are the days around the changes, and the leap day.
var windows = [][2]string{
	{"2027-02-27 00:00", "2027-03-01 23:59"},
	{"2027-03-13 00:00", "2027-03-15 23:59"},
	{"2027-03-27 00:00", "2027-03-29 23:59"},
	{"2027-10-30 00:00", "2027-11-01 23:59"},
	{"2027-11-06 00:00", "2027-11-08 23:59"},
	{"2028-02-28 00:00", "2028-03-01 23:59"},
}

func universal(t testing.TB, text string) int64 {
	t.Helper()
	at := must.Get(time.Parse("2006-01-02 15:04", text))(t)
	return at.Unix()
}

// times is the list of planned times, in a window.
func (r recurring) times(t testing.TB, from, to int64) (list []int64) {
	t.Helper()
	add := func(at int64) {
		if from <= at && at <= to {
			list = append(list, at)
		}
	}
	for _, s := range r.daily {
		for at := universal(t, s.from+" "+s.at); at <= universal(t, s.to+" "+s.at); at += 24 * 60 * 60 {
			add(at)
		}
	}
	for _, text := range r.single {
		add(universal(t, text))
	}
	return list
}

// A year of planned times (all rules, and each change of clocks: exec/schedule): the clock of the database server is set from each to the next. The workers' own
// clocks stand more than a year behind, and don't matter.
func TestAYear(t *testing.T) {
	t.Parallel()
	server := clockServer(t)
	s := newSiteOn(t, server, "")
	rows := make([]timed, len(year))
	for i, r := range year {
		rows[i] = timed{id: int64(i + 1), status: "manual", schedule: r.schedule, zone: r.zone}
	}
	s.insert(rows...) // created by the machine's clock
	settings := s.worker("w1", map[string]int{"a": 2 * len(year)})
	worker := settings.StartWorker(t)
	y := &yearly{site: s, server: server, daemon: worker, worker: harness.Dial(t, worker.Addr)}
	for _, window := range windows {
		y.play(window[0], window[1])
	}
	t.Logf("the clock was set %d times, %d jobs were run", y.sets, len(s.oracle.Starts(t)))
	harness.VerifyJournal(t, settings)
}

// yearly is the site whose server's clock is set.
type yearly struct {
	*site
	server *dbserver.Server
	daemon *harness.Daemon
	worker *harness.Wire
	sets   int
	told   int // how often the worker has said that the clocks differ
}

// play goes through the planned times of a window, and compares them with the list.
func (y *yearly) play(fromText, toText string) {
	t := y.t
	t.Helper()
	from, to := universal(t, fromText), universal(t, toText)
	y.set(from - 2)
	y.refresh()
	before := len(y.oracle.Starts(t))
	// Who edits a schedule sets both times to 0. An interval begins where the application says.
	const day = 24 * 60 * 60
	y.Exec(t, "UPDATE jobs SET status = 'delayed', run_at = IF(schedule LIKE 'every%', ?, 0), planned_at = run_at", (from+day-1)/day*day)
	y.poke()
	y.settled(0)
	for at := y.next(from - 1); at <= to; at = y.next(at) {
		y.set(at)
		y.poke()
		y.settled(at)
	}
	y.Exec(t, "UPDATE jobs SET status = 'manual'") // nothing is due when the clock is set further
	runs := map[int64][]int64{}
	for _, begun := range y.oracle.Starts(t)[before:] {
		runs[begun.Job] = append(runs[begun.Job], begun.Planned)
	}
	for i, r := range year {
		want := r.times(t, from, to)
		if got := runs[int64(i+1)]; !slices.Equal(got, want) {
			t.Errorf("%s in %q, %s to %s: %s", r.schedule, r.zone, fromText, toText, difference(got, want))
		}
	}
}

// next is the next time at which rows are due.
func (y *yearly) next(behind int64) (due int64) {
	t := y.t
	must.Do(t, y.Admin.QueryRowContext(t.Context(), "SELECT COALESCE(MIN(run_at), 0) FROM jobs WHERE status = 'delayed'").Scan(&due))
	if due <= behind {
		t.Fatalf("a row is due at %s, and it is %s", stamp(due), stamp(behind))
	}
	return due
}

// set has the server's clock say a time, or a moment later.
func (y *yearly) set(at int64) {
	y.t.Helper()
	y.sets++
	y.told = strings.Count(y.daemon.Output(), "server is ahead by")
	must.Do(y.t, y.server.SetClock(time.Until(time.Unix(at, 0))+20*time.Millisecond))
}

// refresh waits until the worker has learnt what the server's clock says, so that it plans with that. It
// says so, since the two differ more and more.
func (y *yearly) refresh() {
	y.t.Helper()
	harness.Until(y.t, func() string {
		if n := strings.Count(y.daemon.Output(), "server is ahead by"); n > y.told {
			y.told = n
			return ""
		}
		y.poke()
		return "the worker does not ask what the server's clock says"
	})
}

func (y *yearly) poke() {
	y.t.Helper()
	var answer string
	y.worker.Ask(y.t, "poll", nil).Decode(y.t, &answer)
}

// settled waits until all rows that are due at a time have been run or planned.
func (y *yearly) settled(at int64) {
	y.t.Helper()
	harness.Until(y.t, func() string {
		if n := y.Count(y.t, "status NOT IN ('delayed', 'manual') OR status = 'delayed' AND run_at <= ?", at); n > 0 {
			return fmt.Sprintf("at %s: %s", stamp(at), y.rows("status NOT IN ('delayed', 'manual') OR status = 'delayed' AND run_at <= ?", at))
		}
		return ""
	})
}

func stamp(at int64) string { return time.Unix(at, 0).UTC().Format("2006-01-02 15:04:05") }

// difference tells where two lists part.
func difference(got, want []int64) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	show := func(list []int64) (text []string) {
		for _, at := range list[i:min(i+3, len(list))] {
			text = append(text, stamp(at))
		}
		return text
	}
	return fmt.Sprintf("%d runs, of %d; behind the first %d they are %q, not %q", len(got), len(want), i, show(got), show(want))
}

// clockServer starts one whose clock can be set.
func clockServer(t *testing.T) *dbserver.Server {
	t.Helper()
	if os.Getenv("JOBD_TEST_MYSQL_ROOT") != "" {
		t.Skip("only MariaDB's clock can be set")
	}
	server := must.Get(dbserver.Start(context.Background(), dbserver.Options{Clock: true}))(t)
	t.Cleanup(func() { check.Do(t, server.Close()) })
	return server
}
