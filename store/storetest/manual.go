package storetest

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	"jobd/journal"
	"jobd/store"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

func manualTests() []test {
	return []test{
		{"every status and target, and missing rows", manualShowsAll},
		{"no row at all", manualNothing},
		{"ignored only from waiting and manual", manualIgnores},
		{"what it accepts is committed", manualAccepts},
		{"rows that somebody holds are told, not waited for", manualTellsLocked},
		{"many ids and targets", manualMany},
	}
}

// statuses are all that a row can have.
func statuses() []string {
	return []string{
		journal.RowWaiting, journal.RowManual, journal.RowAccepted,
		journal.RowRunning, journal.RowDone, journal.RowIgnored,
	}
}

func manualShowsAll(s *suite) {
	var want []journal.Row
	ids := []int64{999_999}
	for i, status := range statuses() {
		owner := ""
		if status == journal.RowAccepted || status == journal.RowRunning {
			owner = tokenOf(i)
		}
		target := []string{"a", "b"}[i%2]
		id := s.insert(target, status, owner)
		want = append(want, journal.Row{Job: id, Target: target, Status: status, Owner: owner, Created: 1})
		ids = append(ids, id, id)
	}
	slices.Reverse(ids)
	var got []journal.Row
	_, err := s.Table.ClaimManual(s.Context(), ids, nil, func(rows []journal.Row) ([]journal.Event, error) {
		got = rows
		return nil, nil
	})
	must.Do(s, err)
	slices.SortFunc(got, func(x, y journal.Row) int { return int(x.Job - y.Job) })
	check.Diff(s, want, timeless(got), "rows")
}

func manualNothing(s *suite) {
	for _, ids := range [][]int64{nil, {4711}} {
		decision := &acceptAll{}
		if _, err := s.Table.ClaimManual(s.Context(), ids, nil, decision.decide); err != nil {
			s.Fatalf("ids %v: %v", ids, err)
		}
		if decision.calls != 1 || len(decision.rows) != 0 {
			s.Errorf("ids %v: decide was called %d times with %v, want once with nothing", ids, decision.calls, decision.rows)
		}
	}
}

func manualIgnores(s *suite) {
	for i, status := range statuses() {
		owner := tokenOf(i)
		id := s.insert("a", status, owner)
		_, err := s.Table.ClaimManual(s.Context(), []int64{id}, nil, func([]journal.Row) ([]journal.Event, error) {
			return []journal.Event{{Job: id, Payload: journal.Ignored{Reason: "status"}}}, nil
		})
		want, allowed := status, status == journal.RowWaiting || status == journal.RowManual
		if allowed {
			want = journal.RowIgnored
		}
		if allowed != (err == nil) {
			s.Errorf("ignoring a row in %s: %v", status, err)
		}
		s.expect(id, want, owner)
	}
}

func manualAccepts(s *suite) {
	ids := s.insertAll(2, "a", journal.RowManual, "")
	_, err := s.Table.ClaimManual(s.Context(), ids, nil, func([]journal.Row) ([]journal.Event, error) {
		return []journal.Event{
			{Job: ids[0], Payload: journal.Accepted{Target: "a", Manual: true, Token: tokenOf(1)}},
			{Job: ids[1], Payload: journal.Accepted{Target: "a", Manual: true, Token: tokenOf(2)}},
		}, nil
	})
	must.Do(s, err)
	s.expect(ids[0], journal.RowAccepted, tokenOf(1))
	s.expect(ids[1], journal.RowAccepted, tokenOf(2))
}

func manualTellsLocked(s *suite) {
	if !s.RowLocks {
		s.Skip("transactions wait for each other here: nobody holds a row")
	}
	ids := s.insertAll(5, "a", journal.RowManual, "")
	s.waitingIsConnected()
	tx := s.begin()
	s.execIn(tx, "SELECT * FROM jobs WHERE id = ? FOR UPDATE", ids[0])
	s.execIn(tx, "UPDATE jobs SET status = 'done' WHERE id = ?", ids[1])
	s.execIn(tx, "DELETE FROM jobs WHERE id = ?", ids[2])
	all := append([]int64{4711, -1, 0}, ids...)
	want := []int64{ids[0], ids[1], ids[2]}
	s.quick(func() {
		decision := &acceptAll{token: token}
		locked, err := s.Table.ClaimManual(s.Context(), all, []string{"a"}, decision.decide)
		if err != nil || decision.calls != 1 {
			s.Fatalf("%v, %d calls", err, decision.calls)
		}
		check.Diff(s, [][]int64{want, ids[3:]}, [][]int64{locked, jobs(decision.rows)}, "rows that are held, and others")
	})
	s.quick(func() {
		rows, locked, err := s.Table.Rows(s.Context(), all)
		must.Do(s, err)
		check.Diff(s, [][]int64{want, ids[3:]}, [][]int64{locked, jobs(rows)}, "Rows: those that are held, and others")
	})
	must.Do(s, tx.Rollback())
	if rows, locked, err := s.Table.Rows(s.Context(), all); err != nil || len(rows) != len(ids) || len(locked) != 0 {
		s.Errorf("when nobody holds them any more: %v, %v, %v", rows, locked, err)
	}
}

func manualMany(s *suite) {
	inserted := s.insertAll(3, "b", journal.RowManual, "")
	var ids []int64
	for id := range int64(10_000) {
		ids = append(ids, id+1)
	}
	targets := []string{"a"}
	for i := range 300 {
		targets = append(targets, fmt.Sprint("t", i))
	}
	decision := &acceptAll{token: token}
	locked, err := s.Table.ClaimManual(s.Context(), ids, append(targets, "b"), decision.decide)
	if err != nil || len(locked) > 0 {
		s.Fatalf("%v, %v", locked, err)
	}
	if diff := cmp.Diff(inserted, jobs(decision.rows)); diff != "" || decision.rows[0].Target != "b" {
		s.Errorf("rows (-want +got):\n%s%+v", diff, decision.rows)
	}
}

func rowsTests() []test {
	return []test{
		{"those there are", func(s *suite) {
			first, second := s.insert("a", journal.RowAccepted, token), s.insert("b", journal.RowManual, "")
			got, _, err := s.Table.Rows(s.Context(), []int64{second, 999_999, first})
			must.Do(s, err)
			want := []journal.Row{
				{Job: first, Target: "a", Status: journal.RowAccepted, Owner: token, Created: 1},
				{Job: second, Target: "b", Status: journal.RowManual, Created: 1},
			}
			check.Diff(s, want, timeless(got), "rows")
		}},
		{"under way", func(s *suite) {
			ours := s.insert("b", journal.RowRunning, token)
			s.insert("a", journal.RowAccepted, "@zzzzother")
			stranger := s.insert("a", journal.RowRunning, "")
			s.insert("b", journal.RowRunning, "")
			s.insert("a", journal.RowWaiting, "")
			s.insert("a", journal.RowDone, "")
			got := must.Get(s.Table.UnderWay(s.Context(), token[:5], []string{"a"}))(s)
			want := []journal.Row{
				{Job: ours, Target: "b", Status: journal.RowRunning, Owner: token, Created: 1},
				{Job: stranger, Target: "a", Status: journal.RowRunning, Created: 1},
			}
			check.Diff(s, want, timeless(got), "rows")
			if got, err := s.Table.UnderWay(s.Context(), token[:5], nil); err != nil || len(got) != 1 {
				s.Errorf("without targets: %v, %v", got, err)
			}
		}},
		{"that nobody has claimed", func(s *suite) {
			waits, by, other := s.insert("a", journal.RowWaiting, ""), s.insert("b", journal.RowManual, ""), s.insert("a", journal.RowWaiting, "")
			s.insert("a", journal.RowDone, "")
			s.insert("c", journal.RowWaiting, "")
			s.insert("a", journal.RowAccepted, token)
			if _, err := s.DB.Exec("UPDATE jobs SET time_created = 5 WHERE id = " + fmt.Sprint(other)); err != nil {
				s.Fatal(err)
			}
			for _, c := range []struct {
				created, after int64
				limit          int
				want           []int64
			}{{5, 0, 10, []int64{waits, by}}, {6, 0, 10, []int64{waits, by, other}}, {6, waits, 1, []int64{by}}, {1, 0, 10, nil}} {
				got, err := s.Table.Unclaimed(s.Context(), []string{"a", "b"}, c.created, c.after, c.limit)
				if err != nil || !slices.Equal(got, c.want) {
					s.Errorf("created before %d, behind %d: %v, %v; want %v", c.created, c.after, got, err, c.want)
				}
			}
			if got, err := s.Table.Unclaimed(s.Context(), nil, 9, 0, 10); err != nil || len(got) != 0 {
				s.Errorf("of no target: %v, %v", got, err)
			}
		}},
		{"that nobody has claimed, the newest first", func(s *suite) {
			first, other, last := s.insert("a", journal.RowWaiting, ""), s.insert("b", journal.RowWaiting, ""), s.insert("a", journal.RowWaiting, "")
			by := s.insert("a", journal.RowManual, "")
			s.insert("a", journal.RowDone, "")
			s.insert("c", journal.RowWaiting, "")
			for _, c := range []struct {
				status  string
				targets []string
				before  int64
				limit   int
				want    []int64
			}{
				{journal.RowWaiting, []string{"a", "b"}, math.MaxInt64, 10, []int64{last, other, first}},
				{journal.RowWaiting, []string{"a", "b"}, math.MaxInt64, 2, []int64{last, other}},
				{journal.RowWaiting, []string{"a", "b"}, other, 2, []int64{first}},
				{journal.RowWaiting, []string{"a", "none"}, math.MaxInt64, 10, []int64{last, first}},
				{journal.RowManual, []string{"a"}, math.MaxInt64, 10, []int64{by}},
				{journal.RowWaiting, nil, math.MaxInt64, 10, nil},
			} {
				rows, err := s.Table.Free(s.Context(), c.status, c.targets, c.before, c.limit)
				var got []int64
				for _, row := range rows {
					if got = append(got, row.Job); row.Status != c.status {
						s.Errorf("%+v: a row of status %s", c, row.Status)
					}
				}
				if err != nil || !slices.Equal(got, c.want) {
					s.Errorf("%+v: %v, %v", c, got, err)
				}
			}
		}},
		{"none", func(s *suite) {
			if got, _, err := s.Table.Rows(s.Context(), nil); err != nil || len(got) != 0 {
				s.Errorf("got %v, %v", got, err)
			}
		}},
	}
}

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
		check.Diff(s, want, timeless(rows), "rows")
		for id, want := range map[int64]row{
			done:    {Target: "a", Status: to, Finished: finished},
			ignored: {Target: "b", Status: to, Finished: at.Unix()},
		} {
			got := s.read(id)
			got.ResultNull, got.SigSet = false, false
			if want.Code = -1; got.Code == 0 { // a column without NULL
				got.Code = -1
			}
			check.Diff(s, want, got, "row %d", id)
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
	s.execIn(tx, "SELECT * FROM jobs WHERE id = ? FOR UPDATE", ids[0])
	s.quick(func() {
		locked, err := s.Table.ClaimManual(s.Context(), ids, nil, setBack(journal.RowWaiting, time.Unix(finished, 0)))
		if err != nil || !slices.Equal(locked, ids[:1]) {
			s.Errorf("%v, locked: %v", err, locked)
		}
	})
	must.Do(s, tx.Rollback())
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
