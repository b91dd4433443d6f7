package storetest

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

func claimTests() []test {
	return []test{
		{"as much as there is room for, lowest ids first", claimByRoom},
		{"nothing where nothing waits", claimNothing},
		{"decide's error rolls back", claimRolledBack},
		{"a panic of decide rolls back", claimPanics},
		{"rows left undecided stay", claimLeavesRows},
		{"rows that start with their claim", claimStarts},
		{"a draft for a row of nobody's is an error", claimStrangeDraft},
		{"pitfalls 2 and 3: rows that another claim holds are skipped, and only those", claimSkipsLocked},
		{"rows that are left out do not fill the window", claimLeavesOut},
		{"rows tell the server's clock", rowsTellTheClock},
		{"many claimers, each row once", claimConcurrently},
		{"pitfall 1: applications insert while a claim is open", claimLetsInsert},
	}
}

func claimByRoom(s *suite) {
	a := s.insertAll(5, "a", journal.RowWaiting, "")
	b := s.insertAll(2, "b", journal.RowWaiting, "")
	c := s.insertAll(1, "c", journal.RowWaiting, "")
	d := s.insertAll(1, "d", journal.RowWaiting, "")
	s.insert("a", journal.RowManual, "")
	s.insert("a", journal.RowDone, "")
	decision := &acceptAll{token: token}
	room := map[string]int{"a": 3, "b": 10, "c": 0, "nobody": 4}
	must.Do(s, s.Table.Claim(s.Context(), room, nil, decision.decide))
	got := timeless(decision.rows)
	slices.SortFunc(got, func(x, y journal.Row) int { return int(x.Job - y.Job) })
	var want []journal.Row
	for _, id := range a[:3] {
		want = append(want, journal.Row{Job: id, Target: "a", Status: journal.RowWaiting, Created: 1})
	}
	for _, id := range b {
		want = append(want, journal.Row{Job: id, Target: "b", Status: journal.RowWaiting, Created: 1})
	}
	if diff := cmp.Diff(want, got); diff != "" || decision.calls != 1 {
		s.Errorf("decide was called %d times, last with (-want +got):\n%s", decision.calls, diff)
	}
	for _, id := range append(slices.Clone(a[:3]), b...) {
		s.expect(id, journal.RowAccepted, token)
		if got := s.read(id); !got.ResultNull || got.Started != 0 {
			s.Errorf("job %d: %+v; want no result and no start before it ran", id, got)
		}
	}
	for _, id := range slices.Concat(a[3:], c, d) {
		s.expect(id, journal.RowWaiting, "")
	}
}

func claimNothing(s *suite) {
	s.insert("a", journal.RowManual, "")
	decision := &acceptAll{token: token}
	for _, room := range []map[string]int{nil, {}, {"a": 0}, {"a": 5}, {"a": -1}} {
		if err := s.Table.Claim(s.Context(), room, nil, decision.decide); err != nil {
			s.Fatalf("room %v: %v", room, err)
		}
	}
	if decision.calls != 0 {
		s.Errorf("decide was called %d times, though there was no row", decision.calls)
	}
}

func claimRolledBack(s *suite) {
	id := s.insert("a", journal.RowWaiting, "")
	full := errors.New("the disk is full")
	err := s.Table.Claim(s.Context(), map[string]int{"a": 1}, nil, func([]journal.Row) ([]journal.Event, error) {
		return nil, full
	})
	if !errors.Is(err, full) {
		s.Errorf("Claim: %v, want %v", err, full)
	}
	s.expect(id, journal.RowWaiting, "")
	s.claimable(id)
}

func claimPanics(s *suite) {
	id := s.insert("a", journal.RowWaiting, "")
	func() {
		defer func() {
			if recover() == nil {
				s.Error("the panic was swallowed")
			}
		}()
		_ = s.Table.Claim(s.Context(), map[string]int{"a": 1}, nil, func([]journal.Row) ([]journal.Event, error) {
			panic("in decide")
		})
	}()
	s.claimable(id)
}

// claimable checks that nothing holds the row any more: another worker gets it at once.
func (s *suite) claimable(id int64) {
	s.Helper()
	decision := &acceptAll{token: "@other1234"}
	must.Do(s, s.Other.Claim(s.Context(), map[string]int{"a": 1}, nil, decision.decide))
	s.expect(id, journal.RowAccepted, "@other1234")
}

func claimStarts(s *suite) {
	ids := s.insertAll(3, "a", journal.RowWaiting, "")
	err := s.Table.Claim(s.Context(), map[string]int{"a": 3}, nil, func(rows []journal.Row) ([]journal.Event, error) {
		var events []journal.Event
		for i, row := range rows {
			events = append(events, journal.Event{Job: row.Job, Payload: journal.Accepted{Target: "a", Token: token}})
			if i < 2 {
				events = append(events, journal.Event{Job: row.Job, Time: time.Unix(started, 999), Payload: journal.Running{Attempt: 1, Claimed: true}})
			}
		}
		return events, nil
	})
	must.Do(s, err)
	for i, id := range ids {
		want := row{Target: "a", Status: journal.RowRunning, Started: started, Sig: token, SigSet: true, Code: -1, ResultNull: true}
		if i == 2 {
			want.Status, want.Started = journal.RowAccepted, 0
		}
		check.Diff(s, want, s.read(id), "row %d", i)
	}
}

func claimLeavesRows(s *suite) {
	ids := s.insertAll(3, "a", journal.RowWaiting, "")
	err := s.Table.Claim(s.Context(), map[string]int{"a": 3}, nil, func(rows []journal.Row) ([]journal.Event, error) {
		return []journal.Event{
			{Job: rows[1].Job, Payload: journal.Accepted{Target: "a", Token: token}},
			{Job: rows[2].Job, Payload: journal.Ignored{Reason: "not served"}},
		}, nil
	})
	must.Do(s, err)
	s.expect(ids[0], journal.RowWaiting, "")
	s.expect(ids[1], journal.RowAccepted, token)
	s.expect(ids[2], journal.RowIgnored, "")
	s.claimable(ids[0])
}

func claimStrangeDraft(s *suite) {
	id := s.insert("a", journal.RowWaiting, "")
	stranger := s.insert("b", journal.RowWaiting, "")
	err := s.Table.Claim(s.Context(), map[string]int{"a": 3}, nil, func([]journal.Row) ([]journal.Event, error) {
		return []journal.Event{{Job: stranger, Payload: journal.Accepted{Target: "b", Token: token}}}, nil
	})
	if err == nil {
		s.Error("a draft for a row that was not locked was taken")
	}
	s.expect(stranger, journal.RowWaiting, "")
	s.claimable(id)
}

func claimSkipsLocked(s *suite) {
	ids := s.insertAll(4, "a", journal.RowWaiting, "")
	inner := &acceptAll{token: "@other1234"}
	outer := &acceptAll{token: token}
	other := func() error {
		return s.Other.Claim(s.within(hung), map[string]int{"a": 3}, nil, inner.decide)
	}
	err := s.Table.Claim(s.Context(), map[string]int{"a": 2}, nil, func(rows []journal.Row) ([]journal.Event, error) {
		if s.RowLocks {
			if err := other(); err != nil {
				return nil, err
			}
		}
		return outer.decide(rows)
	})
	if err == nil && !s.RowLocks {
		err = other()
	}
	must.Do(s, err)
	check.Diff(s, [][]int64{ids[:2], ids[2:]}, [][]int64{jobs(outer.rows), jobs(inner.rows)}, "rows of the first and the second claim")
	for i, id := range ids {
		s.expect(id, journal.RowAccepted, []string{token, token, "@other1234", "@other1234"}[i])
	}
}

func claimLeavesOut(s *suite) {
	a := s.insertAll(6, "a", journal.RowWaiting, "")
	b := s.insertAll(2, "b", journal.RowWaiting, "")
	decision := &acceptAll{token: token}
	err := s.Table.Claim(s.Context(), map[string]int{"a": 2, "b": 1}, []int64{a[0], a[1], a[3], b[0], 4711}, decision.decide)
	must.Do(s, err)
	check.Diff(s, []int64{a[2], a[4], b[1]}, jobs(decision.rows), "rows")
}

func claimConcurrently(s *suite) {
	s.insertAll(60, "a", journal.RowWaiting, "")
	s.race(60, s.Table, s.Other)
}

// race has claimers of some tables take rows of target a, four at a time: each is taken once.
func (s *suite) race(rows int, tables ...store.Table) {
	s.Helper()
	const claimers = 6
	var mu sync.Mutex
	claims := map[int64]string{}
	var all sync.WaitGroup
	for n := range claimers {
		table := tables[n%len(tables)]
		all.Go(func() {
			for {
				decision := &acceptAll{token: tokenOf(n)}
				if err := table.Claim(s.Context(), map[string]int{"a": 4}, nil, decision.decide); err != nil {
					s.Errorf("claimer %d: %v", n, err)
					return
				}
				mu.Lock()
				for _, r := range decision.rows {
					if by, twice := claims[r.Job]; twice {
						s.Errorf("job %d was claimed by %s and by %s", r.Job, by, tokenOf(n))
					}
					claims[r.Job] = tokenOf(n)
				}
				finished := len(claims) == rows
				mu.Unlock()
				if finished || s.Failed() {
					return
				}
			}
		})
	}
	all.Wait()
	for id, by := range claims {
		s.expect(id, journal.RowAccepted, by)
	}
}

func claimLetsInsert(s *suite) {
	s.insert("a", journal.RowWaiting, "")
	inserted := make(chan error, 1)
	insert := func() {
		_, err := s.DB.ExecContext(s.within(hung), "INSERT INTO jobs (target, time_created) VALUES ('a', 1), ('b', 1)")
		inserted <- err
	}
	decision := &acceptAll{token: token}
	err := s.Table.Claim(s.Context(), map[string]int{"a": 5, "b": 5}, nil, func(rows []journal.Row) ([]journal.Event, error) {
		if s.RowLocks {
			insert()
		} else {
			go insert()
		}
		return decision.decide(rows)
	})
	if decision.calls == 0 {
		s.Fatalf("decide was not called: %v", err)
	}
	must.Do(s, errors.Join(err, <-inserted))
}

// Methods that read rows under a lock report what the server's clock says, without being asked.
func rowsTellTheClock(s *suite) {
	ids := s.insertAll(2, "a", journal.RowWaiting, "")
	before := time.Now()
	told := func(what string, rows []journal.Row, err error) {
		s.Helper()
		for _, row := range rows {
			if apart := row.Now.Sub(before); apart < -2*time.Second || apart > 30*time.Second {
				s.Errorf("%s: the clock is %s off", what, apart)
			}
		}
		if len(rows) != len(ids) || err != nil {
			s.Errorf("%s: %d rows, %v", what, len(rows), err)
		}
	}
	var read []journal.Row
	look := func(rows []journal.Row) ([]journal.Event, error) {
		read = rows
		return nil, nil
	}
	err := s.Table.Claim(s.Context(), map[string]int{"a": 2}, nil, look)
	told("Claim", read, err)
	_, err = s.Table.ClaimManual(s.Context(), ids, nil, look)
	told("ClaimManual", read, err)
	read, _, err = s.Table.Rows(s.Context(), ids)
	told("Rows", read, err)
}
