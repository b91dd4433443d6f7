package mysql_test

import (
	"testing"

	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/linkproxy"
)

// Regression: a worker whose link to the database had been swallowed claimed nothing for half a
// minute after it was back: its own former connection, which the server had not missed, had its
// name.
func TestHoldEndsAFormerConnection(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	table, proxy := db.proxied(t)
	other := db.table(t)
	hold(t, table, "name:x")
	hold(t, table, "mark:y")
	broken := proxy.Break("GET_LOCK", linkproxy.Held)
	defer broken.Release()
	if holder, err := table.Hold(t.Context(), "name:z"); err == nil {
		t.Fatalf("the link was not lost: %q", holder)
	}
	<-broken.Done
	if hold(t, other, "name:x") == "" {
		t.Fatal("the server has missed the connection: nothing is shown")
	}
	for _, name := range []string{"name:x", "mark:y", "name:z"} {
		if holder := hold(t, table, name); holder != "" {
			t.Errorf("%s: %s has it, a former connection of the same process", name, holder)
		}
	}
	if hold(t, other, "name:x") == "" {
		t.Error("it was not taken anew")
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
