package storetest

import (
	"database/sql"
	"strings"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
)

func detailTests() []test {
	return []test{
		{"all of a row, and of none that is missing", detailShowsAll},
		{"columns that are NULL", detailOfNulls},
		{"the end of what a job wrote", detailOfOutput},
		{"how many wait before a row", aheadCounts},
		{"no more are counted than are wanted", aheadIsBounded},
		{"neither waits for a writer", detailWaitsForNobody},
	}
}

// details compares what Details tells of one row.
func (s *suite) detail(id int64, targets []string, tail int, want *store.Detail) {
	s.Helper()
	got, err := s.Table.Details(s.within(hung), []int64{id, 999_999}, targets, tail)
	if err != nil {
		s.Fatalf("Details: %v", err)
	}
	if diff := cmp.Diff(map[int64]*store.Detail{id: want}, got); diff != "" {
		s.Errorf("row (-want +got):\n%s", diff)
	}
}

func detailShowsAll(s *suite) {
	id := s.insert("a", journal.RowDone, "SIGKILL")
	s.exec("UPDATE jobs SET time_started = 5, time_finished = 7, result = 'fail', return_code = 3, stdout = 'out', stderr = 'errors' WHERE id = ?", id)
	three := int64(3)
	want := &store.Detail{
		Seen: store.Seen{
			Row:     journal.Row{Job: id, Target: "a", Status: journal.RowDone, Owner: "SIGKILL"},
			Created: 1, Started: 5, Finished: 7, Result: "fail", Code: &three, Signal: "SIGKILL",
		},
		Code: "3", Sig: "SIGKILL", Served: "a",
		Stdout: store.Written{Size: 3, Tail: "out"}, Stderr: store.Written{Size: 6, Tail: "rors"},
	}
	s.detail(id, []string{"b", "a"}, 4, want)
	want.Served, want.Stdout.Tail, want.Stderr.Tail = "", "", ""
	s.detail(id, nil, 0, want)
	if got, err := s.Table.Details(s.Context(), nil, nil, 0); err != nil || len(got) > 0 {
		s.Errorf("details of nothing: %v, %v", got, err)
	}
}

func detailOfNulls(s *suite) {
	id := s.insert("a", journal.RowWaiting, "")
	s.detail(id, []string{"b"}, 100, &store.Detail{
		Seen: store.Seen{Row: journal.Row{Job: id, Target: "a", Status: journal.RowWaiting}, Created: 1},
	})
}

// What is cut begins with a whole character.
func detailOfOutput(s *suite) {
	id := s.insert("a", journal.RowDone, "")
	text := strings.Repeat("x", 1<<16) + "ü€\n"
	s.exec("UPDATE jobs SET stdout = ?, stderr = ? WHERE id = ?", text, "€", id)
	got, err := s.Table.Details(s.Context(), []int64{id}, nil, 5)
	if err != nil {
		s.Fatal(err)
	}
	if out := got[id].Stdout; out != (store.Written{Size: 1<<16 + 6, Tail: "€\n"}) {
		s.Errorf("stdout: %+v", out)
	}
	if errs := got[id].Stderr; errs != (store.Written{Size: 3, Tail: "€"}) {
		s.Errorf("stderr: %+v", errs)
	}
}

// ahead compares what Ahead tells.
func (s *suite) ahead(most int, waiters []store.Waiter, want map[int64]store.Counted) {
	s.Helper()
	got, err := s.Table.Ahead(s.within(hung), waiters, most)
	if err != nil {
		s.Fatalf("Ahead: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("rows ahead, up to %d (-want +got):\n%s", most, diff)
	}
}

func aheadCounts(s *suite) {
	a := s.insertAll(3, "a", journal.RowWaiting, "")
	s.insert("a", journal.RowManual, "")
	s.insert("a", journal.RowRunning, token)
	b := s.insertAll(2, "b", journal.RowWaiting, "")
	last := s.insert("a", journal.RowWaiting, "")
	ran := s.insert("a", journal.RowDone, "")
	s.ahead(10, []store.Waiter{{Job: last, Target: "a"}, {Job: b[1], Target: "b"}, {Job: a[0], Target: "a"}, {Job: ran, Target: "a"}, {Job: a[2], Target: "c"}},
		map[int64]store.Counted{a[0]: {}, last: {Rows: 3}, ran: {Rows: 4}, b[1]: {Rows: 1}, a[2]: {}})
	s.ahead(10, nil, map[int64]store.Counted{})
}

func aheadIsBounded(s *suite) {
	a := s.insertAll(8, "a", journal.RowWaiting, "")
	waiters := []store.Waiter{{Job: a[2], Target: "a"}, {Job: a[3], Target: "a"}, {Job: a[4], Target: "a"}, {Job: a[7], Target: "a"}}
	s.ahead(3, waiters, map[int64]store.Counted{a[2]: {Rows: 2}, a[3]: {Rows: 3}, a[4]: {Rows: 3, More: true}, a[7]: {Rows: 3, More: true}})
	s.ahead(3, waiters[3:], map[int64]store.Counted{a[7]: {Rows: 3, More: true}})
}

func detailWaitsForNobody(s *suite) {
	a := s.insertAll(2, "a", journal.RowWaiting, "")
	s.waitingIsConnected()
	var tx *sql.Tx
	if s.RowLocks {
		tx = s.begin()
		must(s, tx, "UPDATE jobs SET status = 'accepted'")
	}
	s.quick(func() {
		s.ahead(10, []store.Waiter{{Job: a[1], Target: "a"}}, map[int64]store.Counted{a[1]: {Rows: 1}})
		got, err := s.Table.Details(s.Context(), a, nil, 10)
		if err != nil || len(got) != 2 || got[a[1]].Status != journal.RowWaiting {
			s.Errorf("%v, %v", got, err)
		}
	})
}
