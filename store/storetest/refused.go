package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
)

func refusedTests() []test {
	return []test{
		{"a rule against one row does not stop the others", refusedNamesRows},
		{"an id that is none stops nobody", oddID},
	}
}

// forbid makes the table refuse updates for which a condition holds, with a message.
func (s *suite) forbid(condition string) {
	s.Helper()
	if s.RowLocks {
		s.exec("CREATE TRIGGER forbid BEFORE UPDATE ON jobs FOR EACH ROW BEGIN IF " + condition +
			" THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not in this house'; END IF; END")
		return
	}
	s.exec("CREATE TRIGGER forbid BEFORE UPDATE ON jobs WHEN " + condition + " BEGIN SELECT RAISE(ABORT, 'not in this house'); END")
}

// refused checks that an error tells of rows at fault, and of nothing else.
func (s *suite) refused(err error, want ...int64) {
	s.Helper()
	var rows *store.RefusedRows
	if !errors.As(err, &rows) || !rows.Undone() || store.IsAway(err) {
		s.Fatalf("got %v; want rows that are refused, nothing committed, and a table that is not away", err)
	}
	s.names(rows.Refused(), want...)
}

// names checks that rows are told with the table's own words against them.
func (s *suite) names(refused map[int64]string, want ...int64) {
	s.Helper()
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(refused))); diff != "" {
		s.Errorf("rows at fault (-want +got):\n%s", diff)
	}
	for id, why := range refused {
		if !strings.Contains(why, "not in this house") {
			s.Errorf("row %d: %q", id, why)
		}
	}
}

func refusedNamesRows(s *suite) {
	ids := s.insertAll(5, "a", journal.RowWaiting, "")
	s.forbid(fmt.Sprintf("NEW.status = 'accepted' AND NEW.id IN (%d, %d)", ids[1], ids[3]))
	decision := &acceptAll{token: token}
	room := map[string]int{"a": 5}
	s.refused(s.Table.Claim(s.Context(), room, nil, decision.decide), ids[1], ids[3])
	for _, id := range ids {
		s.expect(id, journal.RowWaiting, "")
	}
	if err := s.Table.Claim(s.Context(), room, []int64{ids[1], ids[3]}, decision.decide); err != nil {
		s.Fatal(err)
	}
	for _, id := range []int64{ids[0], ids[2], ids[4]} {
		s.expect(id, journal.RowAccepted, token)
	}
	_, err := s.Table.ClaimManual(s.Context(), ids[1:2], nil, decision.decide)
	s.refused(err, ids[1])
}

func oddID(s *suite) {
	ids := s.insertAll(4, "a", journal.RowWaiting, "")
	s.exec("UPDATE jobs SET id = 0 WHERE id = ?", ids[2])
	var got []int64
	for range 4 {
		decision := &acceptAll{token: token}
		if err := s.Table.Claim(s.Context(), map[string]int{"a": 1}, nil, decision.decide); err != nil {
			s.Fatal(err)
		}
		got = append(got, jobs(decision.rows)...)
	}
	if diff := cmp.Diff([]int64{ids[0], ids[1], ids[3]}, got); diff != "" {
		s.Errorf("rows that were claimed (-want +got):\n%s", diff)
	}
	s.waiting(nil)
}
