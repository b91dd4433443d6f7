package storetest

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
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
	result, err := s.DB.Exec("INSERT INTO jobs (target, time_created, status, sig) VALUES (?, 1, ?, ?)", target, status, sig)
	if err != nil {
		s.Fatal(err)
	}
	id, err := result.LastInsertId()
	if err != nil {
		s.Fatal(err)
	}
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
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("outcomes (-want +got):\n%s", diff)
	}
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
