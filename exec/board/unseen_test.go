package board

import (
	"testing"
	"time"

	"jobd/journal"
)

// A target whose former jobs read as under way still, more of them than it has slots, claims
// nothing until the table shows enough of their ends; wherever these are on their way.
func TestATargetThatTheTableIsBehindOf(t *testing.T) {
	t.Parallel()
	const prefetch = 3
	for _, test := range []struct {
		name    string
		in      map[Phase]int
		unseen  []uint64
		seen    uint64
		room    int
		awaited uint64
	}{
		{name: "nothing is owed", room: 2 + prefetch},
		{name: "as much as it has slots", unseen: []uint64{10, 11}, room: 2 + prefetch},
		{name: "more", unseen: []uint64{10, 11, 12}, awaited: 10},
		{name: "far more", unseen: []uint64{10, 11, 12, 20}, awaited: 11},
		{name: "some is shown, not enough", unseen: []uint64{10, 11, 12, 20}, seen: 10, awaited: 11},
		{name: "enough is shown", unseen: []uint64{10, 11, 12, 20}, seen: 11, room: 2 + prefetch},
		{name: "ends that are being journalled count", in: map[Phase]int{Ending: 1}, unseen: []uint64{10, 11}, awaited: 10},
		{name: "so do releases", in: map[Phase]int{Leaving: 3}, unseen: []uint64{10}, awaited: 10},
		{name: "the journal is waited for, not the table", in: map[Phase]int{Ending: 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := New(Config{Targets: map[string]int{"a": 2, "b": 1}})
			target := b.Target("a")
			for phase, n := range test.in {
				target.in[phase] = n
			}
			for _, seq := range test.unseen {
				target.unseenFrom(seq)
			}
			b.Seen(test.seen)
			if got := target.Room(prefetch); got != test.room {
				t.Errorf("room %d, want %d", got, test.room)
			}
			if got := b.Awaited(); got != test.awaited {
				t.Errorf("awaited is event %d, want %d", got, test.awaited)
			}
			if got := b.Target("b").Room(prefetch); got != 1+prefetch {
				t.Errorf("room of another target %d, want %d", got, 1+prefetch)
			}
		})
	}
}

// What is journalled of a job at its end is what the table owes.
func TestEndsAndReleasesAreAwaited(t *testing.T) {
	t.Parallel()
	b := New(Config{Targets: map[string]int{"a": 1}})
	target := b.Target("a")
	for id, phases := range map[int64][]Phase{1: {Asked, Ended, Ending}, 2: {Queued, Leaving}} {
		j := b.newJob(id, journal.Accepted{Target: "a", Token: "@1"}, 1)
		for _, phase := range phases {
			b.move(j, phase)
		}
	}
	b.Journalled(Turn{Steps: []*Step{
		{then: b.finished, job: b.jobs[1], Events: []journal.Event{{Seq: 7, Time: time.Now()}, {Seq: 8, Time: time.Now()}}},
		{then: b.left, job: b.jobs[2], Events: []journal.Event{{Seq: 9, Time: time.Now()}}},
	}})
	if !target.behind() || b.Awaited() != 8 {
		t.Errorf("behind: %t, awaited is event %d; want the end, 8", target.behind(), b.Awaited())
	}
	if b.Seen(8); target.behind() || b.Awaited() != 0 {
		t.Errorf("behind: %t, awaited is event %d; want only the release owed, which is not more than it has slots", target.behind(), b.Awaited())
	}
}
