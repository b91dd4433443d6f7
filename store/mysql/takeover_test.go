package mysql_test

import (
	"testing"

	"jobd/store/storetest/dbserver"
)

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
