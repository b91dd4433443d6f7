package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"jobd/journal"
	"jobd/journal/eventlog"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/linkproxy"
	"jobd/store/storetest/must"
)

// failover is a table behind an address that moves from one server to another.
type failover struct {
	*mysql.Table
	before, after *database
	proxies       [2]*linkproxy.Proxy
	moved         atomic.Bool
	calls         atomic.Int64 // of OnServer
}

func newFailover(t *testing.T) *failover {
	t.Helper()
	f := &failover{before: newDatabase(t, dbserver.JobsTable)}
	there := newServer(t)
	f.after = newDatabaseOn(t, there, dbserver.JobsTable)
	f.after.exec(t, "CREATE DATABASE "+f.before.name+"; CREATE TABLE "+f.before.name+".jobs LIKE jobs")
	must.Do(t, there.CreateAccount(t.Context(), f.before.account, "SELECT, UPDATE ON "+f.before.name+".jobs"))
	f.after.exec(t, "USE "+f.before.name)
	for i, db := range []*database{f.before, f.after} {
		var err error
		if f.proxies[i], err = linkproxy.Start(db.server.Addr()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.proxies[i].Close() })
	}
	config := f.before.config()
	config.OnServer = func() { f.calls.Add(1) }
	config.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		proxy := f.proxies[0]
		if f.moved.Load() {
			proxy = f.proxies[1]
		}
		return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", strconv.Itoa(proxy.Port())))
	}
	f.Table = open(t, config)
	return f
}

// server is which server is reached.
func (f *failover) server(t *testing.T) string {
	t.Helper()
	id, err := f.Server(t.Context())
	if err != nil || id == "" {
		t.Fatalf("Server: %q, %v", id, err)
	}
	return id
}

// claim tries to claim a row and tells how often decide was called.
func (f *failover) claim(t *testing.T) (decided int, err error) {
	t.Helper()
	err = f.Claim(t.Context(), map[string]int{"a": 1}, nil, func(rows []journal.Row) ([]journal.Event, error) {
		decided++
		return nil, nil
	})
	return decided, err
}

// expectRefused checks that no claim is made at a server that is not the confirmed one.
func (f *failover) expectRefused(t *testing.T, confirmed string) {
	t.Helper()
	before := f.calls.Load()
	decided, err := f.claim(t)
	_, manualErr := f.ClaimManual(t.Context(), []int64{1}, nil, func([]journal.Row) ([]journal.Event, error) {
		decided++
		return nil, nil
	})
	for _, err := range []error{err, manualErr} {
		var another *store.AnotherServer
		if !errors.As(err, &another) || store.IsAway(err) || another.Confirmed != confirmed || !strings.Contains(err.Error(), "compared with the journal first") {
			t.Errorf("a claim: %v; want it to be refused at another server than %q", err, confirmed)
		}
	}
	if decided > 0 || f.calls.Load() < before+2 {
		t.Errorf("decide was called %d times, OnServer %d times; want none, and one for each claim", decided, f.calls.Load()-before)
	}
}

// Regression: after a failover to a replica that lagged, no worker noticed that rows had gone back
// in time. Claims wait until the rows have been compared with the journal; the mirror works on,
// which mends them.
func TestClaimsWaitBehindAFailover(t *testing.T) {
	t.Parallel()
	f := newFailover(t)
	for _, db := range []*database{f.before, f.after} {
		db.app.SetMaxOpenConns(1)
		db.exec(t, "INSERT INTO jobs (id, target, time_created) VALUES (1, 'a', 1)")
		db.exec(t, "INSERT INTO jobs (id, target, time_created, status, sig) VALUES (2, 'a', 1, 'running', ?)", token)
	}
	first := f.server(t)
	if f.calls.Load() == 0 {
		t.Error("OnServer was not called when the first server was reached")
	}
	f.expectRefused(t, "")
	f.Confirm(first)
	if decided, err := f.claim(t); err != nil || decided != 1 {
		t.Fatalf("a claim at the confirmed server: %d calls, %v", decided, err)
	}

	before := f.calls.Load()
	f.moved.Store(true)
	f.proxies[0].Cut()
	second := f.server(t)
	if second == first || f.calls.Load() == before {
		t.Fatalf("behind the failover the server is %q, was %q; OnServer was called %d times", second, first, f.calls.Load()-before)
	}
	f.expectRefused(t, first)
	if got, err := f.Apply(t.Context(), []store.Change{done(2, "x")}); err != nil || got[0] != (store.Outcome{}) {
		t.Errorf("Apply at a server that was not confirmed: %v, %v", got, err)
	}
	f.after.expect(t, 2, "status stdout", "done x")
	if seen, err := f.Look(t.Context(), []int64{2}); err != nil || len(seen) != 1 {
		t.Errorf("Look: %v, %v", seen, err)
	}
	f.Confirm(second)
	if decided, err := f.claim(t); err != nil || decided != 1 {
		t.Errorf("a claim at the server that is confirmed now: %d calls, %v", decided, err)
	}
}

// Connections to the former server that still live are not used any more: the server is the one
// that answers now.
func TestConnectionsToTheFormerServerAreGivenUp(t *testing.T) {
	t.Parallel()
	f := newFailover(t)
	first := f.server(t)
	f.Confirm(first)
	keep, err := f.DB().Conn(t.Context()) // the only one in the pool
	if err != nil {
		t.Fatal(err)
	}
	f.moved.Store(true)
	second := f.server(t) // by a new one
	must.Do(t, keep.Close())
	for range 3 {
		if now := f.server(t); now != second || now == first {
			t.Errorf("the server is %q, though the newest connection reached %q", now, second)
		}
	}
	f.expectRefused(t, first)
}

// A server that is started again is the same one.
func TestServerIsTheSameAfterARestart(t *testing.T) {
	t.Parallel()
	server := newServer(t)
	table := newDatabaseOn(t, server, dbserver.JobsTable).table(t)
	before := must.Get(table.Server(t.Context()))(t)
	must.Do(t, server.Kill())
	must.Do(t, server.Restart(t.Context()))
	untilChecked(t, table)
	if after, err := table.Server(t.Context()); err != nil || after != before {
		t.Errorf("the server is %q, was %q: %v", after, before, err)
	}
}

// replicated makes a primary and a replica that follows it.
func replicated(t *testing.T) (primary, replica *dbserver.Server) {
	t.Helper()
	primary = newServer(t, "--log-bin=binlog", "--server-id=1", "--binlog-format=ROW")
	replica = newServer(t, "--log-bin=binlog", "--server-id=2", "--binlog-format=ROW")
	if !primary.IsMariaDB() {
		t.Skip("the statements that set up the replica are MariaDB's")
	}
	run := func(s *dbserver.Server, query string) {
		if _, err := s.Admin().ExecContext(t.Context(), query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	run(primary, "CREATE USER follower@'%' IDENTIFIED BY 'follower'")
	run(primary, "GRANT REPLICATION SLAVE ON *.* TO follower@'%'")
	run(replica, fmt.Sprintf("CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=%d, MASTER_USER='follower', "+
		"MASTER_PASSWORD='follower', MASTER_USE_GTID=slave_pos", primary.Port()))
	run(replica, "START SLAVE")
	return primary, replica
}

// catchUp waits until the replica has what the primary has.
func catchUp(t *testing.T, primary, replica *dbserver.Server) {
	t.Helper()
	var position string
	must.Do(t, primary.Admin().QueryRowContext(t.Context(), "SELECT @@gtid_binlog_pos").Scan(&position))
	var late int
	if err := replica.Admin().QueryRowContext(t.Context(), "SELECT MASTER_GTID_WAIT(?, 30)", position).Scan(&late); err != nil || late != 0 {
		t.Fatalf("the replica does not follow: %d, %v", late, err)
	}
}

// A failover to a replica that lags: 33 rows read accepted or running with our token while the
// journal said done, and no worker noticed; others that had run read waiting again, and were run
// twice. Two servers, asynchronous replication, the replica stopped before the primary is killed,
// and promoted while a worker goes on claiming.
func TestAReplicaThatLaggedTakesThePrimarysPlace(t *testing.T) {
	t.Parallel()
	primary, replica := replicated(t)
	db := newDatabaseOn(t, primary, dbserver.JobsTable)
	var address atomic.Pointer[string]
	reach := func(s *dbserver.Server) { addr := s.Addr(); address.Store(&addr) }
	reach(primary)

	j := must.Get(eventlog.Open(t.Context(), eventlog.Config{Dir: t.TempDir()}))(t)
	t.Cleanup(func() { _ = j.Close() })
	var mirror atomic.Pointer[store.Mirror]
	config := db.config()
	config.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", *address.Load())
	}
	config.OnServer = func() {
		if m := mirror.Load(); m != nil {
			m.CheckServer()
		}
	}
	table := open(t, config)
	returned := make(chan struct{}, 100)
	m := store.NewMirror(store.Config{
		Source: j, Bookmark: j, Table: table, Logger: slog.New(slog.DiscardHandler),
		OnReturn: func() { returned <- struct{}{} },
	})
	mirror.Store(m)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-returned

	var claimed []int64
	claim := func() error {
		return table.Claim(t.Context(), map[string]int{"a": 1000}, nil, func(rows []journal.Row) ([]journal.Event, error) {
			var drafts []journal.Draft
			for _, row := range rows {
				claimed = append(claimed, row.Job)
				drafts = append(drafts, journal.Draft{Job: row.Job, Payload: journal.Accepted{Target: "a", Token: token}})
			}
			return j.Append(drafts...)
		})
	}
	insert := func(n int) (ids []int64) {
		for range n {
			ids = append(ids, db.insert(t, "a", journal.RowWaiting, ""))
		}
		return ids
	}
	show := func(ids []int64, payload journal.Payload) {
		t.Helper()
		for _, id := range ids {
			must.Get(j.Append(journal.Draft{Job: id, Payload: payload}))(t)
		}
		var newest uint64
		j.View(func(s *journal.State) { newest = s.Seq })
		<-m.Shown(newest, 0)
	}
	done := journal.Done{Result: "ok", Token: token, Stdout: journal.Output{Kept: []byte("out\n"), Size: 4}}

	ends, runs := insert(33), insert(5) // running when the replica stops
	must.Do(t, claim())
	show(slices.Concat(ends, runs), journal.Running{Attempt: 1, Token: token})
	unseen := insert(20) // waiting when it stops
	catchUp(t, primary, replica)
	must.Get(replica.Admin().Exec("STOP SLAVE"))(t)
	must.Do(t, claim())
	show(unseen, journal.Running{Attempt: 1, Token: token})
	show(slices.Concat(ends, unseen[:15]), done)

	must.Do(t, primary.Kill())
	reach(replica)
	claimed = nil
	retry := store.NewRetry(slog.New(slog.DiscardHandler), "claim")
	for err := claim(); err != nil; err = claim() { // as a worker does, all the time
		if retry.Wait(t.Context(), err) != nil {
			t.Fatal(err)
		}
	}
	if len(claimed) > 0 {
		t.Errorf("rows that had run were claimed again: %v", claimed)
	}
	show(slices.Concat(runs, unseen[15:]), done)

	app := must.Get(replica.Open(db.name))(t)
	defer app.Close()
	var whole int
	must.Do(t, app.QueryRow("SELECT COUNT(*) FROM jobs WHERE status = 'done' AND result = 'ok' AND stdout = 'out\n' AND time_started > 0").Scan(&whole))
	if want := len(ends) + len(runs) + len(unseen); whole != want {
		t.Errorf("%d of %d rows are done", whole, want)
	}
	events := must.Get(j.Next(t.Context(), 0, 0))(t)
	var met []journal.Server
	for _, e := range events {
		switch p := e.Payload.(type) {
		case journal.Server:
			met = append(met, p)
		case journal.Conflict:
			t.Errorf("job %d: %+v", e.Job, p)
		}
	}
	if len(met) != 2 || met[1].Before != met[0].Server || met[1].Mended != 53 || met[1].Left != 0 {
		t.Errorf("journalled %+v, want a second server on which 53 rows were mended", met)
	}
}
