package board

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"jobd/journal"
	"jobd/store/storetest/check"
)

// times are the model's books of rows that come at a time, and come back.
type times struct {
	until      int64          // not 0: what is due later is let alone, so that there is an end
	turned     int64          // when the newest turn was made
	started    map[run]uint64 // the announcement of each start that was asked for
	hands      map[int64]bool // rows that are run by hand
	generation map[int64]int  // how often a row was inserted, or reset by somebody
}

// run is one attempt of one run of a row.
type run struct {
	job        int64
	generation int
	plannedAt  int64
	attempt    int
}

// plan is what a new row says about time.
func (w *world) plan() *journal.Plan {
	plan := journal.Plan{
		Schedule:    rapid.SampledFrom([]string{"", "", "every 90s", "hourly :15", "* * * * *", "daily 03:00"}).Draw(w.T, "schedule"),
		Zone:        rapid.SampledFrom([]string{"", "Asia/Tokyo"}).Draw(w.T, "zone"),
		MaxAttempts: int64(rapid.SampledFrom([]int{0, 0, 1, 2, 4}).Draw(w.T, "max attempts")),
	}
	if ago := rapid.IntRange(0, 3).Draw(w.T, "due for"); ago > 0 {
		plan.RunAt = w.now.Unix() - int64(ago*ago*100)
	}
	return &plan
}

// isDue tells whether a claim would find a row.
func (w *world) isDue(row journal.Row) bool {
	now := w.now.Unix()
	if w.times.until != 0 {
		now = min(now, w.times.until)
	}
	return row.Status == journal.RowWaiting || row.Status == journal.RowDelayed && row.Plan.RunAt <= now
}

// The mirror's and the claims' updates.

func comesBack(row journal.Row, again *journal.Again) journal.Row {
	if again != nil {
		plan := *row.Plan
		plan.RunAt, plan.PlannedAt, plan.Attempts = again.RunAt, again.PlannedAt, again.Attempts
		row.Status, row.Plan = journal.RowDelayed, &plan
	}
	return row
}

func starts(row journal.Row, p journal.Running) journal.Row {
	plan := *row.Plan
	plan.Attempts, row.Status = int64(p.Attempt), journal.RowRunning
	row.Plan = &plan
	return row
}

func plansAt(row journal.Row, at int64) journal.Row {
	if plan := *row.Plan; at != 0 {
		plan.PlannedAt = at
		row.Plan = &plan
	}
	return row
}

// outcome is how a process ends.
func (w *world) outcome() journal.Done {
	code := rapid.SampledFrom([]int{0, 0, 0, 1, 1, exDataErr}).Draw(w.T, "exit code")
	if code == 0 {
		return journal.Done{Result: "ok", Code: &code}
	}
	return journal.Done{Result: "fail", Code: &code}
}

// most is how often a run is started at most.
func (w *world) most(claim journal.Accepted) int {
	most := max(1, w.config.Timing.Terms[claim.Target].Attempts)
	if claim.Plan.MaxAttempts > 0 {
		most = int(claim.Plan.MaxAttempts)
	} else if w.config.Timing.Terms[claim.Target].Attempts == 0 && w.config.Requeue {
		most = w.config.MaxAttempts
	}
	if claim.Manual {
		most = before(claim) + w.config.MaxAttempts
	}
	return most
}

// startsRun checks that each attempt of a run is started once; but for starts that did not happen.
func (w *world) startsRun(s Start) {
	this := run{s.id, w.times.generation[s.id], s.claim.PlannedAt, s.attempt}
	if s.claim.Manual || w.rows[s.id].Owner != s.claim.Token {
		return
	}
	if seq, before := w.times.started[this]; before && !w.withdrawn[seq] {
		w.Fatalf("%+v is started a second time: by events %d and %d", this, seq, s.Seq)
	}
	w.times.started[this] = s.Seq
}

// checkTime checks what is about to be journalled: attempts come in order and are no more than there
// may be, nothing is run before its time, and what recurs comes back.
func (w *world) checkTime(e journal.Event) {
	known, now := w.state.Job(e.Job), w.now.Unix()
	if known.Status.Ended() && (e.Kind() == journal.KindRunning || e.Kind() == journal.KindDone) {
		return // which the journal refuses
	}
	switch p := e.Payload.(type) {
	case journal.Accepted:
		if p.From == journal.RowDelayed && p.Plan.RunAt > now {
			w.Fatalf("job %d is claimed before it is due", e.Job)
		}
	case journal.Running:
		if claim := claimOf(known); p.Attempt > w.most(claim) {
			w.Fatalf("job %d is started %d times, of %d", e.Job, p.Attempt, w.most(claim))
		} else if !w.config.Requeue && p.Attempt != First(claim) {
			w.Fatalf("job %d is started by its claim for the second time, attempt %d", e.Job, p.Attempt)
		}
	case journal.Planned:
		if p.From.Schedule == "" || p.To.RunAt <= now {
			w.Fatalf("job %d is planned anew: %+v", e.Job, p)
		}
	case journal.Done:
		recurs := known.Plan.Schedule != "" && !known.Manual && (known.Cancelled == nil || !known.Cancelled.Schedule)
		switch again := p.Again; {
		case again == nil && recurs:
			w.Fatalf("job %d recurs, and ends for good: %+v", e.Job, p)
		case again == nil:
		case known.Manual, known.Cancelled != nil && (known.Cancelled.Schedule || again.Why == journal.AgainRetry):
			w.Fatalf("job %d comes back: %+v", e.Job, again)
		case again.RunAt <= w.times.turned:
			w.Fatalf("job %d is due at once: %+v", e.Job, again)
		case again.Why == journal.AgainSchedule && (!recurs || again.Attempts != 0 || again.PlannedAt != again.RunAt || again.RunAt <= known.PlannedAt):
			w.Fatalf("job %d, planned for %d, comes back for a run: %+v", e.Job, known.PlannedAt, again)
		case again.Why == journal.AgainRetry && (p.Result == "ok" || hopeless(p) || int(again.Attempts) != known.Attempt || known.Attempt >= w.most(claimOf(known))):
			w.Fatalf("job %d, attempt %d with %+v, comes back for another one: %+v", e.Job, known.Attempt, p, again)
		}
	}
}

// checkRows checks, when everything has come to its end, that no row was lost: what is delayed has a
// time to come, and what recurs is delayed still.
func (w *world) checkRows() {
	if w.stopped {
		return
	}
	for id, row := range w.rows {
		switch row.Status {
		case journal.RowDelayed:
			if row.Plan.RunAt <= w.times.until {
				w.Fatalf("row %d is due for ever: %+v", id, *row.Plan)
			}
		case journal.RowWaiting:
			w.Fatalf("row %d waits for ever", id)
		case journal.RowAccepted, journal.RowRunning:
			if w.state.Job(id).Status != journal.StatusConflict && !w.hadConflict(id) {
				w.Fatalf("row %d is %s for ever", id, row.Status)
			}
		}
	}
}

// hadConflict tells whether the mirror has once found the row changed by somebody else: nobody writes
// to it any more then.
func (w *world) hadConflict(id int64) bool {
	for _, e := range w.events {
		if e.Job == id && e.Kind() == journal.KindConflict {
			return true
		}
	}
	return false
}

// What happened a minute ago or longer is not told any more, and what comes in its place in the
// ring is not added to it.
func TestRatesLookBackAMinute(t *testing.T) {
	begun := time.Unix(1_000_000, 0)
	at := func(seconds float64) time.Time { return begun.Add(time.Duration(seconds * float64(time.Second))) }
	target := &Target{}
	check.Equal(t, target.Rates(begun), (Rates{}), "before the first job")
	j := &Job{target: target}
	j.countStart(at(0))
	j.countStart(at(1)) // the same start
	j.countEnd(true, at(0.9))
	j.countEnd(false, at(30))
	for seconds, want := range map[float64]Rates{
		30: {1, 2, 1}, 59.9: {1, 2, 1}, 60: {0, 1, 1}, 89.9: {0, 1, 1}, 90: {}, 1e6: {},
	} {
		check.Equal(t, target.Rates(at(seconds)), want, "after %v s", seconds)
	}
	j.countEnd(true, at(90)) // in the place of 30
	check.Equal(t, target.Rates(at(90)), (Rates{0, 1, 0}), "the ring goes on with")
	if n := testing.AllocsPerRun(100, func() { j.counted = false; j.countStart(at(91)); j.countEnd(true, at(91)) }); n > 0 {
		t.Errorf("a job takes %v allocations", n)
	}
}

// Claims take what a target gets through in a tenth of a second, while its jobs are short and there is no
// end of rows; one a slot at least, and no more than twice as much as before.
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
		"a pause":                    {{ahead: 2}, {after: time.Minute, ended: 4, ahead: 2}},
		"short jobs":                 {{ahead: 2}, {after: 20 * time.Millisecond, ended: 4, ahead: 4}, {after: 20 * time.Millisecond, ended: 4, ahead: 8}, {after: 50 * time.Millisecond, ended: 5, ahead: 10}},
		"jobs that are longer now":   {{ahead: 2}, {after: time.Millisecond, ended: 4, ahead: 4}, {after: time.Second, ended: 20, ahead: 2}},
		"the end of the rows":        {{ahead: 2}, {after: time.Millisecond, ended: 4, ahead: 4}, {after: time.Millisecond, ended: 4, short: true, ahead: 2}},
		"behind the end of the rows": {{short: true, ahead: 2}, {after: time.Millisecond, ended: 4, ahead: 2}, {after: time.Millisecond, ended: 4, ahead: 4}},
		"no time has passed":         {{ahead: 2}, {ended: 4, ahead: 2}},
	} {
		target, now := New(Config{Targets: map[string]int{"a": 2}}).Target("a"), time.Unix(1_000_000, 0)
		for i, c := range claims {
			now = now.Add(c.after)
			target.ended += c.ended
			target.pace.takes = shortTime
			target.Claimed(!c.short, now)
			check.Equal(t, target.Room(-1), 2+c.ahead, "%s: behind claim %d there is room for", name, i+1)
			target.pace.takes = shortTime + 1
			check.Equal(t, target.Room(-1), 2, "%s: behind claim %d, where jobs are long, there is room for", name, i+1)
			check.Equal(t, target.Room(3), 2+3, "%s: behind claim %d there is room for", name, i+1)
		}
	}
}

// Regression: rows waited behind jobs of ten seconds while the slots of other workers were free. What is
// claimed ahead depends on how long jobs have their slots; nothing is before that is known, and once rows
// were not reached nothing is until jobs are short again.
func TestNothingIsClaimedAheadOfLongJobs(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	always := func(d time.Duration) func() time.Duration { return func() time.Duration { return d } }
	about := func(d time.Duration) func() time.Duration {
		return func() time.Duration { return time.Duration(random.ExpFloat64() * float64(d)) }
	}
	type stretch struct {
		jobs   int
		take   func() time.Duration
		most   int  // times that a claim ahead begins, in this stretch
		before int  // such jobs; the first claim ahead comes not before
		by     int  // and by then at the latest; 0: there is none
		late   bool // behind it rows are not reached
	}
	for name, stretches := range map[string][]stretch{
		"long":                       {{jobs: 10_000, take: always(10 * time.Second)}},
		"long on average":            {{jobs: 10_000, take: about(10 * time.Second)}},
		"a second":                   {{jobs: 10_000, take: about(time.Second), most: 2}},
		"short":                      {{jobs: 100, take: always(5 * time.Millisecond), most: 1, before: 5, by: 15}},
		"short on average":           {{jobs: 10_000, take: about(50 * time.Millisecond), most: 1, before: 5, by: 20}},
		"long by now":                {{jobs: 100, take: always(time.Millisecond), most: 1, by: 15, late: true}, {jobs: 10_000, take: about(10 * time.Second)}},
		"short again":                {{jobs: 100, take: always(time.Minute)}, {jobs: 100, take: always(time.Millisecond), most: 1, before: 30, by: 50}},
		"short, and one by chance":   {{jobs: 100, take: always(time.Millisecond), most: 1, by: 15}, {jobs: 1, take: always(time.Minute)}, {jobs: 100, take: always(time.Millisecond), most: 1, before: 20, by: 50}},
		"short behind those of late": {{jobs: 100, take: always(time.Millisecond), most: 1, by: 15, late: true}, {jobs: 100, take: always(time.Millisecond), most: 1, before: 5, by: 15}},
		"an outage":                  {{jobs: 100, take: always(time.Millisecond), most: 1, by: 15}, {jobs: 2, take: always(time.Hour)}, {jobs: 200, take: always(time.Millisecond), most: 1, by: 90}},
		"the clock was set back":     {{jobs: 100, take: always(-time.Hour), most: 1, before: 5, by: 15}},
	} {
		b, now := New(Config{Targets: map[string]int{"a": 2}}), time.Unix(1_000_000, 0)
		target, was := b.Target("a"), false
		for i, s := range stretches {
			first, times := 0, 0
			for n := range s.jobs {
				takes := s.take()
				now = now.Add(max(takes, 0))
				(&Job{target: target, began: now.Add(-takes)}).countEnd(true, now)
				is := target.Room(-1) > 2
				if is && !was {
					if times++; first == 0 {
						first = n + 1
					}
				}
				was = is
			}
			if times > s.most || first < s.before || first > s.by {
				t.Errorf("%s, stretch %d: claims ahead begin %d times, first behind job %d; want %d times at most, between %d and %d", name, i+1, times, first, s.most, s.before, s.by)
			}
			if s.late {
				b.enqueue(b.newJob(1, claimOfTarget("a"), 1))
				target.Claimed(true, now)
				b.GiveBackLate(now.Add(lateTime), false)
				check.Equal(t, target.Room(-1), 2, "%s: behind stretch %d there is room for", name, i+1)
				was = false
				b.Turn(now, instance)
				b.drop(b.jobs[1], notReached)
			}
		}
	}
}

// What was claimed ahead and is not reached is given back behind a second, but for jobs that a client wants
// run here, or that were started before. Without the table nobody else could run it.
func TestWhatIsNotReachedIsGivenBack(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	at := func(d time.Duration) time.Time { return now.Add(d) }
	type look struct {
		at   time.Time
		away bool
	}
	for name, test := range map[string]struct {
		queued  int
		manual  []int64
		started []int64
		claimed time.Time // zero: by a former process
		looks   []look
		left    []int64
	}{
		"soon":              {queued: 5, claimed: now, looks: []look{{at: at(time.Second - 1)}}, left: []int64{1, 2, 3, 4, 5}},
		"late":              {queued: 5, claimed: now, looks: []look{{at: at(time.Second)}}},
		"one a slot":        {queued: 2, claimed: now, looks: []look{{at: at(time.Hour)}}},
		"found at a start":  {queued: 2, looks: []look{{at: at(time.Hour)}}, left: []int64{1, 2}},
		"and late":          {queued: 2, looks: []look{{at: at(time.Hour)}, {at: at(time.Hour + time.Second)}}},
		"no table":          {queued: 2, claimed: now, looks: []look{{at: at(time.Hour), away: true}}, left: []int64{1, 2}},
		"it is back":        {queued: 2, claimed: now, looks: []look{{at: at(time.Hour), away: true}, {at: at(time.Hour + time.Second - 1)}}, left: []int64{1, 2}},
		"back, and late":    {queued: 2, claimed: now, looks: []look{{at: at(time.Hour), away: true}, {at: at(time.Hour + time.Second)}}},
		"clients wait":      {queued: 5, manual: []int64{1, 4}, claimed: now, looks: []look{{at: at(time.Second)}}, left: []int64{1, 4}},
		"it was started":    {queued: 5, started: []int64{5}, claimed: now, looks: []look{{at: at(time.Second)}}, left: []int64{5}},
		"nothing is queued": {claimed: now, looks: []look{{at: at(time.Second)}}},
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
		var e Effects
		var last time.Time
		for _, look := range test.looks {
			e, last = b.GiveBackLate(look.at, look.away), look.at
		}
		var left []int64
		for _, j := range target.queue {
			left = append(left, j.id)
		}
		leaving := target.in[Leaving]
		if !slices.Equal(left, test.left) || leaving != test.queued-len(left) || e.Turn != (leaving > 0) {
			t.Errorf("%s: %v are left, want %v; %d are leaving, a turn %t", name, left, test.left, leaving, e.Turn)
		}
		if late := target.Late(); !late.IsZero() && !late.After(last) {
			t.Errorf("%s: what is late since %s wakes the worker again", name, late)
		}
		if mayBe := slices.ContainsFunc(target.queue, ahead); mayBe == target.Late().IsZero() {
			t.Errorf("%s: %v are left, and late at %s", name, left, target.Late())
		}
	}
}

// A turn waits for jobs that were announced together with one that has ended, as long as they are half
// of what runs. Regression: requests that had begun, and wait until that is journalled, waited with it.
func TestATurnWaitsForJobsThatWereStartedTogether(t *testing.T) {
	t.Parallel()
	const enough = 4
	for name, test := range map[string]struct {
		together []int // jobs of one announcement each
		ended    []int // of these
		signal   bool
		begins   bool // the last of them
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
		"another one begins":             {together: []int{2}, ended: []int{1}, begins: true},
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
		if test.begins {
			b.Began(b.Job(next), journal.Started{}, time.Now())
		}
		if test.signal {
			b.inbox.signals = append(b.inbox.signals, Signal{})
		}
		check.Equal(t, b.Gathers(enough), test.gathers, "%s: it waits", name)
	}
}
