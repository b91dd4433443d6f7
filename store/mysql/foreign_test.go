package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"jobd/journal"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/linkproxy"
)

// disguised is a proxy behind which the server has another version and knows nothing of SKIP
// LOCKED: locks that it asks for that way are not taken at all. The question for the version is
// replaced, not the answer, which may be shorter than any such version.
func disguised(t *testing.T, server *dbserver.Server, version string) (*linkproxy.Proxy, *linkproxy.Replacement) {
	t.Helper()
	proxy, err := linkproxy.Start(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Close() })
	const clause, question = "FOR UPDATE SKIP LOCKED", "SELECT @@version, @@max_allowed_packet"
	answer := fmt.Sprintf("SELECT '%s', 16777216", version)
	_, err = proxy.Replace(question, answer+strings.Repeat(" ", len(question)-len(answer)))
	skips, err2 := proxy.Replace(clause, strings.Repeat(" ", len(clause)))
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return proxy, skips
}

// A server that takes SKIP LOCKED and locks nothing, as TiDB does, and one that does not know it,
// are claimed from by key.
func TestConformanceWithoutSkipLocked(t *testing.T) {
	t.Parallel()
	versions := []string{"8.0.11-TiDB-v7.5.0", "10.5.29-MariaDB"}
	if !shared.IsMariaDB() {
		versions = versions[:1] // MySQL does not know the words by which MariaDB limits the time of a query
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, func(t *testing.T) storetest.Fixture {
				db := newDatabase(t, dbserver.JobsTable)
				odds := &storetest.Odds{}
				tables := make([]*mysql.Table, 2)
				for i := range tables {
					proxy, skips := disguised(t, db.server, version)
					config := db.config()
					config.Port, config.OnOdd = proxy.Port(), odds.Note
					tables[i] = confirmed(t, open(t, config))
					t.Cleanup(func() {
						if n := skips.Met(); n > 0 {
							t.Errorf("%d packets relied on SKIP LOCKED", n)
						}
					})
				}
				return storetest.Fixture{
					DB: db.app, Table: tables[0], Other: tables[1], RowLocks: true, Charset: journal.CharsetThreeByte, Odds: odds,
					HidesInserts: strings.Contains(version, "TiDB"),
				}
			})
		})
	}
}

// Nothing is decided, and so nothing journalled, that does not become of the rows, however many
// claim at once.
func TestNothingDecidedInVainWithoutSkipLocked(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	const rows, workers = 120, 6
	for range rows {
		db.insert(t, "a", journal.RowWaiting, "")
	}
	decided := make(chan int, rows*workers)
	failures := make(chan error, workers)
	for range workers {
		proxy, _ := disguised(t, db.server, "8.0.11-TiDB-v7.5.0")
		config := db.config()
		config.Port = proxy.Port()
		table := confirmed(t, open(t, config))
		go func() { failures <- claimAllOf(t.Context(), table, decided) }()
	}
	for range workers {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
	close(decided)
	total := 0
	for n := range decided {
		total += n
	}
	if total != rows {
		t.Errorf("%d rows were decided about, there are %d", total, rows)
	}
}

// claimAllOf claims until no row waits.
func claimAllOf(ctx context.Context, table store.Table, decided chan<- int) error {
	for {
		err := table.Claim(ctx, map[string]int{"a": 5}, nil, func(rows []journal.Row) ([]journal.Event, error) {
			decided <- len(rows)
			return accept(rows)
		})
		if err != nil {
			return err
		}
		waiting, err := table.Waiting(ctx, []string{"a"}, nil)
		if err != nil || len(waiting) == 0 {
			return err
		}
	}
}
