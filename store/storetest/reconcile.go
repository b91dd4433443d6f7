package storetest

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"jobd/journal"
	"jobd/store"
	"jobd/store/reconcile"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

func reconcileTests() []test {
	return []test{
		{"a restored table is brought back to the journal", reapplyBringsBack},
		{"rows that somebody else holds are left", reapplyLeavesHeldRows},
		{"rows that may have run are unknown", reapplyKnowsUnknownRows},
	}
}

// happened makes a history of what happened to a job at the time started.
func happened(h *History, job int64, payloads ...journal.Payload) {
	for _, payload := range payloads {
		h.Add(job, time.Unix(started, 0), payload)
	}
}

// reapply brings rows back and gives what was done with each.
func (s *suite) reapply(wish reconcile.Reapply, h *History) map[int64]string {
	s.Helper()
	did := map[int64]string{}
	wish.Config = reconcile.Config{Journal: h, Table: s.Table}
	wish.Logger, wish.Targets = slog.New(slog.DiscardHandler), []string{"a"}
	wish.Note = func(journal.Reapplied) error { return nil }
	wish.Visit = func(r reconcile.Result) error {
		did[r.Job.ID] = r.Did
		return nil
	}
	must.Do(s, wish.Run(s.Context()))
	return did
}

func claimed(token string) journal.Payload { return journal.Accepted{Target: "a", Token: token} }

// ranWell is how a job of a claim ran.
func ranWell(token string) []journal.Payload {
	code := 0
	return []journal.Payload{claimed(token), journal.Running{Attempt: 1}, journal.Started{Pid: 1}, journal.Done{
		Result: "ok", Code: &code, Finished: finished * 1_000_000, Elapsed: 1, Stdout: journal.Output{Kept: []byte("said"), Size: 4},
	}}
}

// Each row as a backup may have it, from before its claim to the midst of its run.
func reapplyBringsBack(s *suite) {
	h := &History{}
	waiting, begun := s.insert("a", journal.RowWaiting, ""), s.insert("a", journal.RowAccepted, token)
	former, ignored := s.insert("a", journal.RowRunning, tokenOf(1)), s.insert("b", journal.RowManual, "")
	released, foreign := s.insert("a", journal.RowAccepted, token), s.insert("a", journal.RowRunning, tokenOf(2))
	for _, id := range []int64{waiting, begun, foreign} {
		happened(h, id, ranWell(token)...)
	}
	happened(h, former, claimed(tokenOf(1)), journal.Released{})
	happened(h, former, ranWell(token)...)
	happened(h, ignored, journal.Ignored{Reason: "nobody serves it"})
	happened(h, released, claimed(token), journal.Released{})

	would := map[int64]string{foreign: "refused"}
	want := map[int64]string{foreign: "refused"}
	for _, id := range []int64{waiting, begun, former, ignored, released} {
		would[id], want[id] = "would apply", "applied"
	}
	check.Diff(s, would, s.reapply(reconcile.Reapply{DryRun: true}, h), "a dry run")
	s.expect(waiting, journal.RowWaiting, "")
	check.Diff(s, want, s.reapply(reconcile.Reapply{}, h), "done")
	for _, id := range []int64{waiting, begun, former} {
		s.expect(id, journal.RowDone, "")
		if r := s.read(id); r.Started != started || r.Finished != finished || r.Result != "ok" || r.Code != 0 || r.Stdout != "said" {
			s.Errorf("job %d ended as %+v", id, r)
		}
	}
	s.expect(ignored, journal.RowIgnored, "")
	s.expect(released, journal.RowWaiting, "")
	s.expect(foreign, journal.RowRunning, tokenOf(2))
	check.Diff(s, map[int64]string{foreign: "refused"}, s.reapply(reconcile.Reapply{}, h), "done once more")
}

// While another worker's claim holds a row, it is left for later, and the others are brought back.
func reapplyLeavesHeldRows(s *suite) {
	if !s.RowLocks {
		s.Log("transactions of this table wait for each other: nobody holds a row while another writes")
		return
	}
	h := &History{}
	ids := s.insertAll(3, "a", journal.RowWaiting, "")
	for _, id := range ids {
		happened(h, id, ranWell(token)...)
	}
	_, err := s.Other.ClaimManual(s.Context(), ids[1:2], nil, func([]journal.Row) ([]journal.Event, error) {
		want := map[int64]string{ids[0]: "applied", ids[1]: "refused", ids[2]: "applied"}
		check.Diff(s, want, s.reapply(reconcile.Reapply{}, h), "done")
		return nil, nil
	})
	must.Do(s, err)
	if did := s.reapply(reconcile.Reapply{}, h); len(did) != 1 || did[ids[1]] != "applied" {
		s.Errorf("later %v was done, want the row that was held", did)
	}
}

func reapplyKnowsUnknownRows(s *suite) {
	h := &History{}
	known, unknown := s.insert("a", journal.RowWaiting, ""), s.insert("a", journal.RowManual, "")
	s.insert("b", journal.RowWaiting, "") // nobody here serves it
	s.insert("a", journal.RowRunning, token)
	happened(h, known, ranWell(token)...)
	wish := reconcile.Reapply{Config: reconcile.Config{Journal: h, Table: s.Table}, Targets: []string{"a"}}
	found, err := wish.Unknown(s.Context())
	if diff := cmp.Diff([]int64{unknown}, found.Rows); err != nil || diff != "" {
		s.Errorf("%v, unknown rows (-want +got):\n%s", err, diff)
	}
}

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
	check.Diff(s, want, slices.Sorted(maps.Keys(refused)), "rows at fault")
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
	must.Do(s, s.Table.Claim(s.Context(), room, []int64{ids[1], ids[3]}, decision.decide))
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
		must.Do(s, s.Table.Claim(s.Context(), map[string]int{"a": 1}, nil, decision.decide))
		got = append(got, jobs(decision.rows)...)
	}
	check.Diff(s, []int64{ids[0], ids[1], ids[3]}, got, "rows that were claimed")
	s.waiting(nil)
}
