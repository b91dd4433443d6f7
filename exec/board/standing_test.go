package board

import (
	"testing"
	"time"

	"jobd/journal"
)

// Where a job stands is told in each place that it may be in, and telling changes nothing.
func TestStanding(t *testing.T) {
	t.Parallel()
	b := New(Config{Targets: map[string]int{"a": 1}})
	if s, known := b.Standing(1); known {
		t.Errorf("nobody's job stands %+v", s)
	}
	claim := &Claim{}
	var events []journal.Event
	for id := int64(1); id <= 3; id++ {
		for _, d := range b.Accept(claim, journal.Row{Job: id, Target: "a", Status: journal.RowWaiting}, "@abcd00000", instance, time.Unix(1_000_000, 0)) {
			events = append(events, journal.Event{Seq: uint64(len(events) + 1), Time: time.Unix(int64(len(events)), 0), Job: d.Job, Payload: d.Payload})
		}
	}
	b.Decided(claim, events)
	expect := func(id int64, want Standing) {
		t.Helper()
		if got, known := b.Standing(id); !known || got != want {
			t.Errorf("job %d: %+v, want %+v", id, got, want)
		}
	}
	began := time.Unix(1, 0)
	expect(1, Standing{Phase: Reserved, Target: "a", Attempt: 1, Began: began})
	effects := b.Won(claim)
	expect(1, Standing{Phase: Announced, Target: "a", Attempt: 1, Began: began})
	expect(2, Standing{Phase: Queued, Target: "a", Attempt: 1})
	expect(3, Standing{Phase: Queued, Target: "a", Attempt: 1, Before: 1})
	b.Ask(effects.Start[0])
	b.Asked(effects.Start[0].Job, "process")
	expect(1, Standing{Phase: Asked, Target: "a", Attempt: 1, Began: began, Process: "process"})

	b.Doubt(&Claim{Events: []journal.Event{{Job: 7, Payload: journal.Accepted{Target: "a", Manual: true}}}}, nil)
	expect(7, Standing{InDoubt: true, Target: "a", Manual: true})
	b.Doubt(&Claim{Events: []journal.Event{{Job: 8, Payload: journal.Ignored{}}}}, func(int64) string { return "gone" })
	expect(8, Standing{InDoubt: true, Ignored: true, Lost: "gone"})

	b.Pause([]*Target{b.Target("a")}, began, "me")
	expect(3, Standing{Phase: Leaving, Target: "a", Attempt: 1, Reason: targetPaused})
}
