package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"jobd/journal"
	"jobd/store"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// Fixture is a fresh, empty jobs table and the ways to it.
type Fixture struct {
	// DB is the application's own access: it inserts the rows and looks at them.
	DB *sql.DB
	// Table is a worker's access, closed by the fixture's maker.
	Table store.Table
	// Other is another worker's.
	Other store.Table
	// RowLocks tells that transactions lock rows one by one; otherwise they
	// wait for each other.
	RowLocks bool
	// Charset is what stdout and stderr can hold.
	Charset journal.Charset
}

// Run runs the suite; fresh makes the fixture for each of its tests.
func Run(t *testing.T, fresh func(t *testing.T) Fixture) {
	groups := []struct {
		name  string
		tests []test
	}{
		{"Claim", claimTests()},
		{"ClaimManual", manualTests()},
		{"Retry", retryTests()},
		{"Apply", applyTests()},
		{"Output", outputTests()},
		{"Rows", rowsTests()},
		{"Look", lookTests()},
		{"Detail", detailTests()},
		{"Server", serverTests()},
		{"Waiting", waitingTests()},
		{"CountWaiting", countTests()},
		{"Refused", refusedTests()},
		{"Hold", holdTests()},
		{"Reconcile", reconcileTests()},
		{"Cancel", cancelTests()},
	}
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, one := range group.tests {
				t.Run(one.name, func(t *testing.T) {
					t.Parallel()
					one.run(&suite{T: t, Fixture: fresh(t)})
				})
			}
		})
	}
}

// test is one test of the suite.
type test struct {
	name string
	run  func(s *suite)
}

// suite is what a test works with.
type suite struct {
	*testing.T
	Fixture
}

// The token and the times, in unix seconds, that tests use where they need just one.
const (
	token    = "@abcd01234"
	started  = 1_700_000_000
	finished = 1_700_000_060
)

// row is what the application sees of a job.
type row struct {
	Target, Status     string
	Started, Finished  int64
	Result, Sig        string // "" where NULL
	Code               int64  // -1 where NULL
	Stdout, Stderr     string // "" where NULL
	ResultNull, SigSet bool
}

// insert adds a row as the application does, or as a former run left it, and gives its id.
func (s *suite) insert(target, status, owner string) int64 {
	s.Helper()
	var sig any
	if owner != "" {
		sig = owner
	}
	result := must.Get(s.DB.Exec("INSERT INTO jobs (target, time_created, status, sig) VALUES (?, 1, ?, ?)", target, status, sig))(s)
	id := must.Get(result.LastInsertId())(s)
	return id
}

// insertAll adds n rows.
func (s *suite) insertAll(n int, target, status, owner string) []int64 {
	s.Helper()
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = s.insert(target, status, owner)
	}
	return ids
}

// read is the row of a job as it stands.
func (s *suite) read(id int64) row {
	s.Helper()
	var r row
	var result, sig, stdout, stderr sql.NullString
	var code sql.NullInt64
	err := s.DB.QueryRow("SELECT target, status, time_started, time_finished, result, return_code, sig, stdout, stderr FROM jobs WHERE id = ?", id).
		Scan(&r.Target, &r.Status, &r.Started, &r.Finished, &result, &code, &sig, &stdout, &stderr)
	if err != nil {
		s.Fatalf("read job %d: %v", id, err)
	}
	r.Result, r.Sig, r.Stdout, r.Stderr = result.String, sig.String, stdout.String, stderr.String
	r.ResultNull, r.SigSet = !result.Valid, sig.Valid
	r.Code = -1
	if code.Valid {
		r.Code = code.Int64
	}
	return r
}

// expect compares a row's status and owner.
func (s *suite) expect(id int64, status, owner string) {
	s.Helper()
	if got := s.read(id); got.Status != status || got.Sig != owner {
		s.Errorf("job %d is %s with owner %q, want %s with %q", id, got.Status, got.Sig, status, owner)
	}
}

// exec changes the table as somebody else would.
func (s *suite) exec(query string, args ...any) {
	s.Helper()
	if _, err := s.DB.Exec(query, args...); err != nil {
		s.Fatal(err)
	}
}

// apply applies changes and compares their fates and what they found.
func (s *suite) apply(changes []store.Change, want []store.Outcome) {
	s.Helper()
	got, err := s.Table.Apply(s.Context(), changes)
	if err != nil {
		s.Fatalf("Apply: %v", err)
	}
	check.Diff(s, want, got, "outcomes")
}

// acceptAll decides that every row is accepted, under one token, and keeps what it was given.
type acceptAll struct {
	token string
	calls int
	rows  []journal.Row
}

func (a *acceptAll) decide(rows []journal.Row) ([]journal.Event, error) {
	a.calls++
	a.rows = rows
	var events []journal.Event
	for _, r := range rows {
		events = append(events, journal.Event{Job: r.Job, Payload: journal.Accepted{Target: r.Target, Token: a.token}})
	}
	return events, nil
}

// timeless are rows without what the server's clock said, see rowsTellTheClock.
func timeless(rows []journal.Row) []journal.Row {
	rows = slices.Clone(rows)
	for i := range rows {
		rows[i].Now = time.Time{}
	}
	return rows
}

// jobs are the ids of rows, in their order.
func jobs(rows []journal.Row) []int64 {
	var ids []int64
	for _, r := range rows {
		ids = append(ids, r.Job)
	}
	return ids
}

// ended is how a job ended, with texts as its output.
func ended(result string, code *int, signal, stdout, stderr string) *journal.Done {
	return &journal.Done{
		Result: result, Code: code, Signal: signal,
		Stdout: output(stdout), Stderr: output(stderr),
	}
}

// output is a stream that was kept whole.
func output(text string) journal.Output {
	return journal.Output{Kept: []byte(text), Size: int64(len(text))}
}

// done is a change to done.
func done(job int64, how *journal.Done) store.Change {
	return store.Change{Job: job, Token: token, Status: journal.RowDone, Start: time.Unix(started, 0), Finish: time.Unix(finished, 0), Done: how}
}

// tokenOf is a token of its own for each n.
func tokenOf(n int) string { return fmt.Sprintf("@wrkr%05d", n) }

// hung is how long a wait may take: it ends a test that hangs, and is far more than any takes.
const hung = 2 * time.Minute

// within is a context that ends a test which would wait for ever.
func (s *suite) within(limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), limit)
	s.Cleanup(cancel)
	return ctx
}

func serverTests() []test {
	return []test{
		{"claims are made on the confirmed server only", claimsNeedConfirmation},
	}
}

func claimsNeedConfirmation(s *suite) {
	server, err := s.Table.Server(s.Context())
	if err != nil || server == "" {
		s.Fatalf("Server: %q, %v", server, err)
	}
	if other, err := s.Other.Server(s.Context()); err != nil || other != server {
		s.Errorf("another worker's server is %q, %v; want %q", other, err, server)
	}
	id := s.insert("a", journal.RowWaiting, "")
	ours := s.insert("a", journal.RowRunning, token)
	s.Table.Confirm("elsewhere")
	decision := &acceptAll{token: token}
	_, manualErr := s.Table.ClaimManual(s.Context(), []int64{id}, nil, decision.decide)
	for _, err := range []error{s.Table.Claim(s.Context(), map[string]int{"a": 1}, nil, decision.decide), manualErr} {
		var another *store.AnotherServer
		if !errors.As(err, &another) || another.Reached != server || another.Confirmed != "elsewhere" || store.IsAway(err) {
			s.Errorf("a claim: %v; want it to be refused at %s", err, server)
		}
	}
	if decision.calls > 0 {
		s.Errorf("decide was called %d times", decision.calls)
	}
	s.expect(id, journal.RowWaiting, "")

	s.apply([]store.Change{done(ours, ended("ok", code(0), "", "", ""))}, []store.Outcome{{}})
	_, lookErr := s.Table.Look(s.Context(), []int64{id})
	_, _, rowsErr := s.Table.Rows(s.Context(), []int64{id})
	_, wayErr := s.Table.UnderWay(s.Context(), token, nil)
	if err := errors.Join(lookErr, rowsErr, wayErr); err != nil {
		s.Errorf("what is no claim: %v", err)
	}
	s.Table.Confirm(server)
	if err := s.Table.Claim(s.Context(), map[string]int{"a": 1}, nil, decision.decide); err != nil {
		s.Errorf("a claim on the confirmed server: %v", err)
	}
	s.expect(id, journal.RowAccepted, token)
}

func waitingTests() []test {
	return []test{
		{"targets with waiting rows, beside some", waitingBeside},
		{"it waits for no writer", waitingWaitsForNobody},
		{"rows that somebody's open transaction holds", heldRows(func(s *suite, tx *sql.Tx) {
			s.execIn(tx, "SELECT * FROM jobs WHERE target = 'a' FOR UPDATE")
		})},
		{"rows that an open claim has changed, which may be undone", heldRows(func(s *suite, tx *sql.Tx) {
			s.execIn(tx, "UPDATE jobs SET status = 'accepted' WHERE target = 'a'")
		})},
		{"rows that somebody is about to remove, which may be undone", heldRows(func(s *suite, tx *sql.Tx) {
			s.execIn(tx, "DELETE FROM jobs WHERE target = 'a'")
		})},
		{"rows of an INSERT that is not committed yet", heldRows(func(s *suite, tx *sql.Tx) {
			s.exec("DELETE FROM jobs")
			s.execIn(tx, "INSERT INTO jobs (target, time_created) VALUES ('a', 1)")
		})},
	}
}

// waiting compares what Waiting tells.
func (s *suite) waiting(except []int64, want ...string) {
	s.Helper()
	got, err := s.Table.Waiting(s.within(hung), []string{"a", "b", "c", "d"}, except)
	if err != nil {
		s.Fatalf("Waiting: %v", err)
	}
	check.Diff(s, want, got, "targets that wait")
}

func waitingBeside(s *suite) {
	s.waiting(nil)
	a := s.insertAll(3, "a", journal.RowWaiting, "")
	b := s.insert("b", journal.RowWaiting, "")
	s.insert("c", journal.RowManual, "")
	s.insert("d", journal.RowAccepted, token)
	s.waiting(nil, "a", "b")
	s.waiting(a[:2], "a", "b")
	s.waiting(a, "b")
	s.waiting(append(slices.Clone(a), b))
	if got, err := s.Table.Waiting(s.Context(), nil, nil); err != nil || len(got) > 0 {
		s.Errorf("without targets: %v, %v", got, err)
	}
	var many []string
	for i := range 250 {
		many = append(many, "t"+strconv.Itoa(i))
	}
	if got, err := s.Table.Waiting(s.Context(), append(many, "b"), nil); err != nil || !slices.Equal(got, []string{"b"}) {
		s.Errorf("with many targets: %v, %v", got, err)
	}
}

func waitingWaitsForNobody(s *suite) {
	s.insert("a", journal.RowWaiting, "")
	tx := s.begin()
	s.execIn(tx, "UPDATE jobs SET time_created = 2")
	s.quick(func() { s.waiting(nil, "a") })
}

// quick checks that something waits for no lock: the least that a server waits is a second. A busy
// machine, which rings a timer late meanwhile, gets some more time: it does that to each statement.
func (s *suite) quick(work func()) {
	s.Helper()
	const pause = 5 * time.Millisecond
	stop, late := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		var most time.Duration
		for begun := time.Now(); ; begun = time.Now() {
			select {
			case <-time.After(pause):
				most = max(most, time.Since(begun)-pause)
			case <-stop:
				late <- most
				return
			}
		}
	}()
	took := func() time.Duration {
		defer close(stop)
		begun := time.Now()
		work()
		return time.Since(begun)
	}()
	if limit := 900*time.Millisecond + 20*<-late; took > limit {
		s.Errorf("it took %s, more than %s: it has waited for a lock", took, limit)
	}
}

// begin opens a transaction of the application's.
func (s *suite) begin() *sql.Tx {
	s.Helper()
	tx := must.Get(s.DB.BeginTx(context.Background(), nil))(s)
	s.Cleanup(func() { _ = tx.Rollback() }) // where the test has not ended it
	return tx
}

// execIn changes the table in a transaction of the application's.
func (s *suite) execIn(tx *sql.Tx, query string, args ...any) {
	s.Helper()
	if _, err := tx.Exec(query, args...); err != nil {
		s.Fatalf("%s: %v", query, err)
	}
}

// heldRows are waiting rows of target a that a claim passes by, and Waiting does not.
func heldRows(hold func(s *suite, tx *sql.Tx)) func(s *suite) {
	return func(s *suite) {
		if !s.RowLocks {
			s.Skip("transactions wait for each other here: a claim never passes by a row")
		}
		s.insertAll(2, "a", journal.RowWaiting, "")
		s.waitingIsConnected()
		tx := s.begin()
		hold(s, tx)
		decision := &acceptAll{token: token}
		s.quick(func() {
			must.Do(s, s.Table.Claim(s.Context(), map[string]int{"a": 5}, nil, decision.decide))
			s.waiting(nil, "a")
		})
		if len(decision.rows) > 0 {
			s.Errorf("the claim got %v", decision.rows)
		}
	}
}

// waitingIsConnected lets the table examine what it must, so that it takes no time later.
func (s *suite) waitingIsConnected() {
	s.Helper()
	if _, err := s.Table.Waiting(s.Context(), []string{"a"}, nil); err != nil {
		s.Fatal(err)
	}
}

// RunTimekeeper tests what a table tells people about time. The table has all optional columns, which
// uses names and plain does not; it is empty.
func RunTimekeeper(t *testing.T, db *sql.DB, uses, plain store.Table) {
	s := &timekeeping{T: t, db: db}
	const far = 4_000_000_000
	daily := s.insert("a", "delayed", "run_at = ?, planned_at = ?, schedule = 'daily 02:30', time_zone = 'Europe/Berlin', result = 'fail', return_code = 3, time_started = 5, time_finished = 7", far, far)
	waits := s.insert("a", "waiting", "schedule = 'every 5m', attempts = 0")
	runs := s.insert("b", "running", "schedule = 'hourly :15', planned_at = 60, attempts = 2, sig = '@abcd01234'")
	s.insert("a", "done", "schedule = 'every 5m'")
	s.insert("a", "delayed", "run_at = 50, max_attempts = 4, timeout = 9")
	s.insert("a", "waiting", "schedule = ''")
	s.insert("c", "waiting", "schedule = 'every 5m'")
	three := int64(3)
	want := []*store.Seen{
		{
			Row: journal.Row{
				Job: daily, Target: "a", Status: "delayed",
				Plan: &journal.Plan{RunAt: far, PlannedAt: far, Schedule: "daily 02:30", Zone: "Europe/Berlin"},
			}, Created: 1, Started: 5, Finished: 7, Result: "fail", Code: &three,
		},
		{Row: journal.Row{Job: waits, Target: "a", Status: "waiting", Plan: &journal.Plan{Schedule: "every 5m"}}, Created: 1},
		{
			Row: journal.Row{
				Job: runs, Target: "b", Status: "running", Owner: "@abcd01234",
				Plan: &journal.Plan{PlannedAt: 60, Attempts: 2, Schedule: "hourly :15"},
			}, Created: 1,
		},
	}
	s.recurring(uses, math.MinInt64, 10, want...)
	s.recurring(uses, math.MinInt64, 2, want[:2]...)
	s.recurring(uses, waits, 10, want[2])
	s.recurring(uses, runs, 10)
	if _, err := plain.Free(t.Context(), "delayed", []string{"a"}, math.MaxInt64, 10); !errors.Is(err, store.ErrNoDelays) {
		t.Errorf("free rows of a table without run_at: %v", err)
	}
	if free, err := uses.Free(t.Context(), "delayed", []string{"a"}, math.MaxInt64, 1); err != nil || len(free) != 1 || free[0].Job != daily+4 || free[0].Plan.RunAt != 50 {
		t.Errorf("delayed rows, the newest first: %v, %v", free, err)
	}
	if _, err := plain.Recurring(t.Context(), []string{"a"}, 0, 10); !errors.Is(err, store.ErrNoSchedules) {
		t.Errorf("of a table without schedules: %v", err)
	}
	s.insert("a", "delayed", "run_at = 60")
	s.due(uses, "a", 0, 10, store.Counted{Rows: 2, Oldest: 50})
	s.due(uses, "a", 0, 1, store.Counted{Rows: 1, More: true, Oldest: 50})
	s.due(uses, "a", 60, 10, store.Counted{Rows: 1, Oldest: 50})
	s.due(uses, "b", 0, 10, store.Counted{})
	s.due(uses, "no such target, and far longer than the column is", 0, 10, store.Counted{})
	s.due(plain, "a", 0, 10, store.Counted{})
}

// timekeeping is what its test works with.
type timekeeping struct {
	*testing.T
	db *sql.DB
}

// insert adds a row, and gives its id.
func (s *timekeeping) insert(target, status, set string, args ...any) int64 {
	s.Helper()
	result := must.Get(s.db.Exec("INSERT INTO jobs (target, time_created, status) VALUES (?, 1, ?)", target, status))(s)
	id := must.Get(result.LastInsertId())(s)
	if _, err := s.db.Exec("UPDATE jobs SET "+set+" WHERE id = ?", append(args, id)...); err != nil {
		s.Fatal(err)
	}
	return id
}

func (s *timekeeping) recurring(table store.Table, after int64, limit int, want ...*store.Seen) {
	s.Helper()
	got := must.Get(table.Recurring(s.Context(), []string{"a", "b", "none"}, after, limit))(s)
	if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
		s.Errorf("recurring after %d (-want +got):\n%s", after, diff)
	}
}

func (s *timekeeping) due(table store.Table, target string, before int64, most int, want store.Counted) {
	s.Helper()
	if got, err := table.CountDue(s.Context(), target, before, most); err != nil || got != want {
		s.Errorf("due of %s before %d: %+v, %v, want %+v", target, before, got, err, want)
	}
}
