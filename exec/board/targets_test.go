package board

import (
	"testing"
	"time"

	"jobd/journal"
)

// A job of a former run goes on where its target is not served any more. When somebody adds the target
// it holds a slot of it.
func TestATargetThatIsAddedHasTheJobsOfAFormerRun(t *testing.T) {
	t.Parallel()
	b, now := New(Config{Targets: map[string]int{"a": 1}}), time.Unix(1_000_000, 0)
	old := journal.Job{ID: 1, Target: "b", Token: "@abcd00000", Status: journal.StatusRunning, Attempt: 1}
	runs := b.Adopt(old, "its process")
	added, e := b.Add("b", 1)
	if added.Running() != 1 || runs.target != added || len(e.Poll) != 1 || e.Poll[0] != "b" {
		t.Fatalf("%d slots in use, effects %+v", added.Running(), e)
	}
	claim := &Claim{}
	row := journal.Row{Job: 2, Target: "b", Status: journal.RowWaiting}
	drafts := b.Accept(claim, row, "@abcd00001", instance, now)
	if len(drafts) != 1 {
		t.Fatalf("the claim says %+v; its job has no slot", drafts)
	}
	b.Decided(claim, []journal.Event{{Seq: 1, Job: 2, Payload: drafts[0].Payload}})
	b.Won(claim)
	if got := b.Job(2).phase; got != Queued {
		t.Errorf("the next job is %s", got)
	}
	b.Ended(runs, journal.Started{}, Outcome{Fate: Over, Done: journal.Done{Result: "ok"}})
	b.Turn(now, instance)
	if got := b.Job(2).phase; got != Announcing {
		t.Errorf("the next job is %s when the one before has ended", got)
	}
}
