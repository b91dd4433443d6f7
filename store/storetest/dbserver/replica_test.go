package dbserver

import (
	"testing"
	"time"

	"jobd/store/storetest/must"
)

// A replica has what its primary has, until it follows it no more; promoted, it takes writes.
func TestReplicaFollows(t *testing.T) {
	t.Parallel()
	primary, replica, err := StartFollowed(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, server := range []*Server{primary, replica} {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	must.Do(t, primary.CreateDatabase(t.Context(), "app", JobsTable, "INSERT INTO jobs (target, time_created) VALUES ('a', 1)"))
	awaitRows(t, replica, 1)
	must.Do(t, replica.StopFollowing(t.Context()))
	must.Get(primary.Admin().Exec("INSERT INTO app.jobs (target, time_created) VALUES ('a', 2)"))(t)
	must.Do(t, primary.Kill())
	must.Do(t, replica.Promote(t.Context()))
	if _, err := replica.Admin().Exec("INSERT INTO app.jobs (id, target, time_created) VALUES (2, 'b', 3)"); err != nil {
		t.Fatalf("the replica has what came after it stopped to follow, or takes no writes: %v", err)
	}
}

// awaitRows polls: a replica does not say when it has caught up.
func awaitRows(t *testing.T, server *Server, want int) {
	t.Helper()
	deadline, again := time.After(2*time.Minute), time.NewTicker(20*time.Millisecond)
	defer again.Stop()
	for {
		var rows int
		err := server.Admin().QueryRow("SELECT COUNT(*) FROM app.jobs").Scan(&rows)
		if err == nil && rows == want {
			return
		}
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("%d rows, want %d: %v", rows, want, err)
		}
	}
}
