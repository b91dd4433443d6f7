package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store"
	"jobd/store/reconcile"
)

func cancelTests() []test {
	return []test{
		{"a claim that was not started", cancelClaimed},
		{"guarded by the token and the status", cancelGuarded},
		{"a row that nobody has claimed", cancelUnclaimed},
		{"a table from a backup", cancelReapplied},
	}
}

// The words of who cancelled a job, and what its row shows of them.
const (
	canceller = "10.0.0.5:4711 via master 10.0.0.9:99"
	cancelled = "[jobd: cancelled by 10.0.0.5 via master 10.0.0.9]\n"
)

// cancelOf is the change that ends a claim which was not started.
func cancelOf(id int64) store.Change {
	return store.Change{
		Job: id, Token: token, Accepted: time.Unix(started, 0), Status: journal.RowIgnored,
		Done: &journal.Done{Note: journal.CancelledBy(canceller)},
	}
}

// ignoredRow is what the application sees of a row that was cancelled before it ran.
func ignoredRow() row {
	return row{Target: "a", Status: journal.RowIgnored, Code: -1, ResultNull: true, Stderr: cancelled}
}

func cancelClaimed(s *suite) {
	for _, status := range []string{journal.RowAccepted, journal.RowRunning} {
		id := s.insert("a", status, token)
		s.exec("UPDATE jobs SET time_started = 5 WHERE id = ?", id)
		for range 2 { // the second time as a mirror that was cut off
			s.apply([]store.Change{cancelOf(id)}, []store.Outcome{{}})
			if diff := cmp.Diff(ignoredRow(), s.read(id)); diff != "" {
				s.Errorf("row that was %s (-want +got):\n%s", status, diff)
			}
		}
	}
}

func cancelGuarded(s *suite) {
	for _, c := range []struct{ status, owner string }{
		{journal.RowWaiting, ""},
		{journal.RowWaiting, token},
		{journal.RowRunning, tokenOf(2)},
		{journal.RowDone, ""},
	} {
		id := s.insert("a", c.status, c.owner)
		before := s.read(id)
		found := &journal.Row{Job: id, Target: "a", Status: c.status, Owner: c.owner}
		s.apply([]store.Change{cancelOf(id)}, []store.Outcome{{Fate: store.Lost, Found: found}})
		if diff := cmp.Diff(before, s.read(id)); diff != "" {
			s.Errorf("a row that was %s by %q was changed (-before +after):\n%s", c.status, c.owner, diff)
		}
	}
	s.apply([]store.Change{cancelOf(999_999)}, []store.Outcome{{Fate: store.Lost}})
}

func cancelUnclaimed(s *suite) {
	for _, status := range []string{journal.RowWaiting, journal.RowManual} {
		id := s.insert("a", status, "")
		s.ignore(id)
		if diff := cmp.Diff(ignoredRow(), s.read(id)); diff != "" {
			s.Errorf("row that was %s (-want +got):\n%s", status, diff)
		}
	}
}

// ignore has a row that nobody has claimed cancelled.
func (s *suite) ignore(id int64) {
	s.Helper()
	_, err := s.Table.ClaimManual(s.Context(), []int64{id}, nil, func([]journal.Row) ([]journal.Event, error) {
		return []journal.Event{{Job: id, Payload: journal.Ignored{Reason: journal.CancelledBy(canceller), By: canceller}}}, nil
	})
	if err != nil {
		s.Fatal(err)
	}
}

// Rows as a backup has them, from before their claims, and from the time between claim and cancel.
func cancelReapplied(s *suite) {
	h := &History{}
	waiting, accepted := s.insert("a", journal.RowWaiting, ""), s.insert("a", journal.RowAccepted, token)
	former, unclaimed := s.insert("a", journal.RowRunning, tokenOf(1)), s.insert("a", journal.RowManual, "")
	never := journal.Cancelled{By: canceller, Token: token}
	for _, id := range []int64{waiting, accepted} {
		happened(h, id, claimed(token), never)
	}
	happened(h, former, claimed(tokenOf(1)), journal.Released{}, claimed(token), never)
	happened(h, unclaimed, journal.Ignored{Reason: journal.CancelledBy(canceller), By: canceller})
	s.reapply(reconcile.Reapply{}, h)
	for _, id := range []int64{waiting, accepted, former, unclaimed} {
		if diff := cmp.Diff(ignoredRow(), s.read(id)); diff != "" {
			s.Errorf("row %d (-want +got):\n%s", id, diff)
		}
	}
	if again := s.reapply(reconcile.Reapply{}, h); len(again) != 0 {
		s.Errorf("once more %v was done, want nothing", again)
	}
}
