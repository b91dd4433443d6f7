package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/storetest/check"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
)

// double inserts so many waiting rows of a target, as fast as the server can, doubling them.
func (d *database) double(t testing.TB, target string, rows int) {
	t.Helper()
	d.insert(t, target, journal.RowWaiting, "")
	for have := 1; have < rows; have *= 2 {
		d.exec(t, "INSERT INTO jobs (target, time_created, status) SELECT target, 2, status FROM jobs WHERE target = ? LIMIT ?",
			target, min(have, rows-have))
	}
}

// Of twenty thousand waiting rows no more are read than are counted, and those that are shown.
func TestManyWaitingRowsAreNotAllRead(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	db.double(t, "a", 20_000)
	db.insert(t, "b", journal.RowWaiting, "")
	db.exec(t, "ANALYZE TABLE jobs")
	var newest int64
	must.Do(t, db.app.QueryRow("SELECT MAX(id) FROM jobs WHERE target = 'a'").Scan(&newest))
	table := db.table(t)
	table.DB().SetMaxOpenConns(1)
	const most = 1_000
	count := func(target string) func() (any, error) {
		return func() (any, error) { return table.CountWaiting(t.Context(), target, most) }
	}
	waiters := []store.Waiter{{Job: 1, Target: "a"}, {Job: newest / 2, Target: "a"}, {Job: newest, Target: "a"}}
	full := store.Counted{Rows: most, More: true}
	for name, c := range map[string]struct {
		ask   func() (any, error)
		want  any
		reads int // at most: a counted row is read in the index, and once more in the list of them
	}{
		"many":    {count("a"), store.Counted{Rows: most, More: true, Oldest: 1}, 2*most + 100},
		"one":     {count("b"), store.Counted{Rows: 1, Oldest: 1}, 100},
		"none":    {count("c"), store.Counted{}, 100},
		"waiters": {func() (any, error) { return table.Ahead(t.Context(), waiters, most) }, map[int64]store.Counted{1: {}, newest / 2: full, newest: full}, 2*most + 100},
		"details": {func() (any, error) {
			found, err := table.Details(t.Context(), []int64{1, newest}, []string{"a"}, 100)
			return len(found), err
		}, 2, 100},
	} {
		before := handlers(t, table)
		got, err := c.ask()
		if reads := handlers(t, table) - before; err != nil || reads > c.reads {
			t.Errorf("%s: %v, %d rows and entries of indexes are read", name, err, reads)
		}
		check.Diff(t, c.want, got, "%s", name)
	}
}

// Where nothing makes it quick, the server gives it up by itself, and says what is missing.
func TestACountThatTakesTooLongIsGivenUp(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	db.insert(t, "a", journal.RowWaiting, "")
	table := db.table(t)
	must.Get(table.CountWaiting(t.Context(), "a", 1))(t)
	// A row that takes ten seconds to be looked at.
	db.exec(t, "RENAME TABLE jobs TO slow_jobs")
	db.exec(t, "CREATE SQL SECURITY DEFINER VIEW jobs AS SELECT * FROM slow_jobs WHERE SLEEP(10) = 0")
	begun := time.Now()
	_, err := table.CountWaiting(t.Context(), "a", 1)
	if err == nil || !strings.Contains(err.Error(), "is there an index on status and target") || store.IsAway(err) {
		t.Errorf("after %v: %v", time.Since(begun), err)
	}
	var running int
	row := db.app.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE user = ? AND info LIKE '%slow%'", db.account.User)
	if err := row.Scan(&running); err != nil || running > 0 {
		t.Errorf("the server goes on with %d, %v", running, err)
	}
}

// statements are those that the server was sent.
type statements struct{ all []string }

// with is the one that has a text in it.
func (s *statements) with(text string) string {
	for _, one := range s.all {
		if strings.Contains(one, text) && !strings.Contains(one, "general_log") {
			return one
		}
	}
	return ""
}

// unlimited is a query without what limits its time on MariaDB, which can't explain that.
func unlimited(query string) string {
	if _, rest, limits := strings.Cut(query, " FOR SELECT "); limits {
		return "SELECT " + rest
	}
	return query
}

// record has the server note what it is sent meanwhile.
func (d *database) record(t testing.TB, into *statements, meanwhile func()) {
	t.Helper()
	for _, set := range []string{"SET GLOBAL log_output = 'TABLE'", "SET GLOBAL general_log = 1"} {
		d.exec(t, set)
	}
	meanwhile()
	d.exec(t, "SET GLOBAL general_log = 0")
	rows := must.Get(d.app.Query("SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log WHERE user_host LIKE ?", "%"+d.account.User+"%"))(t)
	defer rows.Close()
	for rows.Next() {
		var text string
		must.Do(t, rows.Scan(&text))
		into.all = append(into.all, text)
	}
}

// sessions counts the connections that the database's account has at the server.
func (d *database) sessions(t *testing.T) (n int) {
	t.Helper()
	must.Do(t, d.app.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE user = ?", d.account.User).Scan(&n))
	return n
}

// Regression: eight run-manual on locked rows exhausted the connections: 9 of 40 short jobs were done
// in 24 s, and clients were told that the database could not be reached. The worker has its
// connections, whatever clients wait for.
func TestClientsLeaveTheWorkerItsConnections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ configured, most int }{{0, 8}, {4, 4}, {1, 4}, {12, 12}} {
		t.Run(fmt.Sprint(c.configured), func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, dbserver.JobsTable)
			config := db.config()
			config.MaxOpen = c.configured
			table := confirmed(t, open(t, config))
			if holder, err := table.Hold(t.Context(), "name:node-1"); holder != "" || err != nil {
				t.Fatalf("an advisory lock: %q, %v", holder, err)
			}

			release, inside := make(chan struct{}), make(chan struct{}, 100)
			ctx, cancel := context.WithCancel(t.Context())
			var clients sync.WaitGroup
			const requests = 30
			for i := range requests {
				id := db.insert(t, "manual", journal.RowManual, "")
				clients.Go(func() {
					_, err := table.ClaimManual(ctx, []int64{id}, nil, func([]journal.Row) ([]journal.Event, error) {
						inside <- struct{}{}
						<-release
						return nil, nil
					})
					if err != nil && !errors.Is(err, context.Canceled) || store.IsAway(err) {
						t.Errorf("client %d: %v", i, err)
					}
				})
				clients.Go(func() {
					if _, err := table.Look(ctx, []int64{id}); err != nil && !errors.Is(err, context.Canceled) || store.IsAway(err) {
						t.Errorf("client %d looks: %v", i, err)
					}
				})
			}
			for range c.most - 3 { // until clients have all that they may have
				<-inside
			}
			for range 20 {
				running, waiting := db.insert(t, "a", journal.RowRunning, token), db.insert(t, "a", journal.RowWaiting, "")
				worker, end := context.WithTimeout(t.Context(), hung)
				err := table.Claim(worker, map[string]int{"a": 1}, nil, func(rows []journal.Row) ([]journal.Event, error) {
					// The mirror applies while a claim is open.
					_, err := table.Apply(worker, []store.Change{done(running, "x")})
					if err != nil {
						return nil, err
					}
					return accept(rows)
				})
				end()
				if err != nil {
					t.Fatalf("the worker, while clients wait: %v", err)
				}
				db.expect(t, running, "status", "done")
				db.expect(t, waiting, "status", "accepted")
			}
			if n := db.sessions(t); n > c.most || n < c.most-1 {
				t.Errorf("%d connections at the server, want about %d and no more", n, c.most)
			}
			if n := len(inside); n > 0 {
				t.Errorf("%d more clients than there is room for", n)
			}
			cancel()
			close(release)
			clients.Wait()
		})
	}
}
