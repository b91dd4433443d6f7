package storetest

import (
	"context"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
)

func lookTests() []test {
	return []test{
		{"rows as they are, and missing ones", lookShowsAll},
		{"nobody waits for a look", lookLocksNothing},
	}
}

func lookShowsAll(s *suite) {
	ids := []int64{999_999}
	want := map[int64]*store.Seen{}
	for i, status := range statuses() {
		owner := ""
		if status == journal.RowAccepted || status == journal.RowRunning {
			owner = tokenOf(i)
		}
		id := s.insert("a", status, owner)
		want[id] = &store.Seen{Row: journal.Row{Job: id, Target: "a", Status: status, Owner: owner}, Created: 1}
		ids = append(ids, id, id)
	}
	id := ids[len(ids)-1]
	if _, err := s.DB.ExecContext(s.Context(), "UPDATE jobs SET time_started = 5, time_finished = 7, result = 'fail' WHERE id = ?", id); err != nil {
		s.Fatal(err)
	}
	want[id].Started, want[id].Finished, want[id].Result = 5, 7, "fail"
	got, err := s.Table.Look(s.Context(), ids)
	if err != nil {
		s.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("rows (-want +got):\n%s", diff)
	}
	if got, err := s.Table.Look(s.Context(), nil); err != nil || len(got) > 0 {
		s.Errorf("a look at nothing: %v, %v", got, err)
	}
}

// While another worker's claim holds a row, a look sees it as it was before.
func lookLocksNothing(s *suite) {
	if !s.RowLocks {
		s.Log("transactions of this table wait for each other: the look is made after the claim")
	}
	id := s.insert("a", journal.RowWaiting, "")
	look := func(want string) {
		got, err := s.Table.Look(s.Context(), []int64{id})
		if err != nil || got[id] == nil || got[id].Status != want {
			s.Errorf("a look at a row that is %s: %+v, %v", want, got[id], err)
		}
	}
	_, err := s.Other.ClaimManual(context.Background(), []int64{id}, nil, func([]journal.Row) ([]journal.Event, error) {
		if s.RowLocks {
			look(journal.RowWaiting)
		}
		return []journal.Event{{Job: id, Payload: journal.Accepted{Target: "a", Token: token}}}, nil
	})
	if err != nil {
		s.Fatal(err)
	}
	look(journal.RowAccepted)
}
