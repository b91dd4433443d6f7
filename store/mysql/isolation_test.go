package mysql_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/storetest/check"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
)

// With binlog_format=STATEMENT the server refuses READ COMMITTED.
func TestPitfall1LevelRefused(t *testing.T) {
	t.Parallel()
	server := newServer(t, "--log-bin=binlog", "--server-id=1", "--binlog-format=STATEMENT")
	db := newDatabaseOn(t, server, dbserver.JobsTable)
	var written log
	config := db.config()
	config.Logger = written.logger()
	table := confirmed(t, open(t, config))
	id := db.insert(t, "a", journal.RowWaiting, "")
	must.Do(t, table.Claim(t.Context(), map[string]int{"a": 1}, nil, accept))
	if got, err := table.Apply(t.Context(), []store.Change{done(id, "x")}); err != nil || got[0] != (store.Outcome{}) {
		t.Fatalf("Apply: %v, %v", got, err)
	}
	db.expect(t, id, "status stdout", "done x")
	if n := strings.Count(written.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings, want one:\n%s", n, written.String())
	}
}

// A server may be set up to commit nothing by itself, to begin a transaction behind each, or to cut
// answers, with which the table would lack columns, and claims in doubt their rows.
func TestServersWithDefaultsOfTheirOwn(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"autocommit = OFF", "completion_type = CHAIN", "sql_select_limit = 1"} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			db := newDatabaseOn(t, newServer(t), dbserver.JobsTable)
			db.app.SetMaxOpenConns(1) // and that one is as usual
			must.Get(db.app.Exec("SET GLOBAL " + setting))(t)
			ids := []int64{db.insert(t, "a", journal.RowWaiting, ""), db.insert(t, "a", journal.RowWaiting, "")}
			config := db.config()
			table := confirmed(t, open(t, config))
			table.DB().SetMaxOpenConns(1)
			must.Do(t, table.Claim(t.Context(), map[string]int{"a": 2}, nil, accept))
			for _, id := range ids {
				if got, err := table.Apply(t.Context(), []store.Change{done(id, "x")}); err != nil || got[0] != (store.Outcome{}) {
					t.Fatalf("Apply: %v, %v", got, err)
				}
				db.expect(t, id, "status stdout", "done x")
			}
		})
	}
}

// A claim locks the rows that it takes, no other candidate.
func TestPitfall2LocksNoMoreThanItTakes(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	table := db.table(t)
	var want []int64
	for i := range 40 {
		id := db.insert(t, []string{"b", "a"}[i%2], journal.RowWaiting, "")
		if i >= 4 {
			want = append(want, id)
		}
	}
	must.Do(t, table.Claim(t.Context(), map[string]int{"a": 2, "b": 2}, nil, func([]journal.Row) ([]journal.Event, error) {
		check.Diff(t, want, db.unlocked(t), "rows that are not locked")
		return nil, nil
	}))
}

// unlocked are the rows that no transaction holds.
func (d *database) unlocked(t *testing.T) []int64 {
	t.Helper()
	rows := must.Get(d.app.Query("SELECT id FROM jobs ORDER BY id FOR UPDATE SKIP LOCKED"))(t)
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		must.Do(t, rows.Scan(&id))
		ids = append(ids, id)
	}
	return ids
}

// Servers without SKIP LOCKED make the second claim wait for the first: then it gets the rows behind.
func TestPitfall3OldServer(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"5.7.44", "10.5.29-MariaDB"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, dbserver.JobsTable)
			first, second := db.table(t), db.table(t)
			must.Do(t, errors.Join(first.Pretend(version), second.Pretend(version)))
			for range 4 {
				db.insert(t, "a", journal.RowWaiting, "")
			}
			var got [2][]int64
			behind := make(chan error, 1)
			err := first.Claim(t.Context(), map[string]int{"a": 2}, nil, func(rows []journal.Row) ([]journal.Event, error) {
				got[0] = jobs(rows)
				go func() {
					behind <- second.Claim(t.Context(), map[string]int{"a": 2}, nil, func(rows []journal.Row) ([]journal.Event, error) {
						got[1] = jobs(rows)
						return accept(rows)
					})
				}()
				db.awaitWaiter(t)
				return accept(rows)
			})
			must.Do(t, errors.Join(err, <-behind))
			check.Diff(t, [2][]int64{{1, 2}, {3, 4}}, got, "the two claims")
		})
	}
}

// awaitWaiter waits until a statement of this database's account waits for a lock, and gives its
// number. Only InnoDB's status tells at once: its tables are a cache that polling keeps old.
func (d *database) awaitWaiter(t *testing.T) (query string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	ours := regexp.MustCompile(`query id (\d+) .*\b` + d.account.User + `\b`)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		var kind, name, status string
		if err := d.app.QueryRowContext(ctx, "SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &status); err != nil {
			t.Fatalf("nobody waits for a lock: %v", err)
		}
		for transaction := range strings.SplitSeq(status, "---TRANSACTION") {
			if found := ours.FindStringSubmatch(transaction); found != nil && strings.Contains(transaction, "LOCK WAIT") {
				return found[1]
			}
		}
		<-again.C
	}
}

// Every session has the limits that keep a lost one from holding locks for hours.
func TestPitfall6Session(t *testing.T) {
	t.Parallel()
	table := newDatabase(t, dbserver.JobsTable).table(t)
	var idle, lock, tableLock int
	var mode, charset, level string
	must.Do(t, table.DB().QueryRow("SELECT @@wait_timeout, @@innodb_lock_wait_timeout, @@lock_wait_timeout, @@sql_mode, @@character_set_connection").Scan(&idle, &lock, &tableLock, &mode, &charset))
	name := "@@transaction_isolation"
	if table.DB().QueryRow("SELECT "+name).Scan(&level) != nil {
		name = "@@tx_isolation" // MariaDB before 11.1
	}
	if err := table.DB().QueryRow("SELECT " + name).Scan(&level); err != nil || level != "READ-COMMITTED" {
		t.Errorf("isolation level %q, %v", level, err)
	}
	if idle != 30 || lock != 1 || tableLock != 5 || !strings.Contains(mode, "STRICT_ALL_TABLES") || charset != "utf8mb4" {
		t.Errorf("wait_timeout %d, innodb_lock_wait_timeout %d, lock_wait_timeout %d, sql_mode %q, charset %q", idle, lock, tableLock, mode, charset)
	}
}

// A claim takes two round trips, applying one, however many targets and changes there are.
func TestPitfall16RoundTrips(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	var writes atomic.Int64
	config := db.config()
	config.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return countingConn{conn, &writes}, err
	}
	table := confirmed(t, open(t, config))
	var changes []store.Change
	for _, target := range []string{"a", "b", "c", "a", "b", "c"} {
		changes = append(changes, done(db.insert(t, target, journal.RowWaiting, ""), "x"))
	}
	writes.Store(0)
	must.Do(t, table.Claim(t.Context(), map[string]int{"a": 5, "b": 5, "c": 5}, nil, accept))
	if n := writes.Swap(0); n != 2 {
		t.Errorf("a claim of three targets took %d round trips, want 2", n)
	}
	must.Get(table.Apply(t.Context(), changes))(t)
	if n := writes.Load(); n != 1 {
		t.Errorf("applying %d changes took %d round trips, want 1", len(changes), n)
	}
}

// countingConn counts packets that are sent, less the one that ends the connection.
type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countingConn) Write(p []byte) (int, error) {
	if !bytes.Equal(p, []byte{1, 0, 0, 0, 1}) {
		c.writes.Add(1)
	}
	return c.Conn.Write(p)
}

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
