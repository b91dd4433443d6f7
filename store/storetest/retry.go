package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
)

func retryTests() []test {
	return []test{
		{"nothing is left of how a job ended, but when", retryClears},
		{"only rows that have ended as decided", retryOnlyEnded},
		{"rows that somebody holds are told, not waited for", retryTellsLocked},
		{"of two at once one sets a row back", retryRaces},
		{"a rule against one row does not stop the others", retryRefused},
		{"what was decided is not done where deciding fails", retryUndone},
		{"many rows, together", retryMany},
	}
}

// ended adds a row that has ended, with all that an end leaves.
func (s *suite) ended(status string) int64 {
	s.Helper()
	id := s.insert("a", status, "")
	s.exec(fmt.Sprintf("UPDATE jobs SET time_started = %d, time_finished = %d, result = 'fail', return_code = 3, sig = 'SIGTERM', "+
		"stdout = 'out', stderr = 'err' WHERE id = %d", started, finished, id))
	return id
}

// setBack decides that all rows go back.
func setBack(to string, at time.Time) func([]journal.Row) ([]journal.Event, error) {
	return func(rows []journal.Row) (events []journal.Event, err error) {
		for _, row := range rows {
			events = append(events, journal.Event{Job: row.Job, Time: at, Payload: journal.Retried{
				Target: row.Target, From: row.Status, To: to, Result: row.Result, Finished: row.Finished, By: "me",
			}})
		}
		return events, nil
	}
}

func retryClears(s *suite) {
	at := time.Unix(finished+9, 5)
	for _, to := range []string{journal.RowWaiting, journal.RowManual} {
		done, ignored := s.ended(journal.RowDone), s.insert("b", journal.RowIgnored, "")
		var rows []journal.Row
		locked, err := s.Table.ClaimManual(s.Context(), []int64{ignored, done, done, 999_999}, nil, func(found []journal.Row) ([]journal.Event, error) {
			rows = found
			return setBack(to, at)(found)
		})
		if err != nil || len(locked) > 0 {
			s.Fatalf("%v, locked: %v", err, locked)
		}
		want := []journal.Row{
			{Job: done, Target: "a", Status: journal.RowDone, Owner: "SIGTERM", Finished: finished, Result: "fail", Created: 1},
			{Job: ignored, Target: "b", Status: journal.RowIgnored, Created: 1},
		}
		if diff := cmp.Diff(want, timeless(rows)); diff != "" {
			s.Errorf("rows (-want +got):\n%s", diff)
		}
		for id, want := range map[int64]row{
			done:    {Target: "a", Status: to, Finished: finished},
			ignored: {Target: "b", Status: to, Finished: at.Unix()},
		} {
			got := s.read(id)
			got.ResultNull, got.SigSet = false, false
			if want.Code = -1; got.Code == 0 { // a column without NULL
				got.Code = -1
			}
			if diff := cmp.Diff(want, got); diff != "" {
				s.Errorf("row %d (-want +got):\n%s", id, diff)
			}
		}
	}
}

func retryOnlyEnded(s *suite) {
	for i, status := range statuses() {
		id := s.insert("a", status, tokenOf(i))
		_, err := s.Table.ClaimManual(s.Context(), []int64{id}, nil, setBack(journal.RowWaiting, time.Unix(finished, 0)))
		if ended := status == journal.RowDone || status == journal.RowIgnored; ended != (err == nil) {
			s.Errorf("a row in %s: %v", status, err)
		} else if !ended {
			s.expect(id, status, tokenOf(i))
		}
	}
	id := s.ended(journal.RowDone)
	for name, payload := range map[string]journal.Payload{
		"another end":    journal.Retried{From: journal.RowDone, To: journal.RowWaiting, Finished: finished - 1},
		"another status": journal.Retried{From: journal.RowIgnored, To: journal.RowWaiting, Finished: finished},
		"forward":        journal.Retried{From: journal.RowDone, To: journal.RowRunning, Finished: finished},
	} {
		_, err := s.Table.ClaimManual(s.Context(), []int64{id}, nil, func([]journal.Row) ([]journal.Event, error) {
			return []journal.Event{{Job: id, Payload: payload}}, nil
		})
		if err == nil || s.read(id).Status != journal.RowDone {
			s.Errorf("%s: %v, %+v", name, err, s.read(id))
		}
	}
}

func retryTellsLocked(s *suite) {
	if !s.RowLocks {
		s.Skip("transactions wait for each other here: nobody holds a row")
	}
	ids := []int64{s.ended(journal.RowDone), s.ended(journal.RowDone)}
	s.waitingIsConnected()
	tx := s.begin()
	must(s, tx, "SELECT * FROM jobs WHERE id = ? FOR UPDATE", ids[0])
	s.quick(func() {
		locked, err := s.Table.ClaimManual(s.Context(), ids, nil, setBack(journal.RowWaiting, time.Unix(finished, 0)))
		if err != nil || !slices.Equal(locked, ids[:1]) {
			s.Errorf("%v, locked: %v", err, locked)
		}
	})
	if err := tx.Rollback(); err != nil {
		s.Fatal(err)
	}
	if s.read(ids[0]).Status != journal.RowDone || s.read(ids[1]).Status != journal.RowWaiting {
		s.Errorf("%+v, %+v", s.read(ids[0]), s.read(ids[1]))
	}
}

func retryRaces(s *suite) {
	ids := []int64{s.ended(journal.RowDone), s.ended(journal.RowDone), s.ended(journal.RowIgnored)}
	var mu sync.Mutex
	won := map[int64]int{}
	var both sync.WaitGroup
	for _, table := range []store.Table{s.Table, s.Other} {
		for range 4 {
			both.Go(func() {
				var mine []int64
				_, err := table.ClaimManual(s.Context(), ids, nil, func(rows []journal.Row) ([]journal.Event, error) {
					rows = slices.DeleteFunc(rows, func(row journal.Row) bool { return row.Status != journal.RowDone && row.Status != journal.RowIgnored })
					mine = jobs(rows)
					return setBack(journal.RowWaiting, time.Unix(finished+60, 0))(rows)
				})
				if err != nil {
					s.Errorf("a retry beside others: %v", err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				for _, id := range mine {
					won[id]++
				}
			})
		}
	}
	both.Wait()
	for _, id := range ids {
		if won[id] != 1 || s.read(id).Status != journal.RowWaiting {
			s.Errorf("row %d was set back %d times: %+v", id, won[id], s.read(id))
		}
	}
}

func retryRefused(s *suite) {
	ids := []int64{s.ended(journal.RowDone), s.ended(journal.RowDone)}
	s.forbid(fmt.Sprintf("NEW.id = %d AND NEW.status = 'waiting'", ids[1]))
	_, err := s.Table.ClaimManual(s.Context(), ids, nil, setBack(journal.RowWaiting, time.Unix(finished, 0)))
	s.refused(err, ids[1])
	if _, err := s.Table.ClaimManual(s.Context(), ids[:1], nil, setBack(journal.RowWaiting, time.Unix(finished, 0))); err != nil {
		s.Error(err)
	}
}

func retryUndone(s *suite) {
	id := s.ended(journal.RowDone)
	_, err := s.Table.ClaimManual(s.Context(), []int64{id}, nil, func([]journal.Row) ([]journal.Event, error) { return nil, journal.ErrFull })
	if err == nil || s.read(id).Status != journal.RowDone {
		s.Errorf("%v, %+v", err, s.read(id))
	}
}

func retryMany(s *suite) {
	ids := s.insertAll(1500, "a", journal.RowIgnored, "")
	locked, err := s.Table.ClaimManual(s.Context(), ids, nil, setBack(journal.RowManual, time.Unix(finished, 0)))
	if err != nil || len(locked) > 0 {
		s.Fatalf("%v, locked: %d", err, len(locked))
	}
	var left int
	if err := s.DB.QueryRow("SELECT COUNT(*) FROM jobs WHERE status <> 'manual'").Scan(&left); err != nil || left > 0 {
		s.Errorf("%v, %d rows are left", err, left)
	}
}
