package board

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"jobd/journal"
	"jobd/store/storetest/must"
)

// world is everything around a board: a table, a journal that folds by the real rules, a runner,
// clients; and the books that the model keeps of its own.
type world struct {
	*rapid.T
	b      *Board
	now    time.Time
	state  journal.State
	events []journal.Event
	full   bool // the disk is: appends are refused

	rows     map[int64]journal.Row
	tokens   int
	claim    *Claim // between its decision and the end of its COMMIT
	manual   *Claim // the same, of one that a client wants: there may be both at a time
	turn     *Turn  // between being made and being journalled
	start    []Start
	shown    []Start // announced, and not shown by their rows yet
	asking   []Start
	renewed  []Renewal
	process  map[*Job]*process
	signals  map[chan error]int64
	clients  map[int64]*client
	looks    []*Starter
	stopped  bool
	paused   map[string]bool
	unable   map[string]bool // targets whose executor can start nothing
	limit    map[string]int  // most slots of a target that may be in use
	asked    map[uint64]bool // announcements whose start was asked for
	finished map[int64]uint64
	skips    map[int64]string
	former   map[int64]bool // jobs that a worker before this one has begun
	wishes   []*wish
	// announcements whose start was asked for, and did not happen
	withdrawn map[uint64]bool
	orphans   map[int64]bool     // jobs whose newest announcement is for a runner that was killed
	kept      map[start]*process // that have ended, and the runner keeps

	once map[start]uint64 // the announcement of each start that was asked for

	config Config
	times  times
}

type client struct{ told, gone bool }

const instance = "runner-1"

func newWorld(t *rapid.T) *world {
	w := &world{
		T: t, now: time.Unix(1_000_000, 0).UTC(), rows: make(map[int64]journal.Row),
		process: make(map[*Job]*process), signals: make(map[chan error]int64), clients: make(map[int64]*client),
		paused: make(map[string]bool), unable: make(map[string]bool), limit: map[string]int{"a": 2, "b": 1}, asked: make(map[uint64]bool),
		finished: make(map[int64]uint64), skips: make(map[int64]string), former: make(map[int64]bool), withdrawn: make(map[uint64]bool), orphans: make(map[int64]bool), kept: make(map[start]*process), once: make(map[start]uint64),
	}
	w.config = Config{
		Targets: maps.Clone(w.limit), Requeue: rapid.Bool().Draw(t, "requeue"), MaxAttempts: 2, Again: true,
		Timing: Timing{
			SkipMissed: rapid.Bool().Draw(t, "skip missed"),
			Terms: map[string]Terms{
				"a": {Attempts: rapid.IntRange(0, 3).Draw(t, "attempts"), First: 20 * time.Second, Most: time.Minute},
				"b": {Own: true, Executor: executors.Draw(t, "executor")},
			},
		},
	}
	w.times = times{started: make(map[run]uint64), hands: make(map[int64]bool), generation: make(map[int64]int)}
	w.b = New(w.config)
	return w
}

// append journals drafts as the journal would: all of them or none.
func (w *world) append(drafts ...journal.Draft) ([]journal.Event, error) {
	if w.full {
		return nil, journal.ErrFull
	}
	before := w.state
	before.Jobs = maps.Clone(w.state.Jobs)
	var events []journal.Event
	for _, d := range drafts {
		e := journal.Event{Seq: w.state.Seq + 1, Time: w.now, Job: d.Job, Payload: d.Payload}
		w.checkCancelled(e)
		w.checkTime(e)
		if err := w.state.Apply(e); err != nil {
			w.state = before
			return nil, err
		}
		events = append(events, e)
	}
	w.events = append(w.events, events...)
	for _, e := range events {
		if e.Kind() == journal.KindRunning || e.Kind() == journal.KindAccepted {
			delete(w.orphans, e.Job)
		}
		w.mirror(e)
	}
	return events, nil
}

// mirror brings a row up to date with an event, where it bears the claim.
func (w *world) mirror(e journal.Event) {
	row := w.rows[e.Job]
	switch p := e.Payload.(type) {
	case journal.Done:
		w.finished[e.Job] = e.Seq
		delete(w.former, e.Job)
		if row.Owner == p.Token {
			row.Status, row.Owner = journal.RowDone, ""
			row = comesBack(row, p.Again)
		}
	case journal.Running:
		if row.Owner == p.Token {
			row = starts(row, p)
		}
	case journal.Cancelled:
		if !p.Runs {
			delete(w.former, e.Job)
			if row.Owner == p.Token {
				row.Status, row.Owner = journal.RowIgnored, ""
			}
		}
	case journal.Released:
		delete(w.former, e.Job)
		if row.Owner == p.Token {
			row.Status, row.Owner = cmp.Or(p.From, journal.RowWaiting), ""
			row.Plan = p.Plan
		}
	}
	w.rows[e.Job] = row
}

// after takes in effects, and checks what can be checked of them.
func (w *world) after(e Effects) {
	w.looks = append(w.looks, e.Look...)
	for _, name := range e.Poll {
		maps.DeleteFunc(w.skips, func(id int64, target string) bool { return target == name && !w.b.Holds(id) })
	}
	for _, s := range e.Forget {
		if w.finished[s.id] == 0 {
			w.Fatalf("the runner is to forget job %d, whose end is not journalled", s.id)
		}
		delete(w.kept, s.start())
	}
	for _, a := range e.Told {
		if a.End == nil {
			a.Client.(*client).told = true
			continue
		}
		if seq := w.finished[a.End.Job]; seq != a.End.Seq {
			w.Fatalf("job %d is answered with event %d; its end is event %d", a.End.Job, a.End.Seq, seq)
		}
		a.Client.(*client).told = true
	}
	w.afterHeld(e)
	for _, c := range e.Cancelled {
		c.To <- c
	}
	for _, s := range e.Signalled {
		s.To <- s.Err
	}
	for _, s := range e.Start {
		announced := w.events[s.Seq-1]
		running, is := announced.Payload.(journal.Running)
		if !is || announced.Job != s.id || running.Attempt != s.attempt || running.Runner != s.runner || s.runner != instance {
			w.Fatalf("job %d is to be started, attempt %d by %q; event %d is %+v", s.id, s.attempt, s.runner, s.Seq, announced)
		}
	}
	for _, s := range e.Start {
		if s.Claimed {
			w.start = append(w.start, s)
		} else {
			w.shown = append(w.shown, s)
		}
	}
	w.renewed = append(w.renewed, e.Renewed...)
}

// holders are the phases in which a job is about to be started, or its process may live.
var holders = []Phase{Reserved, Due, Announcing, Announced, Asking, Asked, Running, Ended, Renewing}

// check compares the board with itself and with the model's books.
func (w *world) check() {
	slots := 0
	former, active, in := make(map[string]int), make(map[*Target]int), make(map[*Target][phaseCount]int)
	for id, j := range w.b.jobs {
		must.Equal(w, id, j.id, "job … is on the board as job")
		counts := in[j.target]
		counts[j.phase]++
		in[j.target] = counts
		held := one(slices.Contains(holders, j.phase))
		slots, active[j.target] = slots+held, active[j.target]+held
		former[j.target.name] += held * one(w.former[id])
	}
	must.Equal(w, slots, w.b.slots, "slots; counted")
	for name, t := range w.b.targets {
		counted := t.in
		counted[unborn], counted[Gone] = 0, 0
		if active[t] != t.active || in[t] != counted || len(t.queue) != t.in[Queued] {
			w.Fatalf("target %s: %d slots in use, jobs %v, queue %d; counted %d, %v", name, active[t], in[t], len(t.queue), t.active, counted)
		}
		ours := t.active - former[name]
		w.limit[name] = max(t.concurrency, min(w.limit[name], ours))
		if ours > w.limit[name] {
			w.Fatalf("target %s: %d slots in use of %d", name, t.active, w.limit[name])
		}
	}
	if live := len(w.process); live > slots {
		w.Fatalf("%d processes live in %d slots", live, slots)
	}
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// quiesce lets everything come to its end, with nothing in its way, and checks that it does.
func (w *world) quiesce() {
	w.full, w.times.until = false, w.now.Unix()
	for name := range w.paused {
		delete(w.paused, name)
		if t := w.b.Target(name); t != nil {
			w.after(w.b.Continue([]*Target{t}))
		}
	}
	for name := range w.unable {
		w.setUnable(name, false)
	}
	for range 1000 {
		w.b.Seen(w.state.Seq)
		if !w.step() {
			break
		}
		w.check()
	}
	w.check()
	for id, j := range w.b.jobs {
		if !w.stopped || j.mayLeave() || j.phase != Queued {
			w.Fatalf("job %d is %s for ever", id, j.phase)
		}
	}
	for _, j := range w.state.Unfinished() {
		if !w.stopped || j.Status == journal.StatusAccepted {
			w.Fatalf("the journal has job %d as %s for ever", j.ID, j.Status)
		}
	}
	if n := len(w.b.doubts) + len(w.b.skipped) + len(w.skips); n != 0 && !w.stopped {
		w.Fatalf("%d claims in doubt, %d rows passed over, %v not looked at again", len(w.b.doubts), len(w.b.skipped), w.skips)
	}
	w.checkWishes()
	w.checkRows()
	for id, c := range w.clients {
		if !c.told && !c.gone && !w.stopped {
			w.Fatalf("the client of job %d waits for ever", id)
		}
	}
}

// step does one thing that is due, and is false where none is.
func (w *world) step() bool {
	steps := []func() bool{
		func() bool { return w.endClaim(commits) },
		w.endTurn, w.beginTurn, w.startOne,
		func() bool { return w.showOne(rapid.Just(false)) },
		func() bool { return w.answerOne(rapid.Just(0)) },
		func() bool { return w.endOne(rapid.Just(Over)) },
		func() bool { return w.endLook(rapid.Just[error](nil)) },
		w.renewOne, w.beginLook, w.judge, w.claimAll,
	}
	w.now = w.now.Add(time.Minute)
	return slices.ContainsFunc(steps, func(step func() bool) bool { return step() })
}

func (w *world) token() string {
	w.tokens++
	return fmt.Sprintf("@mark%05d", w.tokens)
}
