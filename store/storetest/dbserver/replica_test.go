package dbserver

import (
	"testing"
	"time"
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
	if err := primary.CreateDatabase(t.Context(), "app", JobsTable, "INSERT INTO jobs (target, time_created) VALUES ('a', 1)"); err != nil {
		t.Fatal(err)
	}
	awaitRows(t, replica, 1)
	if err := replica.StopFollowing(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := primary.Admin().Exec("INSERT INTO app.jobs (target, time_created) VALUES ('a', 2)"); err != nil {
		t.Fatal(err)
	}
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := replica.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
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
