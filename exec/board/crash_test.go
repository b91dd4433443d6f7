package board

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"jobd/journal"
	"pgregory.net/rapid"
)

// crash has the worker killed, and started again with what the journal has. The runner lives on, or
// is killed as well, with some of what it ran.
func (w *world) crash(lived bool) bool {
	for _, c := range []*Claim{w.claim, w.manual} {
		if c != nil && rapid.Bool().Draw(w.T, "committed") {
			w.commit(c)
		}
	}
	before := maps.Clone(w.kept)
	for j, p := range w.process {
		before[j.start()] = p
	}
	w.requestsDie(before)
	for _, s := range w.asking { // the runner reads what it was sent
		if s.executor == "http" {
			w.withdrawn[s.Seq] = true
			continue
		}
		before[s.start()] = &process{job: s.Job}
	}
	for _, c := range w.clients {
		c.gone = true
	}
	w.configure()
	w.b = New(w.config)
	w.claim, w.manual, w.turn, w.start, w.shown, w.asking, w.renewed = nil, nil, nil, nil, nil, nil, nil
	w.looks, w.stopped, w.wishes = nil, false, nil
	clear(w.process)
	clear(w.clients)
	clear(w.paused)
	clear(w.unable)
	clear(w.skips)
	for _, old := range w.state.Unfinished() {
		w.former[old.ID] = true
		w.orphans[old.ID] = w.orphans[old.ID] || !lived
		p := before[start{old.ID, old.Token, old.Attempt}]
		switch {
		case !w.orphans[old.ID]:
			w.takeUp(old, p, true)
		case p != nil && p.ended == nil && old.Status == journal.StatusRunning && rapid.Bool().Draw(w.T, "outlives its runner"):
			p.stray = true
			w.takeUp(old, p, false)
		default:
			w.takeUp(old, nil, false)
		}
	}
	return true
}

// configure has the next start serve what this one does, or one target less, or one more.
func (w *world) configure() {
	targets := make(map[string]int)
	for name, t := range w.b.targets {
		targets[name] = t.concurrency
	}
	switch name := w.target(); {
	case rapid.IntRange(0, 2).Draw(w.T, "others are served at 0") > 0:
	case targets[name] > 0:
		delete(targets, name)
	default:
		targets[name], w.limit[name] = 1, 1
	}
	w.config.Targets = targets
}

// takeUp goes on with a job of the worker that was killed.
func (w *world) takeUp(old journal.Job, p *process, lived bool) {
	if request := old.Executor == "http"; p == nil || request || old.Status == journal.StatusAccepted {
		w.after(w.b.TakeUp(old, lived || request))
		return
	}
	p.job = w.b.Adopt(old, p)
	if p.ended != nil {
		w.after(w.b.Ended(p.job, p.started(), *p.ended))
		return
	}
	w.process[p.job] = p
	if p.begun {
		w.after(w.b.Began(p.job, p.started(), w.now))
	}
}

// commit makes the rows of a claim what it decided.
func (w *world) commit(c *Claim) {
	for _, e := range c.Events {
		row := w.rows[e.Job]
		switch p := e.Payload.(type) {
		case journal.Accepted:
			row.Status, row.Owner = journal.RowAccepted, p.Token
			row = plansAt(row, p.PlannedAt)
		case journal.Running:
			row = starts(row, p)
		case journal.Planned:
			row = comesBack(row, &p.To)
		case journal.Ignored:
			row.Status = journal.RowIgnored
		}
		w.rows[e.Job] = row
	}
}

// What the model has found once: the shortest order of events in which it did. What an order leaves
// open is drawn, and must not matter.

// replay runs an order of events in a world with some rows, and lets it come to its end.
func replay(t *testing.T, rows []journal.Row, order func(w *world)) {
	t.Helper()
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.config.Requeue, w.config.Timing.Terms = false, map[string]Terms{}
		w.b = New(w.config)
		for _, row := range rows {
			w.put(row)
		}
		order(w)
		w.quiesce()
	})
}

func waiting(id int64, target string, mostAttempts int64) journal.Row {
	return journal.Row{Job: id, Target: target, Status: journal.RowWaiting, Plan: &journal.Plan{MaxAttempts: mostAttempts}}
}

var won = rapid.Just("won")

// Nobody changes a row between a claim's decision and its COMMIT. A model that lets somebody do so
// has a row that should start once come back after its first start, as the claim had read it.
func TestFoundARowThatWasResetUnderAClaim(t *testing.T) {
	replay(t, []journal.Row{waiting(1, "b", 2), waiting(2, "a", 0)}, func(w *world) {
		w.beginClaim(rapid.Just(true))
		if w.reset(1) {
			w.put(waiting(1, "a", 0))
		}
		w.endClaim(won)
		w.startOne()
		w.answerOne(rapid.Just(2))
		w.beginTurn()
		w.now = w.now.Add(time.Minute) // until the next start is due
	})
}

// A target that is removed while claims of a former run are in doubt, and added again while a job of
// that run holds a slot, has one less for others.
func TestFoundATargetThatWasAddedWhileAFormerJobHeldASlot(t *testing.T) {
	replay(t, []journal.Row{waiting(1, "b", 0), waiting(2, "b", 0), waiting(3, "b", 0)}, func(w *world) {
		w.beginClaim(rapid.Just(true))
		w.endClaim(won)
		w.crash(false)
		w.removeOrAdd("b") // which is empty
		w.put(waiting(2, "b", 0))
		w.judge()
		w.removeOrAdd("b") // is served again
		w.check()
		w.setConcurrency("b", 2)
		w.beginClaim(rapid.Just(true))
		w.check()
		w.setConcurrency("b", 1)
		w.check()
		w.beginTurn()
		w.check()
	})
}

// When a job ended is told apart from its event only where the clock was set back while it ran: the
// event would be earlier than the end that its start and its duration tell.
func TestFinishedIsToldWhereTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	now := time.Now()
	const hour = int64(time.Hour / time.Microsecond)
	for _, test := range []struct {
		name    string
		began   time.Time
		elapsed int64
		want    time.Time // zero: the event's own time counts
	}{
		{"the clock goes on", now.Add(-time.Hour), hour, time.Time{}},
		{"the clock was set forward", now.Add(-3 * time.Hour), hour, time.Time{}},
		{"by less than the slack back", now.Add(-time.Hour + clockSlack/2), hour, time.Time{}},
		{"by more than the slack back", now.Add(-time.Hour + 2*clockSlack + time.Minute), hour, now.Add(2*clockSlack + time.Minute)},
		{"behind the start", now.Add(time.Hour), hour, now.Add(2 * time.Hour)},
		{"a short job, before it began", now.Add(time.Hour), 1, now.Add(time.Hour + time.Microsecond)},
		{"how long it ran is not known", now.Add(time.Hour), 0, time.Time{}},
		{"when it began is not known", time.Time{}, hour, time.Time{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			want := int64(0)
			if !test.want.IsZero() {
				want = test.want.UnixMicro()
			}
			if got := finished(test.began, test.elapsed, now); got < want-1 || got > want+1 { // the nanoseconds are cut off
				t.Errorf("%d, want %d", got, want)
			}
		})
	}
}

// wish is a cancel that was told to the board, which has to be handed back.
type wish struct {
	job  *Job
	to   chan Cancel
	runs bool // its process was there when it was told
}

// cancelOne cancels any job, whatever its phase is. One of which nothing can be said yet is let
// alone: its canceller asks again.
func (w *world) cancelOne() bool {
	if len(w.b.jobs) == 0 {
		return false
	}
	j := w.b.jobs[rapid.SampledFrom(slices.Sorted(maps.Keys(w.b.jobs))).Draw(w.T, "cancelled")]
	grace := time.Duration(rapid.IntRange(0, 2).Draw(w.T, "grace")) * time.Minute
	one := &wish{job: j, to: make(chan Cancel, 1), runs: j.phase == Running}
	taken, e := w.b.Cancel(Cancel{Job: j, By: "me", Grace: grace, Schedule: rapid.Bool().Draw(w.T, "with its schedule"), To: one.to})
	w.after(e)
	if taken {
		w.wishes = append(w.wishes, one)
	}
	return true
}

// checkCancelled checks what is about to be journalled against the wishes that are in the journal:
// what was cancelled before it ran is over, and what ran is not started again, and has failed.
func (w *world) checkCancelled(e journal.Event) {
	before := w.state.Job(e.Job)
	switch p := e.Payload.(type) {
	case journal.Cancelled:
		if asked := w.startsAsked(e.Job, p.Token); !p.Runs && asked {
			w.Fatalf("job %d was started, and is cancelled as if it were not", e.Job)
		} else if p.Runs && !asked && before.Executor != "http" && !before.Status.Ended() && before.Attempt <= First(claimOf(before)) && !w.former[e.Job] {
			w.Fatalf("job %d was not started, and is cancelled as if it ran", e.Job)
		}
	case journal.Running:
		if before.Cancelled != nil {
			w.Fatalf("job %d is started once more, attempt %d, though it was cancelled", e.Job, p.Attempt)
		}
	case journal.Done:
		if before.Cancelled != nil && (p.Result != "fail" || !strings.HasPrefix(p.Reason, "cancelled by me")) {
			w.Fatalf("job %d was cancelled, and ends as %+v", e.Job, p)
		}
	}
}

// startsAsked tells whether the runner was asked for a start of a claim.
func (w *world) startsAsked(id int64, token string) bool {
	return slices.ContainsFunc(w.events, func(e journal.Event) bool {
		p, is := e.Payload.(journal.Running)
		return is && e.Job == id && p.Token == token && w.asked[e.Seq] && !w.withdrawn[e.Seq]
	})
}

// announcedOf is the newest event that announces a start of a job.
func (w *world) announcedOf(id int64) (seq uint64) {
	for _, e := range w.events {
		if e.Job == id && e.Kind() == journal.KindRunning {
			seq = e.Seq
		}
	}
	return seq
}

// checkWishes checks, when everything has come to its end, that nobody waits in vain, and that each
// was told what is so.
func (w *world) checkWishes() {
	for _, one := range w.wishes {
		var c Cancel
		select {
		case c = <-one.to:
		default:
			w.Fatalf("who cancelled job %d waits for ever", one.job.id)
		}
		token := one.job.claim.Token
		journalled := func(want func(journal.Event) bool) bool {
			return slices.ContainsFunc(w.events, func(e journal.Event) bool { return e.Job == one.job.id && want(e) })
		}
		never := journalled(func(e journal.Event) bool {
			p, is := e.Payload.(journal.Cancelled)
			return is && p.Token == token && !p.Runs
		})
		termed := journalled(func(e journal.Event) bool {
			p, is := e.Payload.(journal.Signal)
			return is && p.By == "me"
		})
		switch {
		case c.Err != nil:
		case c.Did == NotRun && (!never || w.startsAsked(one.job.id, token)):
			w.Fatalf("job %d is told to be cancelled before it ran; journalled so: %t", one.job.id, never)
		case (c.Did == Signals || c.Did == Hurries || c.Did == Already) && (never || !termed || !one.runs):
			w.Fatalf("job %d is told to get signals; journalled as not run: %t, SIGTERM: %t", one.job.id, never, termed)
		}
	}
}
