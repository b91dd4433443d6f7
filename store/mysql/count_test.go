package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store"
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

// reads is how many rows, and entries of indexes, the server has read since it was last asked.
func (d *database) reads(t testing.TB) (read map[string]int) {
	t.Helper()
	rows := must.Get(d.app.Query("SHOW GLOBAL STATUS LIKE 'Handler_read%'"))(t)
	defer rows.Close()
	read = map[string]int{}
	for rows.Next() {
		var name string
		var n int
		must.Do(t, rows.Scan(&name, &n))
		read[name] = n
	}
	return read
}

// Of a hundred thousand waiting rows as many entries of the index are read as are counted, and one row.
func TestManyWaitingRowsAreNotAllRead(t *testing.T) {
	t.Parallel()
	server, err := dbserver.Start(context.Background(), dbserver.Options{}) // whose counters are this test's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	db := newDatabaseOn(t, server, dbserver.JobsTable)
	db.exec(t, "ALTER TABLE jobs DROP KEY status_target_idx") // it is made faster at once than row by row
	db.double(t, "a", 20_000)
	db.insert(t, "b", journal.RowWaiting, "")
	db.exec(t, "ALTER TABLE jobs ADD KEY status_target_idx (status, target, id)")
	table := db.table(t)
	const most = 2_000
	for target, want := range map[string]struct {
		counted store.Counted
		reads   int
	}{
		"a": {store.Counted{Rows: most, More: true, Oldest: 1}, most + 1},
		"b": {store.Counted{Rows: 1, Oldest: 1}, 1},
		"c": {store.Counted{}, 0},
	} {
		if _, err := table.CountWaiting(t.Context(), target, 1); err != nil { // examines the table
			t.Fatal(err)
		}
		before := db.reads(t)
		got, err := table.CountWaiting(t.Context(), target, most)
		after := db.reads(t)
		if err != nil || got != want.counted {
			t.Errorf("%s: %+v, %v, want %+v", target, got, err, want.counted)
		}
		read := after["Handler_read_next"] + after["Handler_read_key"] - before["Handler_read_next"] - before["Handler_read_key"]
		if read < want.reads || read > want.reads+20 {
			t.Errorf("%s: %d entries of the index are read, want %d and a few", target, read, want.reads)
		}
		// The derived table is read back, row by row, and so is what SHOW STATUS tells, on MySQL 450 rows.
		if scanned := after["Handler_read_rnd_next"] - before["Handler_read_rnd_next"]; scanned > want.reads+1000 {
			t.Errorf("%s: %d rows are scanned", target, scanned)
		}
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

// The plan of a count is a look into the index, however many rows other targets have.
func TestACountUsesTheIndex(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	db.double(t, "a", 3_000)
	db.double(t, "b", 3_000)
	db.exec(t, "ANALYZE TABLE jobs")
	log := &statements{}
	db.record(t, log, func() {
		must.Get(db.table(t).CountWaiting(t.Context(), "a", 100))(t)
	})
	query := log.with("AS some")
	query = unlimited(query)
	plan := db.plan(t, query)
	for _, line := range plan {
		if strings.Contains(line, "table=jobs") && (!strings.Contains(line, "key=status_target_idx") || strings.Contains(line, "filesort")) {
			t.Errorf("the plan of %s\n%s", query, strings.Join(plan, "\n"))
		}
	}
	if len(plan) < 3 {
		t.Errorf("the plan of %s is %q", query, plan)
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

// plan is how the server goes about a query, a line for each of its tables, as column=value.
func (d *database) plan(t testing.TB, query string) (lines []string) {
	t.Helper()
	how := "EXPLAIN "
	if !d.server.IsMariaDB() {
		how = "EXPLAIN FORMAT=TRADITIONAL "
	}
	rows, err := d.app.Query(how + query)
	if err != nil {
		t.Fatalf("%s%s: %v", how, query, err)
	}
	defer rows.Close()
	heads := must.Get(rows.Columns())(t)
	values, into := make([]sql.NullString, len(heads)), make([]any, len(heads))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		must.Do(t, rows.Scan(into...))
		var line strings.Builder
		for i, head := range heads {
			fmt.Fprintf(&line, "%s=%s ", head, values[i].String)
		}
		lines = append(lines, line.String())
	}
	return lines
}

// sessions counts the connections that the database's account has at the server.
func (d *database) sessions(t *testing.T) (n int) {
	t.Helper()
	if err := d.app.QueryRow("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE user = ?", d.account.User).Scan(&n); err != nil {
		t.Fatal(err)
	}
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
