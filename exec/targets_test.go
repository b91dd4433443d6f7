package exec_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/store/storetest/must"
)

func (f *fixture) targets() map[string]int {
	limits := make(map[string]int)
	for name, t := range f.worker.Status().Targets {
		limits[name] = t.Concurrency
	}
	return limits
}

// Regression: a reload took a busy target away, a second one brought it back: "already added", then
// it was removed when empty, and no further reload mended that.
func TestATargetThatIsToBeRemovedIsTakenBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	f.start()
	p := f.next()
	must.Do(t, f.worker.SetTargets(map[string]int{"b": 1}, "file"))
	must.Do(t, f.worker.SetTargets(map[string]int{"a": 3, "b": 1}, "file"))
	p.exit(0)
	f.wait("the job is done", ended(1))
	f.table.insert(waiting(2, "a"))
	f.worker.PollAll()
	f.next().exit(0)
	if got, want := f.targets(), map[string]int{"a": 3, "b": 1}; !maps.Equal(got, want) {
		t.Errorf("targets %v, want %v", got, want)
	}
}

// What was added over the wire and is not wanted goes; what was removed over the wire and is wanted
// comes back.
func TestSetTargetsComparesWithWhatIs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(), nil)
	f.start()
	for _, err := range []error{f.worker.AddTarget("c", 1, "me"), f.worker.RemoveTarget("b", "me"), f.worker.SetConcurrency("a", 9, "me")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	status := f.worker.Status().Targets // tells what the configuration says otherwise
	if a, c := status["a"].Configured, status["c"].Configured; a == nil || *a != 2 || c == nil || *c != 0 {
		t.Errorf("set by hand: %+v", status)
	}
	want := map[string]int{"a": 2, "b": 1}
	for range 2 {
		must.Do(t, f.worker.SetTargets(want, "file"))
		if got := f.targets(); !maps.Equal(got, want) {
			t.Errorf("targets %v, want %v", got, want)
		}
		if a := f.worker.Status().Targets["a"]; a.Configured != nil {
			t.Errorf("as configured: %+v", a)
		}
	}
	if got := words(f.story(0)); strings.Count(got, "target-added") != 2 || strings.Count(got, "target-removed") != 2 {
		t.Errorf("the second time nothing was to be done: %q", got)
	}
}

// Regression: where the disk was full when a retired target became empty, it stayed, and was served
// again.
func TestATargetIsRemovedWhenThereIsRoomAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "a")), nil)
	refusals := 0
	f.build(func(c *jobexec.Config) {
		c.Recorder = &brokenJournal{f.journal, func(drafts []journal.Draft) error {
			if drafts[0].Payload.Kind() == journal.KindTargetRemoved && refusals < 3 {
				refusals++
				return journal.ErrFull
			}
			return nil
		}}
	})
	f.start()
	p := f.next()
	must.Do(t, f.worker.RetireTarget("a", "file"))
	p.exit(0)
	f.wait("it is gone", func(s *journal.State) bool { return len(s.Targets) == 1 })
}

// Two targets that are one to the table, and names that it can't hold, are not added.
func TestAddTargetAsksTheTableAboutTheName(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(), nil)
	f.table.unfit["A"] = "the table takes it for target a"
	f.start()
	var refused jobexec.RefusedError
	if err := f.worker.AddTarget("A", 1, "me"); !errors.As(err, &refused) || !strings.Contains(err.Error(), "the table takes it for target a") {
		t.Errorf("AddTarget: %v", err)
	}
	if _, there := f.targets()["A"]; there {
		t.Error("it was added")
	}
}

// A table that is lost can't say: the target is added, and what is wrong is found out once the
// table answers. Nothing is claimed for it then, and the others are not harmed.
func TestANameThatIsUnfitIsFoundOutLater(t *testing.T) {
	t.Parallel()
	f := newFixture(t, newTable(waiting(1, "A"), waiting(2, "a")), nil)
	f.table.unfit["A"], f.table.namesErr = "the table takes it for target a", errAway
	f.start()
	must.Do(t, f.worker.AddTarget("A", 1, "me"))
	f.table.change(func() { f.table.namesErr = nil })
	if p := f.next(); p.spec.Job != 2 {
		t.Errorf("job %d was started", p.spec.Job)
	}
	f.until("it says why", func(s jobexec.Status) bool {
		return strings.Contains(s.Targets["A"].Why, "takes it for target a") && s.Targets["a"].Why == ""
	})
	f.none()
	// The other one goes, so that this one is fit.
	f.table.change(func() { clear(f.table.unfit) })
	must.Do(t, f.worker.RemoveTarget("b", "me"))
	if p := f.next(); p.spec.Job != 1 {
		t.Errorf("job %d was started", p.spec.Job)
	}
}
