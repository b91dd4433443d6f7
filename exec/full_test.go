package exec_test

import (
	"errors"
	"maps"
	"sync"
	"testing"

	jobexec "jobd/exec"
	"jobd/journal"
)

// fullOnce is a journal whose nth append finds the disk full.
type fullOnce struct {
	*memory
	mu      sync.Mutex
	nth     int
	appends int
}

// Append implements Recorder.
func (f *fullOnce) Append(drafts ...journal.Draft) ([]journal.Event, error) {
	f.mu.Lock()
	f.appends++
	full := f.appends == f.nth
	f.mu.Unlock()
	if full {
		return nil, journal.ErrFull
	}
	return f.memory.Append(drafts...)
}

// life is one scenario of a worker's life.
type life struct {
	rows    []journal.Row
	left    map[int64][]journal.Payload // what the journal holds of jobs before the start
	change  func(*jobexec.Config)
	instant bool             // processes end at once
	prepare func(f *fixture) // before the start
	live    func(f *fixture) // until all of end holds
	end     map[int64]string // how the rows end
	starts  int              // of processes
	goesOn  bool             // a job is left running
}

// again does what a client does who is told that the disk is full.
func again(f *fixture, do func() error) {
	f.t.Helper()
	err := do()
	for errors.Is(err, journal.ErrFull) {
		err = do()
	}
	if err != nil {
		f.t.Error(err)
	}
}

// Regression: in many places the worker forgot first and journalled then. With the disk full at that
// moment, claims in doubt, lost jobs and jobs to give back stayed as they were for ever.
//
// In each scenario one append finds the disk full, the first, the second, and so on; then there is
// room again. All must end as if nothing had been, without a restart.
func TestEveryAppendMayFindTheDiskFull(t *testing.T) {
	t.Parallel()
	all := lives()
	maps.Copy(all, laterLives())
	for name, l := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for nth := 1; ; nth++ {
				f, full := newLife(t, l, nth)
				l.run(f)
				f.stop()
				if err := <-f.ended; err != nil {
					t.Errorf("append %d: Run: %v", nth, err)
				}
				f.ended <- nil
				l.check(f, nth)
				if t.Failed() {
					return
				}
				if full.appends < nth {
					if nth < 4 {
						t.Errorf("%d appends in all: the scenario does not live", full.appends)
					}
					return
				}
			}
		})
	}
}

func newLife(t *testing.T, l life, nth int) (*fixture, *fullOnce) {
	f := newFixture(t, newTable(l.rows...), nil)
	for id, payloads := range l.left {
		for _, p := range payloads {
			if _, err := f.journal.Append(journal.Draft{Job: id, Payload: p}); err != nil {
				t.Fatal(err)
			}
		}
	}
	full := &fullOnce{memory: f.journal, nth: nth}
	f.runner.instant = l.instant
	f.build(func(c *jobexec.Config) {
		c.Recorder, c.Targets = full, map[string]int{"a": 2, "b": 1}
		if l.change != nil {
			l.change(c)
		}
	})
	if l.prepare != nil {
		l.prepare(f)
	}
	return f, full
}

// run lives through the scenario.
func (l life) run(f *fixture) {
	again(f, func() error { return f.worker.Open(1) })
	f.run()
	if l.live != nil {
		l.live(f)
	}
	f.reach(l.end)
}

// check checks what is left of it.
func (l life) check(f *fixture, nth int) {
	f.t.Helper()
	f.clients.Wait()
	f.journal.View(func(s *journal.State) {
		if len(s.Jobs) > 0 != l.goesOn || s.Open {
			f.t.Errorf("append %d: in the end the journal has open %t, jobs %v", nth, s.Open, s.Jobs)
		}
	})
	if n := len(f.runner.begun()); n != l.starts {
		f.t.Errorf("append %d: %d processes were started, want %d: %v", nth, n, l.starts, f.runner.begun())
	}
	if got := f.worker.Status(); got.Doubted > 0 || got.Clients > 0 {
		f.t.Errorf("append %d: in the end %+v", nth, got)
	}
}

var errLink = errors.New("link lost")

// lives are the scenarios.
func lives() map[string]life {
	token := "@abcdefghi"
	accepted := journal.Accepted{Target: "a", Token: token}
	lost := journal.Running{Attempt: 1, Runner: "runner-0", Token: token}
	ours := journal.Row{Job: 1, Target: "a", Status: journal.RowRunning, Owner: token}
	done := func(ids ...int64) map[int64]string {
		end := make(map[int64]string)
		for _, id := range ids {
			end[id] = journal.RowDone
		}
		return end
	}
	return map[string]life{
		"claimed, run, ended": {
			rows: []journal.Row{waiting(1, "b"), waiting(2, "b"), waiting(3, "b"), waiting(4, "a")}, instant: true, end: done(1, 2, 3, 4), starts: 4,
		},
		"signalled": {
			rows: []journal.Row{waiting(1, "a")}, end: done(1), starts: 1,
			live: func(f *fixture) {
				p := f.next()
				if !f.worker.SendSignal(map[int64]int{1: 15}, "me")[1] {
					f.t.Error("not delivered")
				}
				p.exit(1)
			},
		},
		"manual": {
			rows: []journal.Row{manual(1, "b"), manual(2, "b")}, instant: true, end: done(1, 2), starts: 2,
			live: func(f *fixture) {
				answer, err := f.worker.RunManual(f.t.Context(), []int64{1, 2}, "me")
				if err != nil || len(answer.Jobs) != 2 {
					f.t.Errorf("the client was told %+v, %v", answer, err)
				}
			},
		},
		"paused and continued": { // regression: a paused target kept its prefetched rows
			rows: []journal.Row{waiting(1, "b"), waiting(2, "b"), waiting(3, "b"), manual(4, "b")}, end: done(1, 2, 3, 4), starts: 4,
			live: func(f *fixture) {
				p := f.next()
				f.claimed(2)
				f.manual(4)
				again(f, func() error { return f.worker.Pause(nil, "me") })
				f.reach(map[int64]string{2: journal.RowWaiting, 4: journal.RowAccepted})
				p.exit(0)
				f.reach(done(1))
				again(f, func() error { return f.worker.Continue(nil, "me") })
				for range 3 {
					f.next().exit(0)
				}
			},
		},
		"targets": {
			rows: []journal.Row{waiting(1, "a"), waiting(2, "c")}, end: done(1, 2), starts: 2,
			live: func(f *fixture) {
				p := f.next()
				again(f, func() error { return f.worker.AddTarget("c", 1, "me") })
				f.next().exit(0)
				again(f, func() error { return f.worker.RemoveTarget("b", "me") })
				again(f, func() error { return f.worker.SetConcurrency("c", 3, "me") })
				again(f, func() error { return f.worker.SetTargets(map[string]int{"c": 3}, "file") })
				p.exit(0)
				f.wait("only c is left", func(s *journal.State) bool { return len(s.Targets) == 1 })
			},
		},
		"in doubt, and won": {
			rows: []journal.Row{waiting(1, "a"), waiting(2, "b")}, instant: true, end: done(1, 2), starts: 2,
			prepare: func(f *fixture) { f.table.commit = func(apply func()) error { apply(); return errLink } },
		},
		"in doubt, and not won": {
			rows: []journal.Row{waiting(1, "a"), waiting(2, "a")}, instant: true, end: done(1, 2), starts: 2,
			prepare: func(f *fixture) { f.table.commit = failing(2, errLink) },
		},
		"overtaken": {
			rows: []journal.Row{waiting(1, "a"), waiting(2, "a")}, instant: true, end: done(1, 2), starts: 2,
			prepare: func(f *fixture) {
				f.table.commit = failing(2, undone{errLink})
				f.table.rowsErr = errors.New("nobody needs to look: it certainly did not happen")
			},
		},
		"refused rows": {
			rows: []journal.Row{waiting(1, "a"), waiting(2, "a")}, instant: true, end: map[int64]string{1: journal.RowWaiting, 2: journal.RowDone}, starts: 1,
			prepare: func(f *fixture) { f.table.refused[1] = "a CHECK" },
		},
		"an orphan is lost": {
			rows: []journal.Row{ours}, left: map[int64][]journal.Payload{1: {accepted, lost}}, end: done(1),
		},
		"an orphan is started again": {
			rows: []journal.Row{ours}, left: map[int64][]journal.Payload{1: {accepted, lost}}, instant: true, end: done(1), starts: 1,
			change: func(c *jobexec.Config) { c.Requeue = true },
		},
		"started with its claim, and lost": {
			rows: []journal.Row{ours}, end: done(1),
			left: map[int64][]journal.Payload{1: {accepted, journal.Running{Attempt: 1, Runner: "runner-0", Claimed: true, Token: token}}},
		},
		"a claim from before, won and not won": {
			rows: []journal.Row{ours, waiting(2, "a")}, instant: true, end: done(1, 2), starts: 2,
			left: map[int64][]journal.Payload{1: {accepted}, 2: {accepted}},
		},
		"the runner has it": {
			rows: []journal.Row{ours}, left: map[int64][]journal.Payload{1: {accepted, lost}}, end: done(1),
			prepare: func(f *fixture) {
				p := &process{pid: 7, ended: make(chan struct{}), known: true}
				p.exit(0)
				f.runner.recalled = []jobexec.Recalled{{Job: 1, Attempt: 1, Process: p}}
			},
		},
		"never started, and not served any more": {
			rows: []journal.Row{{Job: 1, Target: "gone", Status: journal.RowRunning, Owner: token}}, end: map[int64]string{1: journal.RowWaiting},
			left: map[int64][]journal.Payload{1: {
				journal.Accepted{Target: "gone", Token: token}, journal.Running{Attempt: 1, Runner: instance, Token: token},
			}},
		},
		"the journal is lost": {
			rows: []journal.Row{{Job: 1, Target: "a", Status: journal.RowRunning, Owner: "@vx3gaaaaa"}, {Job: 2, Target: "b", Status: journal.RowAccepted, Owner: "@vx3gbbbbb"}},
			end:  done(1, 2),
		},
		"the journal is lost, and jobs are started again": {
			rows:    []journal.Row{{Job: 1, Target: "a", Status: journal.RowRunning, Owner: "@vx3gaaaaa"}},
			instant: true, end: done(1), starts: 1,
			change: func(c *jobexec.Config) { c.Requeue = true },
		},
		"stopped": {
			rows: []journal.Row{waiting(1, "b"), waiting(2, "b"), manual(3, "b")}, starts: 1,
			end: map[int64]string{1: journal.RowDone, 2: journal.RowWaiting, 3: journal.RowManual},
			live: func(f *fixture) {
				p := f.next()
				f.claimed(2)
				told := f.manual(3)
				f.stop()
				f.reach(map[int64]string{2: journal.RowWaiting, 3: journal.RowManual})
				if got, want := (<-told).Errors[3], "job 3 was not run: the worker stopped before the start"; got != want {
					f.t.Errorf("the client was told %q, want %q", got, want)
				}
				if _, err := f.worker.RunManual(f.t.Context(), []int64{3}, "me"); err == nil {
					f.t.Error("a stopping worker takes manual jobs")
				}
				p.exit(0)
			},
		},
		"handed over": {
			rows: []journal.Row{waiting(1, "b"), waiting(2, "b")}, starts: 1, goesOn: true,
			end:    map[int64]string{1: journal.RowRunning, 2: journal.RowWaiting},
			change: func(c *jobexec.Config) { c.Handover = true },
			live: func(f *fixture) {
				f.next()
				f.wait("another is claimed", func(s *journal.State) bool {
					return s.Job(1).Status == journal.StatusRunning && s.Job(2).Status == journal.StatusAccepted
				})
				f.stop()
			},
		},
	}
}

// failing is a commit that fails some times.
func failing(times int, err error) func(func()) error {
	return func(apply func()) error {
		if times--; times >= 0 {
			return err
		}
		apply()
		return nil
	}
}

// manual has a client ask for a job, and waits until it is accepted.
func (f *fixture) manual(id int64) <-chan jobexec.Answer[jobexec.Result] {
	f.t.Helper()
	told := f.client(id)
	f.claimed(id)
	return told
}

// laterLives are scenarios of TestEveryAppendMayFindTheDiskFull in which a row is locked, or becomes
// ignored.
func laterLives() map[string]life {
	return map[string]life{
		"given back because its row is locked": {
			rows: []journal.Row{waiting(1, "b"), waiting(2, "b"), waiting(3, "b")}, starts: 3,
			end: map[int64]string{1: journal.RowDone, 2: journal.RowDone, 3: journal.RowDone},
			live: func(f *fixture) {
				third := f.pass(2)
				f.wait("it is given back", ended(2))
				f.mirror.unlock(2)
				third.exit(0)
				f.next().exit(0)
			},
		},
		"cancelled": {
			rows: []journal.Row{waiting(1, "b"), waiting(2, "b"), waiting(3, "c")}, starts: 1,
			end: map[int64]string{1: journal.RowDone, 2: journal.RowIgnored, 3: journal.RowIgnored},
			live: func(f *fixture) {
				p := f.next()
				f.claimed(2)
				got := f.cancel(jobexec.CancelWish{IDs: []int64{1, 2, 3}, Rows: true})
				if len(got) != 3 || got[1] != "signals of b" || got[2] != "not run of b" || got[3] != "not run of c" {
					f.t.Errorf("told %v", got)
				}
				<-p.signals
				<-p.signals
				p.exit(1)
			},
		},
		"ignored, and refused": {
			rows: []journal.Row{manual(1, "c"), waiting(2, "a"), waiting(3, "a")}, instant: true, starts: 2,
			end:     map[int64]string{1: journal.RowManual, 2: journal.RowDone, 3: journal.RowDone},
			prepare: func(f *fixture) { f.table.refused[1] = "a trigger" },
			live: func(f *fixture) {
				f.ignored()
				f.agree()
			},
		},
		"ignored, in doubt, and not won": {
			rows: []journal.Row{manual(1, "c")}, end: map[int64]string{1: journal.RowManual},
			prepare: func(f *fixture) { f.table.commit = failing(1, errLink) },
			live: func(f *fixture) {
				f.ignored()
				f.agree()
			},
		},
		"ignored, in doubt, and won": {
			rows:    []journal.Row{manual(1, "c")},
			prepare: func(f *fixture) { f.table.commit = func(apply func()) error { apply(); return errLink } },
			live: func(f *fixture) {
				f.ignored()
				f.agree()
			},
		},
	}
}

// pass runs job 1, has the row of the next one locked, and gives the process of the one that has the slot
// instead.
func (f *fixture) pass(id int64) *process {
	f.t.Helper()
	first := f.next()
	f.claimed(id)
	f.mirror.lock(id)
	first.exit(0)
	return f.next()
}

// ignored cancels job 1, which nobody has claimed.
func (f *fixture) ignored() {
	f.t.Helper()
	f.cancel(jobexec.CancelWish{IDs: []int64{1}, Rows: true})
	f.until("nothing is in doubt", func(s jobexec.Status) bool { return s.Doubted == 0 })
}

// agree checks that the journal says ignored where the row does, and the opposite where it does
// not.
func (f *fixture) agree() {
	f.t.Helper()
	last := journal.Kind("")
	for _, kind := range f.story(1) {
		last = kind
	}
	if ignored := f.table.status(1) == journal.RowIgnored; last != "" && ignored != (last == journal.KindIgnored) {
		f.t.Errorf("the row is %s, the journal says last that it is %s", f.table.status(1), last)
	}
}
