package exec_test

import (
	"context"
	"testing"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/store/storetest/must"
)

// Regression: a job whose row somebody locked right before it was to start kept its slot as long as
// the lock lasted, and others of its target waited behind it. A client of such a job hears why it is not run.
func TestAJobWhoseRowIsLockedKeepsNoSlot(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]journal.Row{"a job": waiting(2, "b"), "a client's": manual(2, "b")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, newTable(waiting(1, "b"), row), nil)
			held := make(chan struct{})
			f.mirror.quarantined = map[int64]chan struct{}{2: held}
			f.start()
			first := f.next()
			answers := make(chan jobexec.Answer[jobexec.Result], 1)
			if row.Status == journal.RowManual {
				go func() {
					answer, _ := f.worker.RunManual(context.Background(), []int64{2}, "me")
					answers <- answer
				}()
			}
			f.claimed(2)
			f.table.insert(waiting(3, "b"))
			f.worker.PollAll()
			first.exit(0)
			f.wait("it is given back", ended(2))
			if p := f.next(); p.spec.Job != 3 {
				t.Errorf("job %d was started", p.spec.Job)
			}
			if got := words(f.story(2)); got != "accepted running released" {
				t.Errorf("story %q", got)
			}
			if row.Status == journal.RowManual {
				if got := (<-answers).Errors[2]; got != "job 2 was not run: its row could not be made running in time" {
					t.Errorf("the client was told %q", got)
				}
			}
		})
	}
}

// A job of a second attempt can't be given back: it waits for its row, and the next start takes it up.
func TestAStopLeavesASecondAttemptThatWaitsForItsRow(t *testing.T) {
	t.Parallel()
	claim := journal.Accepted{Target: "b", Token: "@abcdefghi"}
	f := newFixture(t, newTable(), nil)
	f.build(func(c *jobexec.Config) { c.Requeue = true })
	f.mirror.quarantined = map[int64]chan struct{}{2: make(chan struct{})}
	for _, p := range []journal.Payload{claim, journal.Running{Attempt: 1, Runner: "runner-0", Token: claim.Token}} {
		must.Get(f.journal.Append(journal.Draft{Job: 2, Payload: p}))(t)
	}
	f.start()
	f.wait("it is announced", func(s *journal.State) bool { return s.Job(2).Attempt == 2 })
	f.stop()
	must.Do(t, <-f.ended)
	f.ended <- nil
	if got := words(f.story(2)); got != "accepted running requeued running" {
		t.Errorf("story %q", got)
	}
}

// The end of a job frees its slot when it is known, whether or not its row can show it.
func TestAnEndThatARowDoesNotShowKeepsNoSlot(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "b"), waiting(2, "b")), nil)
	f.mirror.quarantined = map[int64]chan struct{}{1: make(chan struct{})}
	f.start()
	f.next().exit(0)
	if p := f.next(); p.spec.Job != 2 {
		t.Errorf("job %d was started", p.spec.Job)
	}
	if got := f.worker.Status().Targets["b"].Length; got != 1 {
		t.Errorf("length %d, want 1", got)
	}
}
