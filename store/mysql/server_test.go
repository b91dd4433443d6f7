package mysql_test

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"jobd/journal"
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
	must.Do(t, err)
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
