package mysql_test

import (
	"testing"

	"jobd/store/mysql"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/linkproxy"
	"jobd/store/storetest/must"
)

// A worker was killed behind a proxy that keeps the server's side open, or its link was swallowed:
// the server misses the connection after half a minute, and nothing was claimed until then. A worker
// that runs in its place ends it.
func TestAFormerConnectionIsEnded(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	at := func(place string) *mysql.Table {
		config := db.config()
		config.Place = place
		return confirmed(t, open(t, config))
	}
	killed, elsewhere := at("here"), at("there")
	for _, name := range []string{"name:x", "mark:y"} {
		hold(t, killed, name)
	}
	hold(t, elsewhere, "name:z")
	next := at("here")
	for _, name := range []string{"name:x", "mark:y"} {
		if holder := hold(t, next, name); holder != "" {
			t.Errorf("%s: %s has it still", name, holder)
		}
	}
	if hold(t, next, "name:z") == "" || hold(t, elsewhere, "name:z") != "" {
		t.Error("a worker that runs elsewhere has lost its lock")
	}
	if hold(t, at(""), "name:x") == "" || hold(t, next, "name:x") != "" {
		t.Error("who does not know its place has taken a lock")
	}
}

// The same where the link of a living process was swallowed.
func TestASwallowedConnectionIsEnded(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	proxy := must.Get(linkproxy.Start(db.server.Addr()))(t)
	defer proxy.Close()
	config := db.config()
	config.Port, config.Place = proxy.Port(), "here"
	table := confirmed(t, open(t, config))
	hold(t, table, "name:x")
	broken := proxy.Break("GET_LOCK", linkproxy.Held)
	defer broken.Release()
	if holder, err := table.Hold(t.Context(), "name:z"); err == nil {
		t.Fatalf("the link was not lost: %q", holder)
	}
	<-broken.Done
	for _, name := range []string{"name:x", "name:z"} {
		if holder := hold(t, table, name); holder != "" {
			t.Errorf("%s: %s has it, a former connection of the same process", name, holder)
		}
	}
}

// A connection that this process never had is somebody else's, whatever it holds.
func TestHoldLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	table, proxy := db.proxied(t)
	other := db.table(t)
	hold(t, other, "name:x")
	hold(t, table, "name:y")
	proxy.Cut()
	for range 3 {
		_, _ = table.Hold(t.Context(), "name:y")
		if holder, err := table.Hold(t.Context(), "name:x"); err == nil && holder == "" {
			t.Fatal("somebody else's lock was taken")
		}
	}
	if hold(t, other, "name:x") != "" {
		t.Error("the other has lost its lock")
	}
}
