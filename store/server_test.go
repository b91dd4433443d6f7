package store_test

import (
	"bytes"
	"context"
	"errors"
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
	"jobd/store/storetest/must"
)

// onServer makes a mirror for a journal that knows the table's server.
func onServer(j *eventlog.Log, table *storetest.Memory, returned chan struct{}) *store.Mirror {
	return store.NewMirror(store.Config{
		Source: j, Bookmark: j, Table: table, Logger: discard(),
		OnReturn: func() { returned <- struct{}{} },
	})
}

// The first server ever is only noted, and confirmed.
func TestTheFirstServerIsNoted(t *testing.T) {
	t.Parallel()
	j, table, returned := openJournal(t), storetest.NewMemory("one"), make(chan struct{}, 10)
	add(t, j, accepted(1, token(1)), running(1))
	table.Put(1, journal.RowWaiting, "")
	run(t, onServer(j, table, returned))
	await(t, "claims", returned)
	if diff := cmp.Diff([]journal.Server{{Server: "one"}}, of[journal.Server](t, j)); diff != "" || table.Confirmed != "one" {
		t.Errorf("confirmed %q; journalled (-want +got):\n%s", table.Confirmed, diff)
	}
	if table.Claims != 0 {
		t.Errorf("%d rows were claimed again", table.Claims)
	}
}

// A failover to a replica that lags: rows read accepted and running with our token while the
// journal says done, rows that ran read waiting again, and no worker noticed, not even at a
// restart. All are mended before anything is claimed.
func TestRowsOfAReplicaThatLaggedAreMended(t *testing.T) {
	t.Parallel()
	j, table, returned := openJournal(t), storetest.NewMemory("one"), make(chan struct{}, 10)
	m := onServer(j, table, returned)
	run(t, m)
	await(t, "claims", returned)
	const jobs = 12
	for id := int64(1); id <= jobs; id++ {
		table.Put(id, journal.RowAccepted, token(id))
		claim := journal.Accepted{Target: "a", Token: token(id), Manual: id == 7}
		add(t, j, journal.Draft{Job: id, Payload: claim})
	}
	end := func(id int64) journal.Draft {
		return journal.Draft{Job: id, Payload: journal.Done{Result: "ok", Stdout: journal.Output{Kept: []byte("out"), Size: 3}, Token: token(id)}}
	}
	for _, id := range []int64{1, 2, 3, 4, 7, 9, 10, 11} {
		add(t, j, running(id), end(id))
	}
	newest := add(t, j, running(5), running(8),
		journal.Draft{Job: 12, Payload: journal.Released{Reason: "stop", Target: "a", Token: token(12)}})
	await(t, "the old server", m.Shown(newest, 0))

	table.Change(func() {
		table.Reached = "two"
		set := func(id int64, status, owner string) {
			table.Rows[id] = &store.Seen{Row: journal.Row{Job: id, Target: "a", Status: status, Owner: owner}}
		}
		set(1, journal.RowRunning, token(1))
		set(2, journal.RowAccepted, token(2))
		set(3, journal.RowWaiting, "")        // it ran
		delete(table.Rows, 4)                 // the replica never saw it, and it is done
		set(5, journal.RowAccepted, token(5)) // it runs
		set(6, journal.RowWaiting, "")        // it waits here for a slot
		set(7, journal.RowManual, "")         // it ran, by hand
		set(8, journal.RowWaiting, "")        // it runs
		set(9, journal.RowRunning, "@zzzz00") // another worker's
		set(10, journal.RowWaiting, "")       // an old id that was given to another job
		table.Rows[10].Created = time.Now().Unix() + 60
		set(11, journal.RowWaiting, "") // set back by hand before
		table.Rows[11].Finished = time.Now().Unix() + 60
		set(12, journal.RowAccepted, token(12)) // given back
	})
	given := make(chan []string, 10)
	m.OnGivenBack = func(targets []string) { given <- targets }
	if _, err := table.ClaimManual(t.Context(), nil, nil, nil); !errors.As(err, new(*store.AnotherServer)) {
		t.Fatalf("a claim on a server that is not confirmed: %v", err)
	}
	m.CheckServer()
	await(t, "claims on the new server", returned)
	want := map[int64]string{
		1: "done ", 2: "done ", 3: "done ", 4: "none", 5: "running " + token(5), 6: "accepted " + token(6),
		7: "done ", 8: "running " + token(8), 9: "running @zzzz00", 10: "waiting ", 11: "waiting ", 12: "waiting ",
	}
	for id, text := range want {
		if got := table.Read(id); got != text {
			t.Errorf("row %d is %q, want %q", id, got, text)
		}
	}
	met := []journal.Server{{Server: "one"}, {Server: "two", Before: "one", Mended: 8, Left: 3}}
	if diff := cmp.Diff(met, of[journal.Server](t, j)); diff != "" || table.Confirmed != "two" {
		t.Errorf("confirmed %q; journalled (-want +got):\n%s", table.Confirmed, diff)
	}
	select {
	case <-given:
	default:
		t.Error("nobody was told of the row that waits again")
	}
	// The jobs under way go on as if nothing had been.
	newest = add(t, j, end(5), running(6), end(6), end(8))
	await(t, "their ends", m.Shown(newest, 0))
	for _, id := range []int64{5, 6, 8} {
		if got := table.Read(id); got != "done " {
			t.Errorf("row %d is %q in the end", id, got)
		}
	}
	if n := len(of[journal.Conflict](t, j)); n != 0 {
		t.Errorf("%d conflicts", n)
	}
}

// Regression: each row that was left had a warning of its own, hundreds after one failover. There is one
// for the event, with counts, some ids, and what lists and mends them.
func TestAFailoverIsToldInOneWarning(t *testing.T) {
	t.Parallel()
	j, table, returned := openJournal(t), storetest.NewMemory("one"), make(chan struct{}, 10)
	m := onServer(j, table, returned)
	var log bytes.Buffer
	m.Logger = slog.New(slog.NewTextHandler(&log, nil))
	run(t, m)
	await(t, "claims", returned)
	const rows = 300
	var newest uint64
	for id := int64(1); id <= rows; id++ {
		table.Put(id, journal.RowAccepted, token(id))
		newest = add(t, j, accepted(id, token(id)), running(id), done(id))
	}
	await(t, "their ends", m.Shown(newest, 0))
	table.Change(func() {
		table.Reached = "two"
		for id := int64(2); id <= rows; id++ { // another worker has them there
			table.Rows[id] = &store.Seen{Row: journal.Row{Job: id, Target: "a", Status: journal.RowRunning, Owner: "@zzzz00"}}
		}
		table.Rows[1].Status, table.Rows[1].Owner = journal.RowRunning, token(1)
	})
	m.CheckServer()
	await(t, "claims on the new server", returned)
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
	j, table, returned := openJournal(t), storetest.NewMemory("one"), make(chan struct{}, 10)
	m := onServer(j, table, returned)
	run(t, m)
	await(t, "claims", returned)
	var newest uint64
	for id := int64(1); id <= 7; id++ {
		table.Put(id, journal.RowAccepted, token(id))
		newest = add(t, j, accepted(id, token(id)), running(id), journal.Draft{Job: id, Payload: journal.Done{Result: "ok", Token: token(id)}})
	}
	await(t, "their ends", m.Shown(newest, 0))
	now := time.Now().Unix() // they have ended by then
	retried := func(id int64) journal.Draft {
		return journal.Draft{Job: id, Payload: journal.Retried{Target: "a", From: journal.RowDone, To: journal.RowWaiting, Result: "ok", Finished: now, By: "me"}}
	}
	newest = add(t, j, retried(1), retried(2), retried(3), retried(4), retried(5),
		journal.Draft{Job: 5, Payload: journal.Conflict{Wanted: journal.WantedRetried, Reason: "the row is done"}})
	await(t, "what was set back", m.Shown(newest, 0))
	table.Change(func() {
		table.Reached = "two"
		set := func(id int64, status, owner string, finished int64) {
			table.Rows[id] = &store.Seen{Row: journal.Row{Job: id, Target: "a", Status: status, Owner: owner}, Finished: finished}
		}
		set(1, journal.RowWaiting, "", now)      // set back here
		set(2, journal.RowRunning, token(2), 0)  // the replica lags: it ran, and will run again
		set(3, journal.RowRunning, "@zzzz00", 0) // another worker's
		set(4, journal.RowDone, "", now)         // the replica lags
		table.Rows[4].Result = "ok"
		set(5, journal.RowWaiting, "", 0)   // it was not set back after all, and the replica lags
		set(6, journal.RowWaiting, "", now) // set back by another worker
		set(7, journal.RowWaiting, "", 0)   // the replica lags
	})
	m.CheckServer()
	await(t, "claims on the new server", returned)
	want := map[int64]string{
		1: "waiting ", 2: "waiting ", 3: "running @zzzz00", 4: "done ", 5: "done ", 6: "waiting ", 7: "done ",
	}
	for id, text := range want {
		if got := table.Read(id); got != text {
			t.Errorf("row %d is %q, want %q", id, got, text)
		}
	}
}

// The new server is met by an update: what it answers counts for nothing before its rows were
// compared, else a row that it never saw claimed would be a conflict and end its claim.
func TestWhatAnUncheckedServerAnswersDoesNotCount(t *testing.T) {
	t.Parallel()
	j, table, returned := openJournal(t), storetest.NewMemory("one"), make(chan struct{}, 10)
	m := onServer(j, table, returned)
	run(t, m)
	await(t, "claims", returned)
	table.Put(1, journal.RowWaiting, "") // on the replica; the primary had it claimed
	table.Change(func() {
		table.OnApply = func() {
			if table.Reached == "one" {
				table.Reached = "two"
				m.CheckServer() // as a connection does that reached it
			}
		}
	})
	newest := add(t, j, accepted(1, token(1)), running(1))
	await(t, "the start", m.Shown(newest, 1))
	if got := table.Read(1); got != "running "+token(1) || len(of[journal.Conflict](t, j)) != 0 {
		t.Errorf("the row is %q, %d conflicts", got, len(of[journal.Conflict](t, j)))
	}
}

// Killed while it goes back: nothing is confirmed, and the next start does it again.
func TestGoingBackIsRepeatedAfterACrash(t *testing.T) {
	t.Parallel()
	j, table, returned := openJournal(t), storetest.NewMemory("one"), make(chan struct{}, 10)
	add(t, j, journal.Draft{Payload: journal.Server{Server: "one"}})
	newest := add(t, j, accepted(1, token(1)), running(1), done(1))
	j.SetPosition(newest)
	table.Put(1, journal.RowRunning, token(1))
	table.Reached = "two"
	ctx, kill := context.WithCancel(t.Context())
	killed := store.NewMirror(store.Config{
		Source: j, Bookmark: j, Table: &dying{table, kill}, Logger: discard(), Server: "one",
	})
	must.Do(t, killed.Run(ctx))
	if n := len(of[journal.Server](t, j)); n != 1 {
		t.Errorf("%d servers are journalled, want one", n)
	}
	if table.Confirmed != "" {
		t.Errorf("%q was confirmed before it was compared", table.Confirmed)
	}
	run(t, onServer(j, table, returned))
	await(t, "claims", returned)
	if got := table.Read(1); got != "done " {
		t.Errorf("the row is %q", got)
	}
}

// dying is a table whose user is killed when it has done what it was to do.
type dying struct {
	*storetest.Memory
	kill func()
}

// Apply implements store.Applier.
func (d *dying) Apply(ctx context.Context, changes []store.Change) ([]store.Outcome, error) {
	_, _ = d.Memory.Apply(ctx, changes)
	d.kill()
	return nil, ctx.Err()
}

// Only the last minutes are looked at, and no more than a number of events.
func TestGoingBackIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	j := must.Get(eventlog.Open(t.Context(), eventlog.Config{Dir: t.TempDir(), Now: func() time.Time { return now }}))(t)
	t.Cleanup(func() { _ = j.Close() })
	table, returned := storetest.NewMemory("two"), make(chan struct{}, 10)
	add(t, j, journal.Draft{Payload: journal.Server{Server: "one"}})
	for id := int64(1); id <= 2; id++ {
		j.SetPosition(add(t, j, accepted(id, token(id)), running(id), done(id)))
		table.Put(id, journal.RowWaiting, "")
		now = now.Add(9 * time.Minute)
	}
	j.SetPosition(add(t, j, accepted(3, token(3))))
	table.Put(3, journal.RowWaiting, "")
	run(t, onServer(j, table, returned))
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
	j, table, returned := openJournal(t), storetest.NewMemory("two"), make(chan struct{}, 10)
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
	m := store.NewMirror(store.Config{
		Source: j, Bookmark: j, Table: tries, Logger: discard(), Server: "one", OnReturn: func() { returned <- struct{}{} },
	})
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
	j, table, returned := openJournal(t), storetest.NewMemory("two"), make(chan struct{}, 10)
	add(t, j, journal.Draft{Payload: journal.Server{Server: "one"}})
	j.SetPosition(add(t, j, accepted(1, token(1)), running(1), done(1), accepted(2, token(2)), running(2), done(2)))
	table.Put(1, journal.RowWaiting, "")
	table.Put(2, journal.RowRunning, token(2))
	flaky := &flaky{Memory: table, fails: 2}
	m := store.NewMirror(store.Config{
		Source: j, Bookmark: j, Table: flaky, Logger: discard(), Server: "one", OnReturn: func() { returned <- struct{}{} },
	})
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

// flaky is a table that is lost a few times, after it did what it was to do.
type flaky struct {
	*storetest.Memory
	fails int
}

// Apply implements store.Applier.
func (f *flaky) Apply(ctx context.Context, changes []store.Change) ([]store.Outcome, error) {
	outcomes, err := f.Memory.Apply(ctx, changes)
	if f.fails--; f.fails >= 0 {
		return nil, &store.Unreachable{Op: "apply", Err: fmt.Errorf("link lost")}
	}
	return outcomes, err
}

// A claim that was cancelled before it was started makes its row ignored, by the mirror, and by the
// comparison with a server that lagged: whatever the row says there of that claim.
func TestCancelledClaimsAreMirroredAndMended(t *testing.T) {
	t.Parallel()
	j, table, returned := openJournal(t), storetest.NewMemory("one"), make(chan struct{}, 10)
	m := onServer(j, table, returned)
	run(t, m)
	await(t, "claims", returned)
	var newest uint64
	for id := int64(1); id <= 3; id++ {
		table.Put(id, journal.RowAccepted, token(id))
		add(t, j, accepted(id, token(id)))
		if id == 2 { // announced, and not started yet
			add(t, j, running(id))
		}
		newest = add(t, j, journal.Draft{Job: id, Payload: journal.Cancelled{By: "10.0.0.5:4711", Token: token(id)}})
	}
	table.Put(4, journal.RowAccepted, token(4)) // it runs, and somebody cancels it
	newest = max(newest, add(t, j, accepted(4, token(4)), running(4), journal.Draft{Job: 4, Payload: journal.Cancelled{By: "10.0.0.5:4711", Runs: true, Token: token(4)}}))
	await(t, "all of it", m.Shown(newest, 0))
	check := func(where string) {
		t.Helper()
		for id, want := range map[int64]string{1: "ignored ", 2: "ignored ", 3: "ignored ", 4: "running " + token(4)} {
			if got := table.Read(id); got != want {
				t.Errorf("%s: row %d is %q, want %q", where, id, got, want)
			}
		}
	}
	check("mirrored")
	table.Change(func() {
		table.Reached = "two"
		for id, row := range map[int64]journal.Row{
			1: {Status: journal.RowWaiting}, 2: {Status: journal.RowRunning, Owner: token(2)}, 3: {Status: journal.RowAccepted, Owner: token(3)},
			4: {Status: journal.RowAccepted, Owner: token(4)},
		} {
			row.Job, row.Target = id, "a"
			table.Rows[id] = &store.Seen{Row: row}
		}
	})
	m.CheckServer()
	await(t, "claims on the new server", returned)
	check("mended")
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
