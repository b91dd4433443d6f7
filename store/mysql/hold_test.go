package mysql_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/linkproxy"
	"jobd/store/storetest/must"
)

// hold takes a lock and gives the holder's name.
func hold(t *testing.T, table *mysql.Table, name string) string {
	t.Helper()
	holder, err := table.Hold(t.Context(), name)
	if err != nil {
		t.Fatalf("hold %s: %v", name, err)
	}
	return holder
}

// The holder is told by its connection's number and address.
func TestHolderIsNamed(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	first, second := db.table(t), db.table(t)
	if got := hold(t, first, "name:x"); got != "" {
		t.Fatalf("it is %q's", got)
	}
	var id int
	var from string
	got := hold(t, second, "name:x")
	if n, err := fmt.Sscanf(got, "connection %d from %s", &id, &from); n != 2 || err != nil || !strings.HasPrefix(from, "127.0.0.1:") {
		t.Errorf("the holder is %q", got)
	}
	other := newDatabase(t, dbserver.JobsTable).table(t)
	if got := hold(t, other, "name:x"); got != "" {
		t.Errorf("the same name on another table is %q's", got)
	}
}

// A lock that is held costs no round trip, and no claim waits for the connection that has it.
func TestHoldIsCheapAndStarvesNobody(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	sent := make(chan string, 1000)
	config := db.config()
	config.MaxOpen = 2
	config.Dial = spied(sent)
	table := confirmed(t, open(t, config))
	hold(t, table, "name:x")
	hold(t, table, "mark:y")
	for len(sent) > 0 {
		<-sent
	}
	for range 100 {
		hold(t, table, "name:x")
		hold(t, table, "mark:y")
	}
	if n := len(sent); n > 0 {
		t.Errorf("%d packets for locks that were held", n)
	}
	db.insert(t, "a", journal.RowWaiting, "")
	must.Do(t, table.Claim(t.Context(), map[string]int{"a": 1}, nil, accept))
}

// The connection that has the locks is one of those that the table may have.
func TestHoldCountsItsConnection(t *testing.T) {
	t.Parallel()
	config := newDatabase(t, dbserver.JobsTable).config()
	config.MaxOpen = 6
	table := open(t, config)
	hold(t, table, "name:x")
	if most := table.DB().Stats().MaxOpenConnections; most != config.MaxOpen-1 {
		t.Errorf("%d connections beside it, want %d", most, config.MaxOpen-1)
	}
}

// spied dials, and tells of each packet.
func spied(sent chan<- string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return spy{conn, sent}, err
	}
}

type spy struct {
	net.Conn
	sent chan<- string
}

func (s spy) Write(p []byte) (int, error) {
	select {
	case s.sent <- string(bytes.Clone(p)):
	default:
	}
	return s.Conn.Write(p)
}

// The connection is used while nobody asks, lest the server end it.
func TestHoldIsKeptAlive(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	sent := make(chan string, 1000)
	config := db.config()
	config.Dial = spied(sent)
	table := confirmed(t, open(t, config))
	table.PingEvery(10 * time.Millisecond)
	hold(t, table, "name:x")
	const ping = "\x01\x00\x00\x00\x0e"
	for pings := 0; pings < 3; {
		select {
		case packet := <-sent:
			if packet == ping {
				pings++
			}
		case <-time.After(hung):
			t.Fatalf("%d pings", pings)
		}
	}
}

// When the connection is lost, its locks are gone: somebody else may have them by then.
func TestHoldAfterALostConnection(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	config, lost := db.config(), make(chan struct{}, 100)
	config.OnLost = func() { lost <- struct{}{} }
	table, other := confirmed(t, open(t, config)), db.table(t)
	table.PingEvery(10 * time.Millisecond)
	hold(t, table, "name:x")
	hold(t, table, "mark:y")
	db.killAll(t)
	<-lost // it is noticed though nobody asks for anything
	if _, err := other.Hold(t.Context(), "name:x"); err != nil {
		t.Fatal(err) // its pool had died too
	}
	for deadline := time.Now().Add(20 * time.Second); hold(t, table, "name:x") == ""; {
		if time.Now().After(deadline) {
			t.Fatal("it still takes the lock for its own")
		}
	}
	if got := hold(t, table, "mark:y"); got != "" {
		t.Errorf("the lock that nobody else wanted is %q's", got)
	}
	if got := hold(t, other, "mark:y"); got == "" {
		t.Error("it was not taken anew")
	}
}

// A claim that lost its link makes the next Hold ask, without waiting for a ping.
func TestHoldAsksAfterAnyLostLink(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	table, proxy := db.proxied(t)
	other := db.table(t)
	hold(t, table, "name:x")
	id := db.insert(t, "a", journal.RowManual, "")
	_, err := table.ClaimManual(t.Context(), []int64{id}, nil, func(rows []journal.Row) ([]journal.Event, error) {
		proxy.Cut()
		return accept(rows)
	})
	if err == nil {
		t.Fatal("the link was not cut")
	}
	for deadline := time.Now().Add(20 * time.Second); hold(t, other, "name:x") != ""; {
		if time.Now().After(deadline) {
			t.Fatal("the server does not give the lock back")
		}
	}
	if hold(t, table, "name:x") == "" {
		t.Error("it takes the other's lock for its own")
	}
}

// A server that refuses advisory locks is done without, and that is said once.
func TestHoldWhereTheServerRefuses(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	proxy := must.Get(linkproxy.Start(db.server.Addr()))(t)
	t.Cleanup(func() { proxy.Close() })
	must.Get(proxy.Replace("GET_LOCK", "GOT_LOCK"))(t)
	var written log
	config := db.config()
	config.Port, config.Logger = proxy.Port(), written.logger()
	var table store.Table = confirmed(t, open(t, config))
	for range 2 {
		for _, name := range []string{"name:x", "mark:y"} {
			if holder, err := table.Hold(t.Context(), name); err != nil || holder != "" {
				t.Errorf("%q, %v", holder, err)
			}
		}
	}
	if n := strings.Count(written.String(), "advisory locks"); n != 1 {
		t.Errorf("%d warnings, want one:\n%s", n, written.String())
	}
}
