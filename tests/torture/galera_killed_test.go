package torture

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// Of a Galera pair the node that the worker uses is killed under load. One of two is no majority:
// the other node takes no statement until somebody tells it that it is the cluster now. Then the
// jobs go on there: what was committed is there, so nothing is lost, and nothing runs twice.
func TestGaleraNodeKilled(t *testing.T) {
	t.Parallel()
	if os.Getenv("JOBD_TEST_MYSQL_ROOT") != "" {
		t.Skip("MySQL has no Galera")
	}
	pair := must.Get(dbserver.StartPair(t.Context(), dbserver.Options{}))(t)
	t.Cleanup(func() {
		for _, node := range pair {
			if err := node.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	router := harness.NewLink(t, pair[0].Addr())
	s := newSiteOn(t, pair[0], shortJob, map[string]int{"a": 4}, polling, router.ToDatabase())
	s.start(t)
	s.insert(t, size(300, 3000), "a")
	awaitProgress(t, s, s.jobs/4)
	begun := time.Now()
	must.Do(t, pair[0].Kill())
	router.Lead(pair[1].Addr())
	admin := pair[1].Admin()
	harness.Until(t, func() string { // SHOW is what a node without a majority answers
		var name, state string
		if err := admin.QueryRowContext(t.Context(), "SHOW STATUS LIKE 'wsrep_cluster_status'").Scan(&name, &state); err != nil || state == "Primary" {
			return fmt.Sprintf("the node that is left is %q: %v", state, err)
		}
		return ""
	})
	alone := time.Since(begun)
	var refused *mysql.MySQLError
	if _, err := admin.ExecContext(t.Context(), "SELECT COUNT(*) FROM "+s.Name+".jobs"); !errors.As(err, &refused) || refused.Number != 1047 {
		t.Errorf("one node of two is asked for rows: %v, want error 1047", err)
	}
	must.Get(admin.ExecContext(t.Context(), "SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'"))(t)
	told := time.Now()
	s.moveTo(t, pair[1])
	harness.Until(t, func() string { // it takes statements a moment later
		if _, err := s.Admin.ExecContext(t.Context(), "SELECT COUNT(*) FROM jobs"); err != nil {
			return err.Error()
		}
		return ""
	})
	awaitProgress(t, s, s.Count(t, "status = 'done'")+1)
	on := time.Since(told)
	s.awaitDone(t)
	suite.matrix.add(line{
		fault: "6 node of a Galera pair killed", runs: 1, tally: s.known(t),
		note: fmt.Sprintf("the other notices after %s; told that it is the cluster, its rows get their ends %s after",
			alone.Round(time.Millisecond), on.Round(time.Millisecond)),
	})
}
