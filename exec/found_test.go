package exec_test

import (
	"testing"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/store/storetest/must"
)

// gearman has Gearman workers run jobs.
var gearman = jobexec.Launcher{Mode: jobexec.ModeGearman, Words: []string{"gearman"}, Service: jobexec.Service{Mode: jobexec.ModeGearman}}

// A target that no configuration names stays with its launcher when one is read again, until somebody removes it.
func TestAFoundTargetStays(t *testing.T) {
	t.Parallel()
	kept, asked := &pools{}, newRequester()
	f := newFixture(t, newTable(), modes(forks, kept, asked))
	f.start()
	for range 2 {
		must.Do(t, f.worker.FindTarget("g", 3, gearman, "10.0.0.1:5"))
	}
	must.Do(t, f.worker.FindTarget("a", 3, gearman, "10.0.0.1:5")) // it is served
	check := func(what string) {
		t.Helper()
		if n := f.worker.Status().Targets["g"].Concurrency; n != 3 || asked.services["g"] != gearman.Service || len(asked.services) != 1 {
			t.Errorf("%s: %d slots, services %v", what, n, asked.services)
		}
	}
	check("when it is found")
	f.worker.SetTerms(forks, map[string]jobexec.Terms{"a": {}}, nil, false)
	must.Do(t, f.worker.SetTargets(map[string]int{"a": 1}, "me"))
	check("when a configuration is read again")
	must.Do(t, f.worker.RemoveTarget("g", "me"))
	if f.worker.Serves("g") || len(asked.services) != 0 {
		t.Errorf("when it is removed: services %v", asked.services)
	}
	must.Do(t, f.worker.AddTarget("g", 1, "me"))
	if len(asked.services) != 0 {
		t.Errorf("when it is added by hand: services %v", asked.services)
	}
}

// Who cancels what was not started leaves a job alone that runs. One that waits for its process is taken back.
func TestCancelOfWhatWasNotStarted(t *testing.T) {
	t.Parallel()
	asked := newRequester()
	f := newFixture(t, newTable(waiting(1, "a"), waiting(2, "a")), modes(posts, nil, asked))
	f.start()
	runs, waits := asked.asks(t), asked.asks(t)
	runs.connects()
	runs.sends(t)
	wish := jobexec.CancelWish{IDs: []int64{runs.spec.Job, waits.spec.Job}, Rows: true, Unstarted: true, By: "me"}
	told := must.Get(f.worker.Cancel(t.Context(), wish))(t)
	if len(told.Jobs) != 1 || told.Errors[runs.spec.Job] == "" {
		t.Errorf("told: %+v", told)
	}
	runs.ends(answered("ok"), nil)
	f.reach(map[int64]string{runs.spec.Job: journal.RowDone, waits.spec.Job: journal.RowIgnored})
}

// A job whose Gearman worker is lost is one attempt less, and started again at once.
func TestAttemptsOfALostGearmanWorker(t *testing.T) {
	t.Parallel()
	asked := newRequester()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	f.build(func(c *jobexec.Config) {
		modes(gearman, nil, asked)(c)
		c.Terms = map[string]jobexec.Terms{"a": {Launcher: &gearman, Attempts: 2}}
	})
	f.start()
	for attempt := 1; attempt <= 2; attempt++ {
		p := asked.asks(t)
		if p.spec.Attempt != attempt {
			t.Fatalf("attempt %d, not %d", p.spec.Attempt, attempt)
		}
		p.connects()
		p.sends(t)
		p.ends(journal.Done{}, jobexec.ErrOutcomeUnknown)
	}
	f.reach(map[int64]string{1: journal.RowDone})
}
