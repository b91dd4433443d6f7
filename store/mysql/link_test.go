package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"
	"jobd/journal"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest/check"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/linkproxy"
	"jobd/store/storetest/must"
)

// A claim whose COMMIT goes astray fails, and Rows tells whether it happened.
func TestPitfall4DoubtfulCommit(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		fault linkproxy.Fault
		owner string
	}{
		{"cut before COMMIT arrived", linkproxy.Unsent, ""},
		{"cut after COMMIT, before its answer", linkproxy.Unanswered, token},
		{"cut while COMMIT is still under way", linkproxy.Held, token},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, dbserver.JobsTable)
			table, proxy := db.proxied(t)
			id := db.insert(t, "a", journal.RowWaiting, "")
			broken := proxy.Break("; COMMIT", c.fault)
			calls := 0
			err := table.Claim(t.Context(), map[string]int{"a": 1}, nil, func(rows []journal.Row) ([]journal.Event, error) {
				calls++
				return accept(rows)
			})
			if err == nil || unusable(err) || calls != 1 {
				t.Fatalf("the claim: %v, decide called %d times; want an ordinary error and one call", err, calls)
			}
			<-broken.Done
			if c.fault == linkproxy.Held {
				rows, locked, err := table.Rows(t.Context(), []int64{id})
				if err != nil || len(rows) != 0 || !slices.Equal(locked, []int64{id}) {
					t.Errorf("Rows before the end of the commit in flight: %+v, %v, %v; want to hear that the row is locked", rows, locked, err)
				}
				broken.Release()
			}
			rows := untilUnlocked(t, table, id)
			if len(rows) != 1 || rows[0].Owner != c.owner {
				t.Errorf("Rows: %+v; want owner %q", rows, c.owner)
			}
		})
	}
}

// untilUnlocked reads a row until nobody holds it.
func untilUnlocked(t *testing.T, table store.Table, id int64) []journal.Row {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	for {
		rows, locked, err := table.Rows(ctx, []int64{id})
		must.Do(t, err)
		if len(locked) == 0 {
			return rows
		}
	}
}

// A change whose answer is lost is applied again and reads the same.
func TestPitfall4DoubtfulApply(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]linkproxy.Fault{"unsent": linkproxy.Unsent, "unanswered": linkproxy.Unanswered} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, dbserver.JobsTable)
			table, proxy := db.proxied(t)
			changes := []store.Change{done(db.insert(t, "a", journal.RowRunning, token), "x"), done(4711, "y")}
			proxy.Break("; COMMIT", fault)
			if got, err := table.Apply(t.Context(), changes); err == nil || unusable(err) {
				t.Fatalf("Apply on a broken link: %v, %v", got, err)
			}
			got, err := table.Apply(t.Context(), changes)
			if diff := cmp.Diff([]store.Outcome{{}, {Fate: store.Lost}}, got); diff != "" || err != nil {
				t.Errorf("Apply again: %v (-want +got):\n%s", err, diff)
			}
			db.expect(t, changes[0].Job, "status stdout", "done x")
		})
	}
}

// Wherever the link breaks, applying until it succeeds ends in the same table.
func TestApplyWhereverTheLinkBreaks(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	table, proxy := db.proxied(t)
	for cut := int64(0); cut < 1500; cut += 97 {
		var changes []store.Change
		for range 3 {
			changes = append(changes, done(db.insert(t, "a", journal.RowAccepted, token), fmt.Sprint("cut at ", cut)))
		}
		proxy.CutAfter(cut)
		outcomes := untilApplied(t, table, changes)
		for i, change := range changes {
			if outcomes[i] != (store.Outcome{}) {
				t.Errorf("cut after %d bytes: %+v", cut, outcomes[i])
			}
			db.expect(t, change.Job, "status stdout", fmt.Sprint("done cut at ", cut))
		}
	}
}

// untilApplied applies changes until there is no error, as the mirror does.
func untilApplied(t *testing.T, table store.Table, changes []store.Change) []store.Outcome {
	t.Helper()
	var err error
	for range 5 {
		var outcomes []store.Outcome
		if outcomes, err = table.Apply(t.Context(), changes); err == nil {
			return outcomes
		}
		if unusable(err) {
			t.Fatal(err)
		}
	}
	t.Fatalf("still not applied: %v", err)
	return nil
}

// A server that loses the worker in a transaction gives its locks back, and so does one that ends the session,
// as for an operator's KILL.
func TestPitfall6CutInTransaction(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*database, *linkproxy.Proxy){
		"cut":    func(_ *database, proxy *linkproxy.Proxy) { proxy.Cut() },
		"killed": func(db *database, _ *linkproxy.Proxy) { db.killAll(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, dbserver.JobsTable)
			table, proxy := db.proxied(t)
			id := db.insert(t, "a", journal.RowManual, "")
			_, err := table.ClaimManual(t.Context(), []int64{id}, nil, func(rows []journal.Row) ([]journal.Event, error) {
				cut(db, proxy)
				return accept(rows)
			})
			if err == nil || unusable(err) {
				t.Errorf("the claim: %v; want an ordinary error", err)
			}
			untilUnlocked(t, table, id)
			must.Get(table.ClaimManual(t.Context(), []int64{id}, nil, accept))(t)
			db.expect(t, id, "status sig", "accepted "+token)
		})
	}
}

// killAll ends all sessions of the database's account.
func (d *database) killAll(t *testing.T) {
	t.Helper()
	rows := must.Get(d.app.Query("SELECT id FROM information_schema.PROCESSLIST WHERE user = ?", d.account.User))(t)
	defer rows.Close()
	var kills []string
	for rows.Next() {
		var id int64
		must.Do(t, rows.Scan(&id))
		kills = append(kills, fmt.Sprint("KILL ", id))
	}
	for _, kill := range kills {
		var gone *driver.MySQLError // one that has ended by itself
		if _, err := d.app.Exec(kill); err != nil && !(errors.As(err, &gone) && gone.Number == 1094) {
			t.Fatalf("%s: %v", kill, err)
		}
	}
}

// Connections that died in the pool are noticed before they are used.
func TestPitfall8StalePool(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	table := db.table(t)
	for _, target := range []string{"a", "b", "c"} {
		db.insert(t, target, journal.RowWaiting, "")
		db.killAll(t)
		if err := table.Claim(t.Context(), map[string]int{target: 1}, nil, accept); err != nil {
			t.Errorf("with a stale connection in the pool: %v", err)
		}
	}
}

// A server that takes no writes is waited for: nothing is decided meanwhile.
func TestPitfall14ReadOnlyServer(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	db := newDatabaseOn(t, server, dbserver.JobsTable)
	table, fresh := db.table(t), open(t, db.config())
	id := db.insert(t, "a", journal.RowWaiting, "")
	running := db.insert(t, "a", journal.RowRunning, token)
	claim := func(table store.Table) error { return table.Claim(t.Context(), map[string]int{"a": 1}, nil, accept) }
	apply := func() error {
		_, err := table.Apply(t.Context(), []store.Change{done(running, "x")})
		return err
	}
	db.exec(t, "SET GLOBAL read_only = 1")
	for name, err := range map[string]error{"Claim": claim(table), "Apply": apply(), "a new worker's Claim": claim(fresh)} {
		if unusable(err) || !store.IsAway(err) {
			t.Errorf("%s on a read-only server: %v; want that it is out of reach", name, err)
		}
	}
	db.expect(t, id, "status sig", "waiting -")
	db.exec(t, "SET GLOBAL read_only = 0")
	if err := errors.Join(claim(table), apply()); err != nil {
		t.Errorf("when it takes writes again: %v", err)
	}
	db.expect(t, running, "status", "done")
}

// silentServer is where connections are taken, and nothing is said.
func silentServer(t *testing.T) *net.TCPAddr {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().(*net.TCPAddr)
}

// expectSilent checks that an error says that the server does not answer, and that it is out of reach.
func expectSilent(t *testing.T, what string, err error) {
	t.Helper()
	if !store.IsAway(err) || unusable(err) || !strings.Contains(err.Error(), "(mysql_host") {
		t.Errorf("%s: %v; want to hear that the server is silent", what, err)
	}
}

// A server that takes connections and answers nothing is out of reach when the time that an answer may
// take is over.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	const never = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	config := mysql.Config{Host: "127.0.0.1", User: "u", Database: "d", ConnectTimeout: never, ReadTimeout: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
	config.Port = silentServer(t).Port
	expectSilent(t, "a check", open(t, config).Check(ctx))
	_, err := open(t, config).Server(ctx)
	expectSilent(t, "which server it is", err)

	impatient, leave := context.WithTimeout(ctx, 500*time.Millisecond) // the dial is done by then
	defer leave()
	config.ReadTimeout = never
	if err := open(t, config).Check(impatient); !errors.Is(err, context.DeadlineExceeded) || store.IsAway(err) {
		t.Errorf("a check by somebody who does not wait: %v; want no more than that his time is over", err)
	}
}

// So is one that falls silent later: new connections find that out, those of the advisory locks too.
func TestServerThatFallsSilent(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	proxy, err := linkproxy.Start(db.server.Addr())
	must.Do(t, err)
	defer proxy.Close()
	config := db.config()
	config.Port, config.ReadTimeout = proxy.Port(), 3*time.Second
	table := confirmed(t, open(t, config))
	proxy.Lead(silentServer(t).String())
	_, err = table.Hold(ctx, "name:x")
	if !store.IsAway(err) || !strings.Contains(err.Error(), "(mysql_host") {
		t.Errorf("a lock: %v; want to hear that the server is silent", err)
	}
}

// slowLink takes a while for each answer.
type slowLink struct{ net.Conn }

const slowness = 400 * time.Millisecond

// Read implements net.Conn.
func (l slowLink) Read(b []byte) (int, error) {
	<-time.After(slowness) // that is how slow it is
	return l.Conn.Read(b)
}

// Regression: what bounds a silent server bounded all answers together that make a connection: on a
// link with round trips of some seconds no connection was ever made.
func TestSlowLinkIsNoSilentServer(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	config := db.config()
	config.ReadTimeout = time.Second
	config.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return slowLink{conn}, err
	}
	table, begun := open(t, config), time.Now()
	must.Get(table.Server(ctx))(t)
	if took := time.Since(begun); took < config.ReadTimeout {
		t.Fatalf("a connection was made within %s: that shows nothing", took)
	}
	check.Do(t, table.Check(ctx))
}

// What is wrong with the table itself is still said, though only an update of rows met it.
func TestTableThatBecomesUnusable(t *testing.T) {
	t.Parallel()
	cases := []struct{ name, change, undo string }{
		{"renamed", "RENAME TABLE jobs TO jbos", "RENAME TABLE jbos TO jobs"},
		{"a column less", "ALTER TABLE jobs CHANGE stdout std_out mediumtext", "ALTER TABLE jobs CHANGE std_out stdout mediumtext"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, dbserver.JobsTable)
			table, looks, claims := db.table(t), db.table(t), db.table(t)
			changes := db.running(t, 3)
			db.exec(t, c.change)
			for range 2 {
				if _, err := looks.Look(t.Context(), []int64{1}); c.name == "renamed" && !unusable(err) {
					t.Errorf("Look: %v; want it to be unusable", err)
				}
				if err := claims.Claim(t.Context(), map[string]int{"a": 1}, nil, accept); c.name == "renamed" && !unusable(err) {
					t.Errorf("Claim: %v; want it to be unusable", err)
				}
				if got, err := table.Apply(t.Context(), changes); !unusable(err) || !store.IsAway(err) {
					t.Errorf("Apply: %v, %v; want it to be unusable", got, err)
				}
			}
			db.exec(t, c.undo)
			got, err := table.Apply(t.Context(), changes)
			if err != nil || len(db.held(t, changes, got)) > 0 {
				t.Errorf("as it was: %v, %v", got, err)
			}
		})
	}
}

// Only a connection that can't be had or is lost, and a table that can't be used, count as away. Outages are waited
// for, and end.
func TestWhatCountsAsAway(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	db := newDatabaseOn(t, server, dbserver.JobsTable)
	table := db.table(t)
	changes := db.running(t, 3)
	apply := func() error {
		_, err := table.Apply(t.Context(), changes)
		return err
	}
	var unreachable *store.Unreachable
	must.Do(t, server.Kill())
	methods := map[string]error{
		"Apply": apply(), "Check": table.Check(t.Context()),
		"Claim": table.Claim(t.Context(), map[string]int{"a": 1}, nil, accept),
	}
	_, methods["Look"] = table.Look(t.Context(), []int64{1})
	_, methods["Server"] = table.Server(t.Context())
	_, _, methods["Rows"] = table.Rows(t.Context(), []int64{1})
	_, methods["UnderWay"] = table.UnderWay(t.Context(), "@", nil)
	for method, err := range methods {
		if !errors.As(err, &unreachable) || !store.IsAway(err) {
			t.Errorf("%s of a killed server: %v; want it unreachable", method, err)
		}
	}
	must.Do(t, server.Restart(context.Background()))
	untilApplied(t, table, changes)
	if seen, err := table.Look(t.Context(), []int64{1}); err != nil || seen[1].Status != journal.RowDone {
		t.Errorf("when it is back: %+v, %v", seen[1], err)
	}
}

// A lock on the whole table ends; it never counts as the table being away.
func TestLockedTableIsNotAway(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	table := db.table(t)
	changes := db.running(t, 20)
	locker := must.Get(db.app.Conn(t.Context()))(t)
	defer locker.Close()
	must.Get(locker.ExecContext(t.Context(), "LOCK TABLES jobs WRITE"))(t)
	begun := time.Now()
	got, err := table.Apply(t.Context(), changes)
	if err != nil {
		t.Fatalf("Apply: %v; want everything held", err)
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("it took %s", took)
	}
	must.Get(locker.ExecContext(t.Context(), "UNLOCK TABLES"))(t)
	if held := db.held(t, changes, got); len(held) != len(changes) {
		t.Errorf("held %v, want all", held)
	}
}
