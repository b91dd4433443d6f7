package mysql_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
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
		if diff := cmp.Diff(want, db.unlocked(t)); diff != "" {
			t.Errorf("rows that are not locked (-want +got):\n%s", diff)
		}
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
			if diff := cmp.Diff([2][]int64{{1, 2}, {3, 4}}, got); diff != "" {
				t.Errorf("the two claims (-want +got):\n%s", diff)
			}
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
