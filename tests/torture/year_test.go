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
	only           string // its window, for one that recurs too often for a whole year
	daily          []span
	single         []string
}

// span is a daily time from one day to another.
type span struct{ from, to, at string }

// year has the changes of clocks of 2027 in
//
//	Berlin     28 March 01:00 and 31 October 01:00   +1, +2 in summer
//	New York   14 March 07:00 and 7 November 06:00   −5, −4 in summer
//	Lord Howe  3 April 15:00 and 2 October 15:30     +11, +10:30 in winter
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

	// Those that follow the wall clock, around a change: every hour by universal time, but on Lord Howe,
	// whose clocks change by half an hour.
	{schedule: "hourly :15", zone: "Europe/Berlin", only: "2027-03-27 22:00", single: []string{
		"2027-03-27 22:15", "2027-03-27 23:15", "2027-03-28 00:15", "2027-03-28 01:15", "2027-03-28 02:15", "2027-03-28 03:15",
	}},
	{schedule: "hourly :15", zone: "Europe/Berlin", only: "2027-10-30 22:00", single: []string{
		"2027-10-30 22:15", "2027-10-30 23:15", "2027-10-31 00:15", "2027-10-31 01:15", "2027-10-31 02:15", "2027-10-31 03:15",
	}},
	{schedule: "hourly :15", zone: "America/New_York", only: "2027-03-14 04:00", single: []string{
		"2027-03-14 04:15", "2027-03-14 05:15", "2027-03-14 06:15", "2027-03-14 07:15", "2027-03-14 08:15", "2027-03-14 09:15",
	}},
	{schedule: "15 * * * *", zone: "America/New_York", only: "2027-11-07 04:00", single: []string{
		"2027-11-07 04:15", "2027-11-07 05:15", "2027-11-07 06:15", "2027-11-07 07:15", "2027-11-07 08:15", "2027-11-07 09:15",
	}},
	{schedule: "hourly :45", zone: "Australia/Lord_Howe", only: "2027-04-03 13:00", single: []string{
		"2027-04-03 13:45", "2027-04-03 14:45", "2027-04-03 15:15", "2027-04-03 16:15", "2027-04-03 17:15", "2027-04-03 18:15", // 01:45 comes twice
	}},
	{schedule: "hourly :15", zone: "Australia/Lord_Howe", only: "2027-10-02 13:00", single: []string{
		"2027-10-02 13:45", "2027-10-02 14:45", "2027-10-02 16:15", "2027-10-02 17:15", "2027-10-02 18:15", // 02:15 does not exist
	}},

	// Fixed times, more than one of which fall into the gap.
	{schedule: "*/30 1-2 * * *", zone: "Europe/Berlin", only: "2027-03-27 22:00", single: []string{
		"2027-03-28 00:00", "2027-03-28 00:30", "2027-03-28 01:00",
	}},
	{schedule: "*/30 1-2 * * *", zone: "Europe/Berlin", only: "2027-10-30 22:00", single: []string{
		"2027-10-30 23:00", "2027-10-30 23:30", "2027-10-31 00:00", "2027-10-31 00:30",
	}},
}

// onlyFor is how long the rows that have a window of their own recur.
const onlyFor = 6 * time.Hour

// windows are the days around the changes, and the leap day.
var windows = [][2]string{
	{"2027-02-27 00:00", "2027-03-01 23:59"},
	{"2027-03-13 00:00", "2027-03-15 23:59"},
	{"2027-03-27 00:00", "2027-03-29 23:59"},
	{"2027-04-03 12:00", "2027-04-03 23:59"},
	{"2027-10-02 12:00", "2027-10-02 23:59"},
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
	if r.only != "" {
		begin := universal(t, r.only)
		from, to = max(from, begin), min(to, begin+int64(onlyFor/time.Second)-1)
	}
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

// A year of planned times: the clock of the database server is set from each to the next. The workers' own
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
	for i, r := range year {
		if r.only != "" {
			y.Exec(t, "UPDATE jobs SET status = 'manual' WHERE id = ?", i+1)
		}
	}
	y.poke()
	y.settled(0)
	for at := y.next(from-1, to); at <= to; at = y.next(at, to) {
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

// next is the next time at which rows are due. Rows whose window begins before that are planned first, and
// those whose window is over recur no more.
func (y *yearly) next(behind, to int64) int64 {
	t := y.t
	begins := int64(0)
	for i, r := range year {
		if r.only == "" {
			continue
		}
		begin := universal(t, r.only)
		y.Exec(t, "UPDATE jobs SET status = 'manual' WHERE id = ? AND status = 'delayed' AND run_at >= ?", i+1, begin+int64(onlyFor/time.Second))
		if begin > behind && begin <= to && (begins == 0 || begin < begins) {
			begins = begin
		}
	}
	var due int64
	must.Do(t, y.Admin.QueryRowContext(t.Context(), "SELECT COALESCE(MIN(run_at), 0) FROM jobs WHERE status = 'delayed'").Scan(&due))
	if begins != 0 && begins <= due {
		y.set(begins - 1)
		y.refresh()
		for i, r := range year {
			if r.only != "" && universal(t, r.only) == begins {
				y.Exec(t, "UPDATE jobs SET status = 'delayed', run_at = 0, planned_at = 0 WHERE id = ?", i+1)
			}
		}
		y.poke()
		y.settled(0)
		return y.next(begins, to)
	}
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
