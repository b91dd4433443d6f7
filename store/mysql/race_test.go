package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"jobd/journal"
	"jobd/store"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
)

// begin opens a transaction of the application's.
func (d *database) begin(t *testing.T, statements ...string) *sql.Tx {
	t.Helper()
	tx := must.Get(d.app.BeginTx(context.Background(), nil))(t)
	t.Cleanup(func() { _ = tx.Rollback() }) // where the test has not ended it
	for _, statement := range statements {
		if _, err := tx.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return tx
}

// claimInBackground claims a job and counts the calls of decide.
func claimInBackground(ctx context.Context, table store.Table, ids ...int64) (result <-chan error, calls *int) {
	ended, calls := make(chan error, 1), new(int)
	go func() {
		_, err := table.ClaimManual(ctx, ids, nil, func(rows []journal.Row) ([]journal.Event, error) {
			*calls++
			return accept(rows)
		})
		ended <- err
	}()
	return ended, calls
}

// The loser of a deadlock (1213) begins again.
func TestPitfall5Deadlock(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	table := db.table(t)
	if err := table.Pretend("5.7.44"); err != nil { // with SKIP LOCKED no claim waits, and so none is part of a deadlock
		t.Fatal(err)
	}
	first, second := db.insert(t, "a", journal.RowManual, ""), db.insert(t, "a", journal.RowManual, "")
	for range 20 { // rows that make the application's transaction the heavier one
		db.insert(t, "z", journal.RowDone, "")
	}
	holder := db.begin(t, "UPDATE jobs SET time_started = 1 WHERE target = 'z'", "UPDATE jobs SET time_started = 1 WHERE id = 2")
	result, calls := claimInBackground(t.Context(), table, first, second)
	db.awaitWaiter(t)
	if _, err := holder.Exec("UPDATE jobs SET time_started = 1 WHERE id = 1"); err != nil {
		t.Fatalf("the application lost the deadlock: %v", err)
	}
	if err := errors.Join(holder.Commit(), <-result); err != nil || *calls != 1 {
		t.Errorf("the claim: %v, decide called %d times; want success and one call", err, *calls)
	}
}

// failing makes the next n updates of the table fail as a Galera node refuses them. The counter's
// table has no transactions, so that it counts what is rolled back too.
func (d *database) failing(t *testing.T, n int) {
	t.Helper()
	d.exec(t, "CREATE TABLE failures (n int) ENGINE=MyISAM")
	d.exec(t, "INSERT INTO failures VALUES (?)", n)
	d.exec(t, `CREATE TRIGGER galera BEFORE UPDATE ON jobs FOR EACH ROW BEGIN
		UPDATE failures SET n = n - 1;
		IF (SELECT n FROM failures) >= 0 THEN
			SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'certification failed';
		END IF; END`)
}

// After decide was called nothing is tried again: the caller is told that nothing happened.
func TestPitfall15ConflictAfterDecide(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	table := db.table(t)
	id := db.insert(t, "a", journal.RowManual, "")
	db.failing(t, 1)
	result, calls := claimInBackground(t.Context(), table, id)
	var overtaken *store.Overtaken
	if err := <-result; !errors.As(err, &overtaken) || unusable(err) || *calls != 1 {
		t.Fatalf("the claim: %v, decide called %d times; want an error that it was overtaken, and one call", err, *calls)
	}
	rows, _, err := table.Rows(t.Context(), []int64{id})
	if err != nil || len(rows) != 1 || rows[0].Status != journal.RowManual || rows[0].Owner != "" {
		t.Errorf("Rows: %v, %v; want the row as it was", rows, err)
	}
	if _, err := table.ClaimManual(t.Context(), []int64{id}, nil, accept); err != nil {
		t.Errorf("the next claim: %v", err)
	}
}

// Applying is tried again; a row that fails again and again is held by itself.
func TestPitfall15ConflictWhileApplying(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name     string
		failures int
		fate     store.Fate
	}{{"twice", 2, store.Applied}, {"too often", 100, store.Held}}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, dbserver.JobsTable)
			table := db.table(t)
			id := db.insert(t, "a", journal.RowRunning, token)
			db.failing(t, c.failures)
			got, err := table.Apply(t.Context(), []store.Change{done(id, "x")})
			if err != nil || got[0].Fate != c.fate {
				t.Fatalf("Apply: %v, %v; want fate %d", got, err, c.fate)
			}
			db.expect(t, id, "status", map[store.Fate]string{store.Applied: "done", store.Held: "running"}[c.fate])
		})
	}
}

// awaitStatement waits until a statement of the database's account is in some state.
func (d *database) awaitStatement(t *testing.T, state string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	for waiting := 0; waiting == 0; {
		err := d.server.Admin().QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE user = ? AND state LIKE ?",
			d.account.User, "%"+state+"%").Scan(&waiting)
		if err != nil {
			t.Fatalf("no statement is in state %q: %v", state, err)
		}
	}
}

// A cancelled claim leaves no lock behind, and what was decided is committed.
func TestPitfall7Cancel(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	table := db.table(t)
	id := db.insert(t, "a", journal.RowManual, "")

	t.Run("before decide", func(t *testing.T) {
		holder := must.Get(db.app.Conn(t.Context()))(t)
		defer holder.Close()
		if _, err := holder.ExecContext(t.Context(), "LOCK TABLES jobs WRITE"); err != nil { // as ALTER TABLE does
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		result, calls := claimInBackground(ctx, table, id)
		db.awaitStatement(t, "metadata lock")
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) || *calls != 0 {
			t.Errorf("the claim: %v, decide called %d times", err, *calls)
		}
		must.Get(holder.ExecContext(t.Context(), "UNLOCK TABLES"))(t)
	})
	t.Run("after decide", func(t *testing.T) {
		for free := 0; free == 0; { // the server may only be ending the statement that was cancelled
			must.Do(t, db.app.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM (SELECT id FROM jobs WHERE id = ? FOR UPDATE SKIP LOCKED) AS held", id).Scan(&free))
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, err := table.ClaimManual(ctx, []int64{id}, nil, func(rows []journal.Row) ([]journal.Event, error) {
			cancel()
			return accept(rows)
		})
		if err != nil {
			t.Errorf("the claim: %v", err)
		}
		db.expect(t, id, "status sig", "accepted "+token)
	})
}
