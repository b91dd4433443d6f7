package board

import (
	"slices"
	"testing"
	"time"

	"jobd/journal"
)

// Claims take what a target gets through in a tenth of a second, while there is no end of rows; one a
// slot at least, and no more than twice as much as before.
func TestClaimsFollowWhatATargetGetsThrough(t *testing.T) {
	t.Parallel()
	type claim struct {
		after time.Duration // the claim before
		ended int           // jobs, in that time
		short bool          // it took fewer rows than it had room for
		ahead int           // rows that the next one takes beyond the free slots
	}
	for name, claims := range map[string][]claim{
		"the first one":              {{ahead: 2}},
		"long jobs":                  {{ahead: 2}, {after: time.Minute, ended: 4, ahead: 2}},
		"short jobs":                 {{ahead: 2}, {after: 20 * time.Millisecond, ended: 4, ahead: 4}, {after: 20 * time.Millisecond, ended: 4, ahead: 8}, {after: 50 * time.Millisecond, ended: 5, ahead: 10}},
		"jobs that are long by now":  {{ahead: 2}, {after: time.Millisecond, ended: 4, ahead: 4}, {after: time.Second, ended: 20, ahead: 2}},
		"the end of the rows":        {{ahead: 2}, {after: time.Millisecond, ended: 4, ahead: 4}, {after: time.Millisecond, ended: 4, short: true, ahead: 2}},
		"behind the end of the rows": {{short: true, ahead: 2}, {after: time.Millisecond, ended: 4, ahead: 2}, {after: time.Millisecond, ended: 4, ahead: 4}},
		"no time has passed":         {{ahead: 2}, {ended: 4, ahead: 2}},
	} {
		target, now := New(Config{Targets: map[string]int{"a": 2}}).Target("a"), time.Unix(1_000_000, 0)
		for i, c := range claims {
			now = now.Add(c.after)
			target.ended += c.ended
			target.Claimed(!c.short, now)
			if room := target.Room(-1); room != 2+c.ahead {
				t.Errorf("%s: behind claim %d there is room for %d, want %d", name, i+1, room, 2+c.ahead)
			}
			if room := target.Room(3); room != 2+3 {
				t.Errorf("%s: behind claim %d there is room for %d, want the configured 3 beyond two slots", name, i+1, room)
			}
		}
	}
}

// What was claimed ahead and is not reached is given back behind a second: all but one job a slot, and
// but those that a client wants run here, or that were started before.
func TestWhatIsNotReachedIsGivenBack(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	at := func(d time.Duration) time.Time { return now.Add(d) }
	for name, test := range map[string]struct {
		queued  int
		manual  []int64
		started []int64
		claimed time.Time // zero: by a worker that was told how much to claim
		at      time.Time
		left    []int64
	}{
		"soon":              {queued: 5, claimed: now, at: at(time.Second - 1), left: []int64{1, 2, 3, 4, 5}},
		"late":              {queued: 5, claimed: now, at: at(time.Second), left: []int64{1, 2}},
		"one a slot":        {queued: 2, claimed: now, at: at(time.Hour), left: []int64{1, 2}},
		"as configured":     {queued: 5, at: at(time.Hour), left: []int64{1, 2, 3, 4, 5}},
		"clients wait":      {queued: 5, manual: []int64{1, 4}, claimed: now, at: at(time.Second), left: []int64{1, 2, 4}},
		"it was started":    {queued: 5, started: []int64{5}, claimed: now, at: at(time.Second), left: []int64{1, 2, 5}},
		"nothing is queued": {claimed: now, at: at(time.Second)},
	} {
		b := New(Config{Targets: map[string]int{"a": 2}})
		target := b.Target("a")
		for id := range int64(test.queued) {
			claim := claimOfTarget("a")
			claim.Manual = slices.Contains(test.manual, id+1)
			j := b.newJob(id+1, claim, 1)
			j.said = slices.Contains(test.started, id+1)
			b.enqueue(j)
		}
		if !test.claimed.IsZero() {
			target.Claimed(true, test.claimed)
		}
		e := b.GiveBackLate(test.at)
		var left []int64
		for _, j := range target.queue {
			left = append(left, j.id)
		}
		leaving := target.in[Leaving]
		if !slices.Equal(left, test.left) || leaving != test.queued-len(left) || e.Turn != (leaving > 0) {
			t.Errorf("%s: %v are left, want %v; %d are leaving, a turn %t", name, left, test.left, leaving, e.Turn)
		}
		if late := target.Late(); !late.IsZero() && !late.After(test.at) {
			t.Errorf("%s: what is late since %s wakes the worker again", name, late)
		}
	}
}

// A turn waits for jobs that were announced together with one that has ended, as long as they are half
// of what runs.
func TestATurnWaitsForJobsThatWereStartedTogether(t *testing.T) {
	t.Parallel()
	const enough = 4
	for name, test := range map[string]struct {
		together []int // jobs of one announcement each
		ended    []int // of these
		signal   bool
		gathers  bool
	}{
		"nothing has ended":              {together: []int{2}, ended: []int{0}},
		"a lone job":                     {together: []int{1}, ended: []int{1}},
		"one of two":                     {together: []int{2}, ended: []int{1}, gathers: true},
		"both":                           {together: []int{2}, ended: []int{2}},
		"two that started by themselves": {together: []int{1, 1}, ended: []int{1, 0}},
		"two of four":                    {together: []int{4}, ended: []int{2}, gathers: true},
		"three of four":                  {together: []int{4}, ended: []int{3}},
		"few of those that run":          {together: []int{2, 1, 1}, ended: []int{1, 0, 0}},
		"one of half":                    {together: []int{3, 1}, ended: []int{1, 0}, gathers: true},
		"enough":                         {together: []int{12}, ended: []int{4}},
		"somebody sends a signal":        {together: []int{2}, ended: []int{1}, signal: true},
	} {
		b, next := New(Config{Targets: map[string]int{"a": 20}}), int64(0)
		var ended []*Job
		for i, n := range test.together {
			var steps []*Step
			peers := new(int)
			for range n {
				next++
				j := b.newJob(next, claimOfTarget("a"), 1)
				for _, phase := range []Phase{Queued, Due, Announcing} {
					b.move(j, phase)
				}
				steps = append(steps, j.step(func(s *Step) { b.announced(s, peers) }, b.running(j, instance, false)))
			}
			takeTurn(b, Turn{Steps: steps}, nil)
			for _, s := range steps {
				b.Ask(Start{Job: s.job, Seq: s.job.announced})
				b.Asked(s.job, "its process")
			}
			for _, s := range steps[:test.ended[i]] {
				ended = append(ended, s.job)
			}
		}
		for _, j := range ended {
			b.Ended(j, journal.Started{}, Outcome{})
		}
		if test.signal {
			b.inbox.signals = append(b.inbox.signals, Signal{})
		}
		if got := b.Gathers(enough); got != test.gathers {
			t.Errorf("%s: it waits: %t", name, got)
		}
	}
}
