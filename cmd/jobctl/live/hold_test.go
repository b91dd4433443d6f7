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
	p.sees("the list has moved, and nothing was done: job 4713 of mail is chosen now")
	p.press("x", "y")
	if len(f.done) != 1 || f.done[0].Job.Job != 4713 {
		t.Errorf("did %+v", f.done)
	}
}

// Who has gone to no row is at the first one. What has come there just now nobody has seen.
func TestAListThatMovesJustBeforeAKeyIsPressed(t *testing.T) {
	t.Parallel()
	f := oneWorker()
	p := sit(t, f, false, 80, 24)
	p.press("tab")
	p.later(2)
	f.running.Jobs = slices.Clone(f.running.Jobs[1:])
	f.running.Total--
	p.later(1)
	p.press("K", "y")
	if len(f.done) != 0 {
		t.Errorf("did %+v", f.done)
	}
	p.press("K", "y")
	if len(f.done) != 1 || f.done[0].Job.Job != 4712 {
		t.Errorf("did %+v", f.done)
	}
	p.later(5)
	f.running.Jobs = f.running.Jobs[1:]
	p.later(3)
	p.press("t", "y")
	if len(f.done) != 2 || f.done[1].Job.Job != 4713 {
		t.Errorf("what has been there for long: did %+v", f.done)
	}
}

// Targets come and go; the chosen one stays chosen, also when the filter is taken away.
func TestTheChosenTargetStaysChosen(t *testing.T) {
	t.Parallel()
	f := oneWorker()
	p := sit(t, f, false, 80, 24)
	names := p.model.targets()
	p.press("down")
	chosen := names[1].name
	f.fleet.Workers[0].Status.Targets["0-first"] = api.TargetStatus{Concurrency: 1}
	p.later(5)
	p.sees("> " + chosen)
	p.press("l")
	delete(f.fleet.Workers[0].Status.Targets, chosen)
	p.later(5)
	p.press("l")
	if len(f.done) != 1 || f.done[0].Target != chosen {
		t.Errorf("did %+v", f.done)
	}
	last := names[0].name
	p.press("/")
	for _, letter := range last {
		p.press(string(letter))
	}
	p.press("enter", "esc")
	p.sees("> " + last)
}
