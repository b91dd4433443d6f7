package live

import (
	"slices"
	"testing"

	"jobd/net/api"
)

// Who has chosen a job that ends does nothing to the one that comes in its place.
func TestAJobThatEndsLeavesNoOtherInItsPlace(t *testing.T) {
	t.Parallel()
	f := oneWorker()
	p := sit(t, f, false, 80, 24)
	p.press("tab", "down")
	p.sees("> 4712")
	p.later(2)
	f.running.Jobs = slices.Delete(slices.Clone(f.running.Jobs), 1, 2)
	f.running.Total--
	p.later(5)
	for _, key := range []string{"x", "y"} {
		p.press(key)
	}
	if len(f.done) != 0 {
		t.Errorf("did %+v", f.done)
	}
	p.sees("what was chosen is gone, and nothing was done: choose again")
	p.press("x", "y")
	if len(f.done) != 1 || f.done[0].Job.Job != 4713 {
		t.Errorf("did %+v", f.done)
	}
}

// Targets come and go; the chosen one stays chosen, also when the filter is taken away.
func TestTheChosenTargetStaysChosen(t *testing.T) {
	t.Parallel()
	f := oneWorker()
	p := sit(t, f, false, 80, 24)
	names := p.model.targets()
	p.press("down")
	chosen := names[1].Target
	f.fleet.Workers[0].Value.Targets["0-first"] = api.TargetStatus{Concurrency: 1}
	p.later(5)
	p.sees("> " + chosen)
	p.press("l")
	delete(f.fleet.Workers[0].Value.Targets, chosen)
	p.later(5)
	p.press("l")
	if len(f.done) != 1 || f.done[0].Target != chosen {
		t.Errorf("did %+v", f.done)
	}
}
