package store_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/store"
	"jobd/store/storetest"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// onServer makes a mirror that tells when claims go on.
func onServer(j *eventlog.Log, table store.Applier) (m *store.Mirror, returned chan struct{}) {
	returned = make(chan struct{}, 10)
	return mirrorOf(j, j, table, func(c *store.Config) { c.OnReturn = func() { returned <- struct{}{} } }), returned
}

// failover is a journal and a table, mirrored, whose server is exchanged for another one.
type failover struct {
	*testing.T
	journal  *eventlog.Log
	table    *storetest.Memory
	mirror   *store.Mirror
	returned chan struct{}
}

// onServerOne is a table on server one, with rows that bear their claims, and what was appended of them mirrored.
func onServerOne(t *testing.T) *failover {
	f := &failover{T: t, journal: openJournal(t), table: storetest.NewMemory("one")}
	f.mirror, f.returned = onServer(f.journal, f.table)
	return f
}

// runs has the mirror run.
func (f *failover) runs() *failover {
	f.Helper()
	run(f.T, f.mirror)
	await(f.T, "claims", f.returned)
	return f
}

// append appends, and waits until the table shows it.
func (f *failover) append(drafts ...journal.Draft) {
	f.Helper()
	await(f.T, "the server", f.mirror.Shown(add(f.T, f.journal, drafts...), 0))
}

// put puts a row into the table as it reads on the other server.
func (f *failover) put(id int64, status, owner string) *store.Seen {
	row := &store.Seen{Row: journal.Row{Job: id, Target: "a", Status: status, Owner: owner}}
	f.table.Rows[id] = row
	return row
}

// goesTo exchanges the server for server two, on which the rows are changed.
func (f *failover) goesTo(change func()) {
	f.Helper()
	f.table.Change(func() {
		f.table.Reached = "two"
		change()
	})
	f.mirror.CheckServer()
	await(f.T, "claims on the new server", f.returned)
}

// rows compares rows: status and owner.
func (f *failover) rows(when string, want map[int64]string) {
	f.Helper()
	for id, text := range want {
		check.Equal(f.T, f.table.Read(id), text, "%s: row %d", when, id)
	}
}

// met compares which servers were journalled; the first one ever is one.
func (f *failover) met(second journal.Server) {
	f.Helper()
	check.Diff(f, []journal.Server{{Server: "one"}, second}, of[journal.Server](f.T, f.journal), "journalled")
}

// The first server ever is only noted, and confirmed.
func TestTheFirstServerIsNoted(t *testing.T) {
	t.Parallel()
	f := onServerOne(t)
	add(t, f.journal, accepted(1, token(1)), running(1))
	f.table.Put(1, journal.RowWaiting, "")
	f.runs()
	if diff := cmp.Diff([]journal.Server{{Server: "one"}}, of[journal.Server](t, f.journal)); diff != "" || f.table.Confirmed != "one" {
		t.Errorf("confirmed %q; journalled (-want +got):\n%s", f.table.Confirmed, diff)
	}
	check.Equal(t, f.table.Claims, 0, "rows that were claimed again")
}

// A failover to a replica that lags: rows read accepted and running with our token while the
// journal says done, rows that ran read waiting again, and no worker noticed, not even at a
// restart. All are mended before anything is claimed.
func TestRowsOfAReplicaThatLaggedAreMended(t *testing.T) {
	t.Parallel()
	f := onServerOne(t).runs()
	const jobs = 12
	for id := int64(1); id <= jobs; id++ {
		f.table.Put(id, journal.RowAccepted, token(id))
		add(t, f.journal, journal.Draft{Job: id, Payload: journal.Accepted{Target: "a", Token: token(id), Manual: id == 7}})
	}
	end := func(id int64) journal.Draft {
		return journal.Draft{Job: id, Payload: journal.Done{Result: "ok", Stdout: journal.Output{Kept: []byte("out"), Size: 3}, Token: token(id)}}
	}
	for _, id := range []int64{1, 2, 3, 4, 7, 9, 10, 11} {
		add(t, f.journal, running(id), end(id))
	}
	f.append(running(5), running(8), journal.Draft{Job: 12, Payload: journal.Released{Reason: "stop", Target: "a", Token: token(12)}})

	given := make(chan []string, 10)
	f.mirror.OnGivenBack = func(targets []string) { given <- targets }
	f.goesTo(func() {
		f.put(1, journal.RowRunning, token(1))
		f.put(2, journal.RowAccepted, token(2))
		f.put(3, journal.RowWaiting, "")                                    // it ran
		delete(f.table.Rows, 4)                                             // the replica never saw it, and it is done
		f.put(5, journal.RowAccepted, token(5))                             // it runs
		f.put(6, journal.RowWaiting, "")                                    // it waits here for a slot
		f.put(7, journal.RowManual, "")                                     // it ran, by hand
		f.put(8, journal.RowWaiting, "")                                    // it runs
		f.put(9, journal.RowRunning, "@zzzz00")                             // another worker's
		f.put(10, journal.RowWaiting, "").Created = time.Now().Unix() + 60  // an old id that was given to another job
		f.put(11, journal.RowWaiting, "").Finished = time.Now().Unix() + 60 // set back by hand before
		f.put(12, journal.RowAccepted, token(12))                           // given back
	})
	f.rows("mended", map[int64]string{
		1: "done ", 2: "done ", 3: "done ", 4: "none", 5: "running " + token(5), 6: "accepted " + token(6),
		7: "done ", 8: "running " + token(8), 9: "running @zzzz00", 10: "waiting ", 11: "waiting ", 12: "waiting ",
	})
	f.met(journal.Server{Server: "two", Before: "one", Mended: 8, Left: 3})
	check.Equal(t, f.table.Confirmed, "two")
	select {
	case <-given:
	default:
		t.Error("nobody was told of the row that waits again")
	}
	// The jobs under way go on as if nothing had been.
	f.append(end(5), running(6), end(6), end(8))
	f.rows("in the end", map[int64]string{5: "done ", 6: "done ", 8: "done "})
	check.Equal(t, len(of[journal.Conflict](t, f.journal)), 0, "conflicts")
}

// Regression: each row that was left had a warning of its own, hundreds after one failover. There is one
// for the event, with counts, some ids, and what lists and mends them.
func TestAFailoverIsToldInOneWarning(t *testing.T) {
	t.Parallel()
	f := onServerOne(t)
	var log bytes.Buffer
	f.mirror.Logger = slog.New(slog.NewTextHandler(&log, nil))
	f.runs()
	const rows = 300
	for id := int64(1); id <= rows; id++ {
		f.table.Put(id, journal.RowAccepted, token(id))
		add(t, f.journal, accepted(id, token(id)), running(id), done(id))
	}
	f.append(journal.Draft{Payload: journal.Closed{}})
	f.goesTo(func() {
		for id := int64(2); id <= rows; id++ { // another worker has them there
			f.put(id, journal.RowRunning, "@zzzz00")
		}
		f.table.Rows[1].Status, f.table.Rows[1].Owner = journal.RowRunning, token(1)
	})
	var warnings []string
	for _, line := range strings.Split(log.String(), "\n") {
		if strings.Contains(line, "level=WARN") && !strings.Contains(line, "on another server") {
			warnings = append(warnings, line)
		}
	}
	if len(warnings) != 1 {
		t.Fatalf("%d warnings, the first is %s", len(warnings), warnings[:min(1, len(warnings))])
	}
	for _, want := range []string{"mended=1", "left=299", `some="[2 3 4 5 6 7 8 9]"`, "jobctl journal diff", "jobctl journal reapply"} {
		if !strings.Contains(warnings[0], want) {
			t.Errorf("it does not say %s: %s", want, warnings[0])
		}
	}
}

// A failover while rows are being retried: neither this worker's journal nor another's, which may
// know how they ended before, brings that end back.
func TestRowsThatWereSetBackStaySoOnAnotherServer(t *testing.T) {
	t.Parallel()
	f := onServerOne(t).runs()
	for id := int64(1); id <= 7; id++ {
		f.table.Put(id, journal.RowAccepted, token(id))
		f.append(accepted(id, token(id)), running(id), journal.Draft{Job: id, Payload: journal.Done{Result: "ok", Token: token(id)}})
	}
	now := time.Now().Unix() // they have ended by then
	retried := func(id int64) journal.Draft {
		return journal.Draft{Job: id, Payload: journal.Retried{Target: "a", From: journal.RowDone, To: journal.RowWaiting, Result: "ok", Finished: now, By: "me"}}
	}
	f.append(retried(1), retried(2), retried(3), retried(4), retried(5),
		journal.Draft{Job: 5, Payload: journal.Conflict{Wanted: journal.WantedRetried, Reason: "the row is done"}})
	f.goesTo(func() {
		f.put(1, journal.RowWaiting, "").Finished = now // set back here
		f.put(2, journal.RowRunning, token(2))          // the replica lags: it ran, and will run again
		f.put(3, journal.RowRunning, "@zzzz00")         // another worker's
		ended := f.put(4, journal.RowDone, "")          // the replica lags
		ended.Finished, ended.Result = now, "ok"
		f.put(5, journal.RowWaiting, "")                // it was not set back after all, and the replica lags
		f.put(6, journal.RowWaiting, "").Finished = now // set back by another worker
		f.put(7, journal.RowWaiting, "")                // the replica lags
	})
	f.rows("mended", map[int64]string{
		1: "waiting ", 2: "waiting ", 3: "running @zzzz00", 4: "done ", 5: "done ", 6: "waiting ", 7: "done ",
	})
}

// The new server is met by an update: what it answers counts for nothing before its rows were
// compared, else a row that it never saw claimed would be a conflict and end its claim.
func TestWhatAnUncheckedServerAnswersDoesNotCount(t *testing.T) {
	t.Parallel()
	f := onServerOne(t).runs()
	f.table.Put(1, journal.RowWaiting, "") // on the replica; the primary had it claimed
	f.table.Change(func() {
		f.table.OnApply = func() {
			if f.table.Reached == "one" {
				f.table.Reached = "two"
				f.mirror.CheckServer() // as a connection does that reached it
			}
		}
	})
	f.append(accepted(1, token(1)), running(1))
	f.rows("then", map[int64]string{1: "running " + token(1)})
	check.Equal(t, len(of[journal.Conflict](t, f.journal)), 0, "conflicts")
}

// Killed while it goes back: nothing is confirmed, and the next start does it again.
func TestGoingBackIsRepeatedAfterACrash(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), storetest.NewMemory("one")
	add(t, j, journal.Draft{Payload: journal.Server{Server: "one"}})
	newest := add(t, j, accepted(1, token(1)), running(1), done(1))
	j.SetPosition(newest)
	table.Put(1, journal.RowRunning, token(1))
	table.Reached = "two"
	ctx, kill := context.WithCancel(t.Context())
	killed := newMirror(j, &failing{table, func(err error) error {
		kill()
		return ctx.Err()
	}})
	must.Do(t, killed.Run(ctx))
	if n := len(of[journal.Server](t, j)); n != 1 {
		t.Errorf("%d servers are journalled, want one", n)
	}
	if table.Confirmed != "" {
		t.Errorf("%q was confirmed before it was compared", table.Confirmed)
	}
	m, returned := onServer(j, table)
	run(t, m)
	await(t, "claims", returned)
	if got := table.Read(1); got != "done " {
		t.Errorf("the row is %q", got)
	}
}

// failing is a table that does what it is to do, and then may say otherwise.
type failing struct {
	*storetest.Memory
	says func(error) error
}

// Apply implements store.Applier.
func (f *failing) Apply(ctx context.Context, changes []store.Change) ([]store.Outcome, error) {
	outcomes, err := f.Memory.Apply(ctx, changes)
	return outcomes, f.says(err)
}

// Only the last minutes are looked at, and no more than a number of events.
func TestGoingBackIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	j := must.Get(eventlog.Open(t.Context(), eventlog.Config{Dir: t.TempDir(), Now: func() time.Time { return now }}))(t)
	t.Cleanup(func() { _ = j.Close() })
	table := storetest.NewMemory("two")
	add(t, j, journal.Draft{Payload: journal.Server{Server: "one"}})
	for id := int64(1); id <= 2; id++ {
		j.SetPosition(add(t, j, accepted(id, token(id)), running(id), done(id)))
		table.Put(id, journal.RowWaiting, "")
		now = now.Add(9 * time.Minute)
	}
	j.SetPosition(add(t, j, accepted(3, token(3))))
	table.Put(3, journal.RowWaiting, "")
	m, returned := onServer(j, table)
	run(t, m)
	await(t, "claims", returned)
	for id, want := range map[int64]string{1: "waiting ", 2: "done ", 3: "accepted " + token(3)} {
		if got := table.Read(id); got != want {
			t.Errorf("row %d is %q, want %q", id, got, want)
		}
	}
	for _, test := range []struct {
		seq   uint64
		limit uint64
		want  uint64
	}{{8, 100, 4}, {8, 2, 6}, {4, 100, 0}, {0, 100, 0}} {
		if after, err := j.Back(t.Context(), test.seq, 10*time.Minute, test.limit); err != nil || after != test.want {
			t.Errorf("Back(%d, %d) = %d, %v; want %d", test.seq, test.limit, after, err, test.want)
		}
	}
}

// A row that somebody holds while the server is compared is waited for a while: it would be run a
// second time else.
func TestARowThatIsHeldIsClaimedAgainOnceItIsFree(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), storetest.NewMemory("two")
	add(t, j, journal.Draft{Payload: journal.Server{Server: "one"}})
	var drafts []journal.Draft
	for id := range int64(1200) { // more than one stretch
		table.Put(id+1, journal.RowWaiting, "")
		drafts = append(drafts, accepted(id+1, token(id+1)), running(id+1), done(id+1))
	}
	j.SetPosition(add(t, j, drafts...))
	table.Locked[7] = true
	looks := 0
	tries := &counting{Memory: table, onClaim: func() {
		if looks++; looks == 3 {
			table.Change(func() { clear(table.Locked) })
		}
	}}
	m, returned := onServer(j, tries)
	run(t, m)
	await(t, "claims", returned)
	for id := range int64(1200) {
		if got := table.Read(id + 1); got != "done " {
			t.Fatalf("row %d is %q", id+1, got)
		}
	}
	if met := of[journal.Server](t, j); met[1].Mended != 1200 || met[1].Left != 0 {
		t.Errorf("journalled %+v", met[1])
	}
}

// counting is a table that tells of each claim.
type counting struct {
	*storetest.Memory
	onClaim func()
}

// ClaimManual implements store.Applier.
func (c *counting) ClaimManual(ctx context.Context, ids []int64, targets []string, decide store.Decide) ([]int64, error) {
	c.onClaim()
	return c.Memory.ClaimManual(ctx, ids, targets, decide)
}

// An outage while the server is compared is waited out, and the comparison done again; what was
// mended counts once.
func TestAnOutageWhileGoingBackIsWaitedOut(t *testing.T) {
	t.Parallel()
	j, table := openJournal(t), storetest.NewMemory("two")
	add(t, j, journal.Draft{Payload: journal.Server{Server: "one"}})
	j.SetPosition(add(t, j, accepted(1, token(1)), running(1), done(1), accepted(2, token(2)), running(2), done(2)))
	table.Put(1, journal.RowWaiting, "")
	table.Put(2, journal.RowRunning, token(2))
	fails := 2
	m, returned := onServer(j, &failing{table, func(err error) error {
		if fails--; fails >= 0 {
			return &store.Unreachable{Op: "apply", Err: fmt.Errorf("link lost")}
		}
		return err
	}})
	away := m.Away()
	run(t, m)
	await(t, "the outage", away)
	await(t, "claims", returned)
	if one, two := table.Read(1), table.Read(2); one != "done " || two != "done " {
		t.Errorf("rows are %q and %q", one, two)
	}
	if met := of[journal.Server](t, j); met[1].Mended != 2 || met[1].Left != 0 {
		t.Errorf("journalled %+v", met[1])
	}
}

// A claim that was cancelled before it was started makes its row ignored, by the mirror, and by the
// comparison with a server that lagged: whatever the row says there of that claim.
func TestCancelledClaimsAreMirroredAndMended(t *testing.T) {
	t.Parallel()
	f := onServerOne(t).runs()
	for id := int64(1); id <= 4; id++ {
		f.table.Put(id, journal.RowAccepted, token(id))
		add(t, f.journal, accepted(id, token(id)))
		if id == 2 || id == 4 { // announced, and not started yet; 4 runs
			add(t, f.journal, running(id))
		}
		f.append(journal.Draft{Job: id, Payload: journal.Cancelled{By: "10.0.0.5:4711", Runs: id == 4, Token: token(id)}})
	}
	want := map[int64]string{1: "ignored ", 2: "ignored ", 3: "ignored ", 4: "running " + token(4)}
	f.rows("mirrored", want)
	f.goesTo(func() {
		f.put(1, journal.RowWaiting, "")
		f.put(2, journal.RowRunning, token(2))
		f.put(3, journal.RowAccepted, token(3))
		f.put(4, journal.RowAccepted, token(4))
	})
	f.rows("mended", want)
}

// After a failover to a replica that had lagged, old ids were given out again, and reapply marked
// the new jobs as done. A row that was created later than the claim is another job; one of the same
// second is not.
func TestARowCreatedAfterTheClaimIsAnotherJob(t *testing.T) {
	t.Parallel()
	claimed := time.Unix(1000, 900_000_000)
	done := journal.Job{
		ID: 1, Target: "a", Token: token(1), Status: journal.StatusDone, Accepted: journal.Moment{Time: claimed}, Ended: claimed, Result: "ok",
	}
	ignored := journal.Job{ID: 1, Status: journal.StatusIgnored, Ended: claimed}
	for _, test := range []struct {
		name string
		job  journal.Job
		row  store.Seen
		want bool
	}{
		{"created before", done, store.Seen{Row: journal.Row{Status: journal.RowWaiting}, Created: 999}, false},
		{"in the same second", done, store.Seen{Row: journal.Row{Status: journal.RowWaiting}, Created: 1000}, false},
		{"later", done, store.Seen{Row: journal.Row{Status: journal.RowWaiting}, Created: 1001}, true},
		{"later, of a job that was ignored", ignored, store.Seen{Row: journal.Row{Status: journal.RowWaiting}, Created: 1001}, true},
		{"not told", done, store.Seen{Row: journal.Row{Status: journal.RowWaiting}}, false},
		{"the clocks differ", done, store.Seen{Row: journal.Row{Status: journal.RowRunning, Owner: token(1)}, Created: 1001}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.row.Job, test.row.Target = 1, "a"
			got := strings.Contains(store.Refusal(test.job, &test.row, false), "another job with the same id")
			if got != test.want || store.IsAnotherJob(test.job, &test.row) != test.want {
				t.Errorf("refusal %q, another job: %t; want %t", store.Refusal(test.job, &test.row, false), !test.want, test.want)
			}
		})
	}
}
