package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"jobd/journal"
	"jobd/store"
	"jobd/store/storetest/dbserver"
)

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
