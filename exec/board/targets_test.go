package board

import (
	"errors"
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
	if added := b.Add("b", 1); added.Running() != 1 || runs.target != added {
		t.Fatalf("%d slots in use", added.Running())
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

// What a former run has announced of a target that is not served now is not started: the row of a first
// attempt is given back, and where an attempt before has run, the job ends as one of unknown outcome.
func TestAFormerJobOfATargetThatIsNotServed(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	ways := map[string]func(b *Board, old journal.Job){
		"it was announced": func(b *Board, old journal.Job) { b.TakeUp(old, true, journal.Done{}) },
		"it could not be started": func(b *Board, old journal.Job) {
			b.Ended(b.Adopt(old, "its process"), journal.Started{}, Outcome{Fate: NotStarted, Cause: errors.New("no memory"), Short: true})
		},
		"its runner was replaced": func(b *Board, old journal.Job) {
			b.Ended(b.Adopt(old, "its process"), journal.Started{}, Outcome{Fate: NotAsked, Cause: errors.New("another one")})
		},
	}
	for way, take := range ways {
		for _, attempt := range []int{1, 2} {
			b := New(Config{Targets: map[string]int{"a": 1}, Requeue: true, MaxAttempts: 3})
			take(b, journal.Job{ID: 1, Target: "b", Token: "@abcd00000", Status: journal.StatusStarting, Attempt: attempt})
			turn, e := b.Turn(now, instance)
			if len(turn.Steps) != 1 || len(turn.Steps[0].Drafts) != 1 || len(e.Renewed) != 0 {
				t.Errorf("%s, attempt %d: %d steps, effects %+v", way, attempt, len(turn.Steps), e)
				continue
			}
			switch p := turn.Steps[0].Drafts[0].Payload.(type) {
			case journal.Released:
				if attempt != 1 || p.Reason != notServed {
					t.Errorf("%s, attempt %d: %+v", way, attempt, p)
				}
			case journal.Done:
				if attempt != 2 || p.Reason != "outcome unknown: "+notServed+"; attempt 2 of 3" {
					t.Errorf("%s, attempt %d: %+v", way, attempt, p)
				}
			default:
				t.Errorf("%s, attempt %d: %+v", way, attempt, p)
			}
		}
	}
}
