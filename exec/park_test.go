package exec_test

import (
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/store/storetest/must"
)

// Regression: a job whose row somebody locked right before it was to start kept its slot as long as
// the lock lasted, and others of its target waited behind it. It is given back, and its row let alone for a while.
func TestAJobWhoseRowIsLockedKeepsNoSlot(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]journal.Row{"waiting": waiting(2, "b"), "manual": manual(2, "b")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, newTable(waiting(1, "b"), second), func(c *jobexec.Config) { c.Prefetch = 5 })
			held := make(chan struct{})
			f.mirror.quarantined = map[int64]chan struct{}{2: held}
			f.start()
			first := f.next()
			var answers <-chan jobexec.Answer[jobexec.Result]
			if second.Status == journal.RowManual {
				answers = f.client(2)
			}
			f.claimed(2)
			first.exit(0)
			f.wait("it is given back", ended(2))
			if got := words(f.story(2)); got != "accepted running released" {
				t.Errorf("story %q", got)
			}
			const why = "its row can't be updated: somebody has locked it, or a rule of the table refuses it"
			f.until("its row is let alone", func(s jobexec.Status) bool {
				return len(s.Quarantined) == 1 && s.Quarantined[0].Job == 2 && s.Quarantined[0].Reason == why
			})
			if second.Status == journal.RowManual {
				if got := (<-answers).Errors[2]; got != "job 2 was not run: "+why {
					t.Errorf("the client was told %q", got)
				}
			}
			f.table.insert(waiting(3, "b"))
			f.worker.PollAll()
			third := f.next()
			if third.spec.Job != 3 {
				t.Fatalf("job %d was started", third.spec.Job)
			}
			third.exit(0)
			close(held)
			f.wait("the third is done", ended(3))
			f.none()
		})
	}
}

// silentRunner starts processes, and does not tell that they run before it is asked to.
type silentRunner struct {
	*runner
	tell chan struct{} // closed when it tells
}

type silentProcess struct {
	jobexec.Process
	begun <-chan struct{}
}

func (p silentProcess) Begun() <-chan struct{} { return p.begun }

func (r silentRunner) Start(spec jobexec.Spec) (jobexec.Process, error) {
	tell := spec.Tell
	spec.Tell = func(n jobexec.News) {
		if !n.Ended {
			<-r.tell
		}
		tell(n)
	}
	p, err := r.runner.Start(spec)
	return silentProcess{p, r.tell}, err
}

// A start that the runner is being asked for is waited for: when Pause returns it has happened.
//
// Regression: the runner stood still when a pause was answered, and did afterwards what it had been
// asked for before.
func TestAPauseIsAnsweredWhenTheRunnerHasToldOfAllStarts(t *testing.T) {
	t.Parallel()
	for _, asking := range []bool{true, false} {
		f := newFixture(t, newTable(waiting(1, "a")), nil)
		silent, late := silentRunner{f.runner, make(chan struct{})}, &lateRunner{f.runner, 1, make(chan struct{}), make(chan error)}
		f.build(func(c *jobexec.Config) {
			if c.Runner = silent; asking {
				c.Runner = late
			}
		})
		f.start()
		if asking {
			<-late.asked
		} else {
			f.next()
		}
		paused := make(chan error, 1)
		go func() { paused <- f.worker.Pause([]string{"a"}, "me") }()
		f.wait("the pause is journalled", func(s *journal.State) bool { return s.Targets["a"].Paused })
		select {
		case err := <-paused:
			t.Errorf("the pause was answered with %v while nobody knew whether the job had started", err)
		case <-time.After(50 * time.Millisecond):
		}
		if asking {
			late.answer <- nil
		} else {
			close(silent.tell)
		}
		must.Do(t, <-paused)
		if jobs := f.runner.begun(); len(jobs) != 1 {
			t.Errorf("jobs %v were started when the pause was answered", jobs)
		}
	}
}
