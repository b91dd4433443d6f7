package mysql_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"jobd/journal"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest/check"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/linkproxy"
	"jobd/store/storetest/must"
)

// A trigger may raise any number. None is taken for the table's being away, for a race that is lost
// for ever, or for a commit that may have happened.
func TestRefusedClaimWhateverTheNumber(t *testing.T) {
	t.Parallel()
	for _, errno := range []int{1644, 1146, 1045, 1142, 1213, 1205, 1020, 1366, 4025, 3819, 1180} {
		t.Run(fmt.Sprint(errno), func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, dbserver.JobsTable)
			table := db.table(t)
			var ids []int64
			for range 4 {
				ids = append(ids, db.insert(t, "a", journal.RowWaiting, ""))
			}
			db.exec(t, fmt.Sprintf(`CREATE TRIGGER forbid BEFORE UPDATE ON jobs FOR EACH ROW BEGIN IF NEW.id = %d THEN
				SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = %d, MESSAGE_TEXT = 'not in this house'; END IF; END`, ids[2], errno))
			room := map[string]int{"a": 4}
			err := table.Claim(t.Context(), room, nil, accept)
			var lost *store.Overtaken
			if errors.As(err, &lost) { // once, it may be true
				err = table.Claim(t.Context(), room, nil, accept)
			}
			expectRefused(t, err, ids[2])
			must.Do(t, table.Claim(t.Context(), room, ids[2:3], accept))
			db.expect(t, ids[3], "status", "accepted")
			db.expect(t, ids[2], "status", "waiting")
		})
	}
}

func expectRefused(t *testing.T, err error, ids ...int64) {
	t.Helper()
	var refused *store.RefusedRows
	if !errors.As(err, &refused) || store.IsAway(err) {
		t.Fatalf("got %v; want rows that are refused", err)
	}
	check.Diff(t, ids, slices.Sorted(maps.Keys(refused.Rows)), "rows at fault")
}

// Where the account has lost its right, the table as a whole is at fault, and nothing was
// committed.
func TestClaimWithoutUpdatePrivilege(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	table := db.table(t)
	db.insert(t, "a", journal.RowWaiting, "")
	err := table.Claim(t.Context(), map[string]int{"a": 1}, nil, func(rows []journal.Row) ([]journal.Event, error) {
		for _, host := range []string{"%", "localhost"} {
			db.exec(t, "REVOKE UPDATE ON jobs FROM ?@?", db.account.User, host)
		}
		return accept(rows)
	})
	var refused *store.RefusedRows
	if !errors.As(err, &refused) || !store.IsAway(err) || len(refused.Rows) > 0 {
		t.Errorf("got %v; want an unusable table, and a claim that was not committed", err)
	}
}

// Ids from 2⁶³ on, which an unsigned column can hold, stop nothing, nor do a great many of them.
func TestIDsBeyondOurs(t *testing.T) {
	t.Parallel()
	for _, odd := range []int{3, 300} {
		t.Run(fmt.Sprint(odd), func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, replaced("`id` int(10) UNSIGNED", "`id` bigint UNSIGNED"))
			for i := range odd {
				db.exec(t, "INSERT INTO jobs (id, target, time_created) VALUES (9223372036854775808 + ?, 'a', 1)", i)
				db.exec(t, "UPDATE jobs SET status = ? WHERE id > 9223372036854775807 ORDER BY id DESC LIMIT 1",
					[]string{"waiting", "accepted"}[min(i, 300)/299])
			}
			db.exec(t, "UPDATE jobs SET id = 0 WHERE id = 9223372036854775808")
			id := db.insert2(t, 5)
			table := db.table(t)
			var got []int64
			for range 4 {
				must.Do(t, table.Claim(t.Context(), map[string]int{"a": 100}, nil, func(rows []journal.Row) ([]journal.Event, error) {
					for _, row := range rows {
						got = append(got, row.Job)
					}
					return accept(rows)
				}))
			}
			if !slices.Equal(got, []int64{id}) {
				t.Errorf("claimed: %v", got)
			}
			if _, err := table.UnderWay(t.Context(), token, []string{"a"}); err != nil {
				t.Errorf("UnderWay: %v", err)
			}
			db.claimsNothing(t, table)
		})
	}
}

// insert2 adds a waiting row with an id of the test's.
func (d *database) insert2(t *testing.T, id int64) int64 {
	t.Helper()
	d.exec(t, "INSERT INTO jobs (id, target, time_created) VALUES (?, 'a', 1)", id)
	return id
}

// claimsNothing checks that no row of target a is left that could be claimed.
func (d *database) claimsNothing(t *testing.T, table store.Table) {
	t.Helper()
	if waiting, err := table.Waiting(t.Context(), []string{"a"}, nil); err != nil || len(waiting) > 0 {
		t.Errorf("Waiting: %v, %v", waiting, err)
	}
}

// A row's target is the one that the column's collation takes it for.
func TestManualTargetAsTheCollationSays(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	table := db.table(t)
	db.insert(t, "Reports", journal.RowManual, "")
	db.insert(t, "other", journal.RowManual, "")
	must.Get(table.ClaimManual(t.Context(), []int64{1, 2}, []string{"a", "😀", "reports"}, func(rows []journal.Row) ([]journal.Event, error) {
		if rows[0].Target != "reports" || rows[1].Target != "other" {
			t.Errorf("targets %q and %q", rows[0].Target, rows[1].Target)
		}
		return nil, nil
	}))(t)
}

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
