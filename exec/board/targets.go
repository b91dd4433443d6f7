package board

import (
	"slices"
	"time"
)

// Add makes a target served. Jobs of a former run that are under way go on as its own.
func (b *Board) Add(name string, concurrency int) *Target {
	b.added++
	t := b.targetOf(name)
	t.concurrency, t.since = concurrency, b.added
	b.targets[name] = t
	delete(b.unserved, name)
	return t
}

// serves tells whether jobs of a target are started.
func (b *Board) serves(name string) bool { return b.targets[name] != nil }

// Remove makes a target served no more.
func (b *Board) Remove(name string) { delete(b.targets, name) }

// Retire has a target removed as soon as it is empty, on whose behalf by says. Nothing more is
// claimed for it. Where its jobs are refused, none is to show any more whether they can be started: that
// one is given back, too, unless it was started before.
func (b *Board) Retire(t *Target, by string) Effects {
	t.retiring, t.retiredBy = true, by
	if r := t.refused; r != nil && b.stays(r.probe) && slices.Contains(b.unstarted(t), r.probe) {
		b.takeBack(r.probe)
		b.inbox.due = slices.DeleteFunc(b.inbox.due, func(j *Job) bool { return j.phase != Due })
	}
	return b.follow()
}

// Keep takes that back.
func (b *Board) Keep(t *Target) Effects {
	t.retiredBy = ""
	return b.Reopen(t, true)
}

// Close has nothing more claimed for a target. It tells whether that was otherwise before.
func (b *Board) Close(t *Target) (wasOpen bool) {
	wasOpen, t.retiring = !t.retiring, true
	return wasOpen
}

// Reopen takes that back where the target was open before, and looks for its rows.
func (b *Board) Reopen(t *Target, wasOpen bool) Effects {
	t.retiring = !wasOpen
	return Effects{Poll: []string{t.name}}
}

// SetConcurrency changes how many jobs of a target may run at once. What runs goes on.
func (b *Board) SetConcurrency(t *Target, concurrency int) Effects {
	t.concurrency = concurrency
	b.dispatch(t)
	return b.follow()
}

// Pause pauses targets, whose jobs that have not started are taken back. It tells since when, and
// on whose behalf.
func (b *Board) Pause(targets []*Target, since time.Time, by string) Effects {
	for _, t := range targets {
		if !t.paused {
			t.paused, t.pausedSince, t.pausedBy = true, since, by
		}
	}
	for _, t := range targets {
		b.takeBackAll(t)
	}
	return b.follow()
}

// Continue ends the pause of targets.
func (b *Board) Continue(targets []*Target) Effects {
	for _, t := range targets {
		t.paused, t.pausedSince, t.pausedBy = false, time.Time{}, ""
	}
	for _, t := range targets {
		b.dispatch(t)
	}
	return b.follow()
}

// Stop has nothing started any more: what has not started is given back.
func (b *Board) Stop() Effects {
	b.stopping = true
	for _, t := range b.targets {
		b.takeBackAll(t)
	}
	return b.follow()
}
