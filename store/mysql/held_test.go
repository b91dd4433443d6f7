package mysql_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/mysql"
	"jobd/store/storetest/dbserver"
	"jobd/store/storetest/linkproxy"
	"jobd/store/storetest/must"
)

// running inserts n rows that run under the token, and gives the changes that end them.
func (d *database) running(t *testing.T, n int) []store.Change {
	t.Helper()
	row := fmt.Sprintf("('a', 1, 'running', '%s')", token)
	d.exec(t, "INSERT INTO jobs (target, time_created, status, sig) VALUES "+strings.Repeat(row+",", n-1)+row)
	var changes []store.Change
	for id := range int64(n) {
		changes = append(changes, done(id+1, fmt.Sprint("output of ", id+1)))
	}
	return changes
}

// applied applies changes, and what is held once more, as the mirror does, until only those are held
// that should be: on a busy machine it takes too long to try them all at once.
func (d *database) applied(t *testing.T, table store.Table, changes []store.Change, toBeHeld ...int64) []store.Outcome {
	t.Helper()
	outcomes := make([]store.Outcome, len(changes))
	left := make([]int, len(changes)) // where they are in changes
	for i := range left {
		left[i] = i
	}
	for range tries {
		var again []store.Change
		for _, i := range left {
			again = append(again, changes[i])
		}
		got := must.Get(table.Apply(t.Context(), again))(t)
		var held []int
		for n, outcome := range got {
			if outcomes[left[n]] = outcome; outcome.Fate == store.Held {
				held = append(held, left[n])
			}
		}
		if left = held; len(held) <= len(toBeHeld) {
			break
		}
	}
	return outcomes
}

// held are the jobs of changes that were held; each other one must have been applied, and its row
// must show it.
func (d *database) held(t *testing.T, changes []store.Change, outcomes []store.Outcome) (jobs []int64) {
	t.Helper()
	for i, outcome := range outcomes {
		switch outcome.Fate {
		case store.Applied:
			d.expect(t, changes[i].Job, "status stdout", fmt.Sprint("done output of ", changes[i].Job))
		case store.Held:
			jobs = append(jobs, changes[i].Job)
			d.expect(t, changes[i].Job, "status", "running")
		default:
			t.Errorf("job %d: %+v", changes[i].Job, outcome)
		}
	}
	return jobs
}

// Regression: one row that somebody locked for 40 s made whole batches fail (1205), and the table
// count as away.
func TestLockedRowHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name    string
		pretend string
		first   time.Duration // the most that the first try takes
		second  time.Duration // and the second one, while the row is still locked
	}{
		{"with SKIP LOCKED", "", 20 * time.Second, 900 * time.Millisecond},
		{"without", "5.7.44", 20 * time.Second, 20 * time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, dbserver.JobsTable)
			table := db.table(t)
			if c.pretend != "" {
				must.Do(t, table.Pretend(c.pretend))
			}
			changes := db.running(t, 8)
			holder := db.begin(t, "SELECT * FROM jobs WHERE id = 5 FOR UPDATE")
			again, limit := changes, c.first
			for try := 1; ; try++ {
				changes := again
				begun := time.Now()
				got := must.Get(table.Apply(t.Context(), changes))(t)
				took := time.Since(begun)
				held := db.held(t, changes, got)
				alone := len(held) == 1 || c.pretend != "" // on a busy machine not all others are tried at once
				if !slices.Contains(held, 5) || !alone && try > tries {
					t.Fatalf("held %v; want 5 alone", held)
				}
				again = slices.DeleteFunc(slices.Clone(changes), func(c store.Change) bool { return !slices.Contains(held, c.Job) })
				if try > 1 && took <= limit && alone {
					at := slices.IndexFunc(changes, func(c store.Change) bool { return c.Job == 5 })
					if c.pretend == "" && got[at].Note != "the row is locked by somebody else" {
						t.Errorf("the reason is %q", got[at].Note)
					}
					break
				}
				// A client that waits for the row takes longer each time; a busy machine lets one of some be quick.
				if took > limit && (try == 1 || try > tries) {
					t.Fatalf("try %d took %s, more than %s", try, took, limit)
				}
				limit = c.second
			}
			must.Do(t, holder.Rollback())
			if got := db.applied(t, table, again); len(db.held(t, again, got)) > 0 {
				t.Errorf("with the row free again: %v", got)
			}
		})
	}
}

// A row that is gone or somebody else's is told from a locked one, also while others are locked.
func TestLockedRowsAreToldFromLostOnes(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	table := db.table(t)
	changes := append(db.running(t, 4), done(4711, "x"), store.Change{Job: 4712, Token: token, Status: journal.RowWaiting})
	db.exec(t, "UPDATE jobs SET sig = '@other1234' WHERE id = 2")
	db.begin(t, "SELECT * FROM jobs WHERE id IN (3, 4) FOR UPDATE")
	changes[3] = store.Change{Job: 4, Token: token, Status: journal.RowWaiting}
	want := []store.Fate{store.Applied, store.Lost, store.Held, store.Held, store.Lost, store.Applied}
	for range 2 { // with a wait at first, then without
		got := db.applied(t, table, changes, 3, 4)
		for i, outcome := range got {
			if outcome.Fate != want[i] {
				t.Errorf("job %d: %+v, want fate %d", changes[i].Job, outcome, want[i])
			}
		}
		if row := got[1].Found; row == nil || row.Owner != "@other1234" {
			t.Errorf("the lost row: %+v", row)
		}
	}
}

// refusing makes the updates of some rows fail as a trigger says.
func (d *database) refusing(t *testing.T, condition string, number int) {
	t.Helper()
	d.exec(t, fmt.Sprintf(`CREATE TRIGGER refusing%d BEFORE UPDATE ON jobs FOR EACH ROW BEGIN
		IF %s THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = %d, MESSAGE_TEXT = 'says the trigger'; END IF; END`, number, condition, number))
}

// Regression: a trigger that failed for some rows with error 1146 was taken for an unusable table
// (6 of 360 rows done), one with 1213 for a deadlock: the same batch was tried for ever. A trigger
// may raise any number, those of an outage too.
func TestTriggerRaisesAnyNumber(t *testing.T) {
	t.Parallel()
	numbers := []int{
		1146, 1054, 1142, 1045, 1064, 1193, // the table or the account
		1040, 1047, 1053, 1290, 1792, 1836, 1927, // the server
		1020, 1180, 1205, 1213, 3101, 3572, 8028, 9007, // another transaction
		1235, 1105, 1317, 1665, 9999, // anything else
	}
	for _, number := range numbers {
		t.Run(fmt.Sprint(number), func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, dbserver.JobsTable)
			table := db.table(t)
			changes := db.running(t, 40)
			db.refusing(t, "NEW.id IN (7, 8, 33, 41)", number)
			db.insert(t, "a", journal.RowWaiting, "")
			got := db.applied(t, table, changes, 7, 8, 33)
			if held := db.held(t, changes, got); !slices.Equal(held, []int64{7, 8, 33}) {
				t.Errorf("held %v", held)
			}
			if !strings.Contains(got[6].Note, "says the trigger") {
				t.Errorf("the reason is %q", got[6].Note)
			}
			if err := table.Claim(t.Context(), map[string]int{"a": 1}, nil, accept); err == nil || store.IsAway(err) {
				t.Errorf("a claim of another such row: %v; want an error of that row", err)
			}
		})
	}
}

// hold takes a lock and gives the holder's name.
func hold(t *testing.T, table *mysql.Table, name string) string {
	t.Helper()
	holder, err := table.Hold(t.Context(), name)
	if err != nil {
		t.Fatalf("hold %s: %v", name, err)
	}
	return holder
}

// The holder is told by its connection's number and address.
func TestHolderIsNamed(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	first, second := db.table(t), db.table(t)
	if got := hold(t, first, "name:x"); got != "" {
		t.Fatalf("it is %q's", got)
	}
	var id int
	var from string
	got := hold(t, second, "name:x")
	if n, err := fmt.Sscanf(got, "connection %d from %s", &id, &from); n != 2 || err != nil || !strings.HasPrefix(from, "127.0.0.1:") {
		t.Errorf("the holder is %q", got)
	}
	other := newDatabase(t, dbserver.JobsTable).table(t)
	if got := hold(t, other, "name:x"); got != "" {
		t.Errorf("the same name on another table is %q's", got)
	}
}

// A lock that is held costs no round trip, and no claim waits for the connection that has it.
func TestHoldIsCheapAndStarvesNobody(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	sent := make(chan string, 1000)
	config := db.config()
	config.MaxOpen = 2
	config.Dial = spied(sent)
	table := confirmed(t, open(t, config))
	hold(t, table, "name:x")
	hold(t, table, "mark:y")
	for len(sent) > 0 {
		<-sent
	}
	for range 100 {
		hold(t, table, "name:x")
		hold(t, table, "mark:y")
	}
	if n := len(sent); n > 0 {
		t.Errorf("%d packets for locks that were held", n)
	}
	db.insert(t, "a", journal.RowWaiting, "")
	must.Do(t, table.Claim(t.Context(), map[string]int{"a": 1}, nil, accept))
}

// spied dials, and tells of each packet.
func spied(sent chan<- string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return spy{conn, sent}, err
	}
}

type spy struct {
	net.Conn
	sent chan<- string
}

func (s spy) Write(p []byte) (int, error) {
	select {
	case s.sent <- string(bytes.Clone(p)):
	default:
	}
	return s.Conn.Write(p)
}

// When the connection is lost, its locks are gone: somebody else may have them by then.
func TestHoldAfterALostConnection(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	config, lost := db.config(), make(chan struct{}, 100)
	config.OnLost = func() { lost <- struct{}{} }
	table, other := confirmed(t, open(t, config)), db.table(t)
	table.PingEvery(10 * time.Millisecond)
	hold(t, table, "name:x")
	hold(t, table, "mark:y")
	db.killAll(t)
	<-lost // it is noticed though nobody asks for anything
	if _, err := other.Hold(t.Context(), "name:x"); err != nil {
		t.Fatal(err) // its pool had died too
	}
	for deadline := time.Now().Add(20 * time.Second); hold(t, table, "name:x") == ""; {
		if time.Now().After(deadline) {
			t.Fatal("it still takes the lock for its own")
		}
	}
	if got := hold(t, table, "mark:y"); got != "" {
		t.Errorf("the lock that nobody else wanted is %q's", got)
	}
	if got := hold(t, other, "mark:y"); got == "" {
		t.Error("it was not taken anew")
	}
}

// A claim that lost its link makes the next Hold ask, without waiting for a ping.
func TestHoldAsksAfterAnyLostLink(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	table, proxy := db.proxied(t)
	other := db.table(t)
	hold(t, table, "name:x")
	id := db.insert(t, "a", journal.RowManual, "")
	_, err := table.ClaimManual(t.Context(), []int64{id}, nil, func(rows []journal.Row) ([]journal.Event, error) {
		proxy.Cut()
		return accept(rows)
	})
	if err == nil {
		t.Fatal("the link was not cut")
	}
	for deadline := time.Now().Add(20 * time.Second); hold(t, other, "name:x") != ""; {
		if time.Now().After(deadline) {
			t.Fatal("the server does not give the lock back")
		}
	}
	if hold(t, table, "name:x") == "" {
		t.Error("it takes the other's lock for its own")
	}
}

// A server that refuses advisory locks is done without, and that is said once.
func TestHoldWhereTheServerRefuses(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, dbserver.JobsTable)
	proxy := must.Get(linkproxy.Start(db.server.Addr()))(t)
	t.Cleanup(func() { proxy.Close() })
	must.Get(proxy.Replace("GET_LOCK", "GOT_LOCK"))(t)
	var written log
	config := db.config()
	config.Port, config.Logger = proxy.Port(), written.logger()
	var table store.Table = confirmed(t, open(t, config))
	for range 2 {
		for _, name := range []string{"name:x", "mark:y"} {
			if holder, err := table.Hold(t.Context(), name); err != nil || holder != "" {
				t.Errorf("%q, %v", holder, err)
			}
		}
	}
	if n := strings.Count(written.String(), "advisory locks"); n != 1 {
		t.Errorf("%d warnings, want one:\n%s", n, written.String())
	}
}
