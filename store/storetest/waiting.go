package storetest

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
)

func waitingTests() []test {
	return []test{
		{"targets with waiting rows, beside some", waitingBeside},
		{"it waits for no writer", waitingWaitsForNobody},
		{"rows that somebody's open transaction holds", heldRows(func(s *suite, tx *sql.Tx) {
			must(s, tx, "SELECT * FROM jobs WHERE target = 'a' FOR UPDATE")
		})},
		{"rows that an open claim has changed, which may be undone", heldRows(func(s *suite, tx *sql.Tx) {
			must(s, tx, "UPDATE jobs SET status = 'accepted' WHERE target = 'a'")
		})},
		{"rows that somebody is about to remove, which may be undone", heldRows(func(s *suite, tx *sql.Tx) {
			must(s, tx, "DELETE FROM jobs WHERE target = 'a'")
		})},
		{"rows of an INSERT that is not committed yet", heldRows(func(s *suite, tx *sql.Tx) {
			s.exec("DELETE FROM jobs")
			must(s, tx, "INSERT INTO jobs (target, time_created) VALUES ('a', 1)")
		})},
	}
}

// waiting compares what Waiting tells.
func (s *suite) waiting(except []int64, want ...string) {
	s.Helper()
	got, err := s.Table.Waiting(s.within(hung), []string{"a", "b", "c", "d"}, except)
	if err != nil {
		s.Fatalf("Waiting: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("targets that wait (-want +got):\n%s", diff)
	}
}

func waitingBeside(s *suite) {
	s.waiting(nil)
	a := s.insertAll(3, "a", journal.RowWaiting, "")
	b := s.insert("b", journal.RowWaiting, "")
	s.insert("c", journal.RowManual, "")
	s.insert("d", journal.RowAccepted, token)
	s.waiting(nil, "a", "b")
	s.waiting(a[:2], "a", "b")
	s.waiting(a, "b")
	s.waiting(append(slices.Clone(a), b))
	if got, err := s.Table.Waiting(s.Context(), nil, nil); err != nil || len(got) > 0 {
		s.Errorf("without targets: %v, %v", got, err)
	}
	var many []string
	for i := range 250 {
		many = append(many, "t"+strconv.Itoa(i))
	}
	if got, err := s.Table.Waiting(s.Context(), append(many, "b"), nil); err != nil || !slices.Equal(got, []string{"b"}) {
		s.Errorf("with many targets: %v, %v", got, err)
	}
}

func waitingWaitsForNobody(s *suite) {
	s.insert("a", journal.RowWaiting, "")
	tx := s.begin()
	must(s, tx, "UPDATE jobs SET time_created = 2")
	s.quick(func() { s.waiting(nil, "a") })
}

// quick checks that something waits for no lock: the least that a server waits is a second. A busy
// machine, which rings a timer late meanwhile, gets some more time: it does that to each statement.
func (s *suite) quick(work func()) {
	s.Helper()
	const pause = 5 * time.Millisecond
	stop, late := make(chan struct{}), make(chan time.Duration, 1)
	go func() {
		var most time.Duration
		for begun := time.Now(); ; begun = time.Now() {
			select {
			case <-time.After(pause):
				most = max(most, time.Since(begun)-pause)
			case <-stop:
				late <- most
				return
			}
		}
	}()
	took := func() time.Duration {
		defer close(stop)
		begun := time.Now()
		work()
		return time.Since(begun)
	}()
	if limit := 900*time.Millisecond + 20*<-late; took > limit {
		s.Errorf("it took %s, more than %s: it has waited for a lock", took, limit)
	}
}

// begin opens a transaction of the application's.
func (s *suite) begin() *sql.Tx {
	s.Helper()
	tx, err := s.DB.BeginTx(context.Background(), nil)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = tx.Rollback() }) // where the test has not ended it
	return tx
}

func must(s *suite, tx *sql.Tx, query string, args ...any) {
	s.Helper()
	if _, err := tx.Exec(query, args...); err != nil {
		s.Fatalf("%s: %v", query, err)
	}
}

// heldRows are waiting rows of target a that a claim passes by, and Waiting does not.
func heldRows(hold func(s *suite, tx *sql.Tx)) func(s *suite) {
	return func(s *suite) {
		if !s.RowLocks {
			s.Skip("transactions wait for each other here: a claim never passes by a row")
		}
		s.insertAll(2, "a", journal.RowWaiting, "")
		s.waitingIsConnected()
		tx := s.begin()
		hold(s, tx)
		decision := &acceptAll{token: token}
		s.quick(func() {
			if err := s.Table.Claim(s.Context(), map[string]int{"a": 5}, nil, decision.decide); err != nil {
				s.Fatal(err)
			}
			s.waiting(nil, "a")
		})
		if len(decision.rows) > 0 {
			s.Errorf("the claim got %v", decision.rows)
		}
	}
}

// waitingIsConnected lets the table examine what it must, so that it takes no time later.
func (s *suite) waitingIsConnected() {
	s.Helper()
	if _, err := s.Table.Waiting(s.Context(), []string{"a"}, nil); err != nil {
		s.Fatal(err)
	}
}
