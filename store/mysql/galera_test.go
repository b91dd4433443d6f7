package mysql_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"jobd/journal"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
)

// Regression: on two nodes of a Galera cluster both workers believed to have claimed a row, a few
// times in a thousand. Neither node knows the other's locks, and a server that undoes a transaction
// in favour of another node's does not always tell: the UPDATE misses rows that were locked, or
// COMMIT succeeds though nothing is left of what came before it in the same packet.
func TestPitfall15EachRowIsClaimedOnOneNode(t *testing.T) {
	t.Parallel()
	if os.Getenv("JOBD_TEST_MYSQL_ROOT") != "" {
		t.Skip("MySQL has no Galera")
	}
	pair := must.Get(dbserver.StartPair(t.Context(), dbserver.Options{}))(t)
	t.Cleanup(func() { _ = errors.Join(pair[0].Close(), pair[1].Close()) })
	const rows = 3000
	here := newDatabaseOn(t, pair[0], dbserver.JobsTable)
	here.exec(t, fmt.Sprintf("INSERT INTO jobs (id, target, time_created, status) SELECT seq, 'a', 0, 'waiting' FROM seq_1_to_%d", rows))
	there := *here
	there.server = pair[1]

	tables := []*mysql.Table{here.table(t), there.table(t)}
	inStep(t, pair[1])
	servers := map[string]bool{}
	for _, table := range tables {
		server, err := table.Server(t.Context())
		if err != nil || !strings.HasPrefix(server, "galera:") {
			t.Errorf("a node's server is %q, %v", server, err)
		}
		servers[server] = true
	}
	if len(servers) != 1 {
		t.Errorf("the nodes of a cluster are %v; want one server", servers)
	}

	var claimers [2]claimer
	var nodes sync.WaitGroup
	for i, table := range tables {
		claimers[i].name = i
		nodes.Go(func() { claimers[i].claimAll(t, table) })
	}
	nodes.Wait()
	claims := map[int64]int{}
	for _, c := range claimers {
		for _, id := range c.won {
			claims[id]++
		}
	}
	twice := 0
	for _, times := range claims {
		twice += times - 1
	}
	overtaken := claimers[0].overtaken + claimers[1].overtaken
	t.Logf("%d and %d rows claimed, %d claims overtaken", len(claimers[0].won), len(claimers[1].won), overtaken)
	if twice > 0 || len(claims) != rows || overtaken == 0 {
		t.Errorf("%d of %d rows were claimed, %d of them on both nodes; %d claims were overtaken", len(claims), rows, twice, overtaken)
	}
}

// inStep waits until a node has what the other one committed.
func inStep(t *testing.T, node *dbserver.Server) {
	t.Helper()
	conn, err := node.Admin().Conn(t.Context())
	if err == nil {
		defer conn.Close()
		_, err = conn.ExecContext(t.Context(), "SET SESSION wsrep_sync_wait = 1; DO 1; SELECT 1")
	}
	must.Do(t, err)
}

// claimer claims at one node.
type claimer struct {
	name      int
	won       []int64
	overtaken int
}

// claimAll claims four rows at a time until there are none.
func (c *claimer) claimAll(t *testing.T, table *mysql.Table) {
	for number := 0; ; number++ {
		var chosen []int64
		err := table.Claim(t.Context(), map[string]int{"a": 4}, nil, func(rows []journal.Row) (events []journal.Event, err error) {
			for _, row := range rows {
				chosen = append(chosen, row.Job)
				token := fmt.Sprintf("@%d%08d", c.name, number)
				events = append(events, journal.Event{Job: row.Job, Payload: journal.Accepted{Target: "a", Token: token}})
			}
			return events, nil
		})
		var overtaken *store.Overtaken
		switch {
		case errors.As(err, &overtaken):
			c.overtaken++
		case err != nil && chosen != nil:
			t.Errorf("claim: %v", err)
			return
		case err == nil && chosen == nil:
			return
		case err == nil:
			c.won = append(c.won, chosen...)
		}
	}
}
