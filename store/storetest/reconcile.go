package storetest

import (
	"log/slog"
	"time"

	"github.com/google/go-cmp/cmp"

	"jobd/journal"
	"jobd/store/reconcile"
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
	if err := wish.Run(s.Context()); err != nil {
		s.Fatal(err)
	}
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
	if diff := cmp.Diff(would, s.reapply(reconcile.Reapply{DryRun: true}, h)); diff != "" {
		s.Errorf("a dry run (-want +got):\n%s", diff)
	}
	s.expect(waiting, journal.RowWaiting, "")
	if diff := cmp.Diff(want, s.reapply(reconcile.Reapply{}, h)); diff != "" {
		s.Errorf("done (-want +got):\n%s", diff)
	}
	for _, id := range []int64{waiting, begun, former} {
		s.expect(id, journal.RowDone, "")
		if r := s.read(id); r.Started != started || r.Finished != finished || r.Result != "ok" || r.Code != 0 || r.Stdout != "said" {
			s.Errorf("job %d ended as %+v", id, r)
		}
	}
	s.expect(ignored, journal.RowIgnored, "")
	s.expect(released, journal.RowWaiting, "")
	s.expect(foreign, journal.RowRunning, tokenOf(2))
	if diff := cmp.Diff(map[int64]string{foreign: "refused"}, s.reapply(reconcile.Reapply{}, h)); diff != "" {
		s.Errorf("done once more (-want +got):\n%s", diff)
	}
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
		if diff := cmp.Diff(want, s.reapply(reconcile.Reapply{}, h)); diff != "" {
			s.Errorf("done (-want +got):\n%s", diff)
		}
		return nil, nil
	})
	if err != nil {
		s.Fatal(err)
	}
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
