package board

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"jobd/journal"
)

// No slot is lost or used twice, nothing starts that is not journalled or must not start, and each
// claim comes to its end, in every order of events, with a full disk at any point.
func TestTheBoardKeepsItsPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for id := range int64(rapid.IntRange(1, 8).Draw(t, "rows")) {
			w.row(id + 1)
		}
		w.beginClaim(rapid.Just(true))
		for range 4 { // of about 30 steps each
			t.Repeat(w.actions())
		}
		w.quiesce()
	})
}

// actions are what may happen next. What can't happen now is skipped, so that each step does
// something.
func (w *world) actions() map[string]func(*rapid.T) {
	able := func(act func() bool) func(*rapid.T) {
		return func(t *rapid.T) {
			if w.T = t; !act() {
				t.SkipNow()
			}
		}
	}
	job := func() int64 { return int64(rapid.IntRange(1, 8).Draw(w.T, "job")) }
	return map[string]func(*rapid.T){
		"":               func(t *rapid.T) { w.T = t; w.check() },
		"row":            able(func() bool { return w.reset(job()) }), // also one that is under way
		"claim":          able(func() bool { return w.beginClaim(rapid.Bool()) }),
		"commit":         able(func() bool { return w.endClaim(commits) }),
		"commit in time": able(func() bool { return w.endClaim(commits) }),
		"run-manual":     able(func() bool { return w.manual == nil && !w.stopped && w.runManual(job()) }),
		"client leaves":  able(w.leave),
		"turn":           able(w.beginTurn),
		"turn ends":      able(w.endTurn),
		"start":          able(w.startOne),
		"row shows it":   able(func() bool { return w.showOne(rapid.Bool()) }),
		"runner":         able(func() bool { return w.answerOne(rapid.SampledFrom([]int{0, 0, 0, 1, 2})) }),
		"renewed":        able(w.renewOne),
		"begins":         able(w.beginOne),
		"ends": able(func() bool {
			return w.endOne(rapid.SampledFrom([]Fate{Over, Over, Unknown, NotAsked, NotStarted, Impossible}))
		}),
		"signal":   able(w.signalOne),
		"seen":     able(func() bool { w.b.Seen(w.state.Seq); return true }),
		"cancel":   able(w.cancelOne),
		"conflict": able(w.conflict),
		"disk":     able(func() bool { w.full = !w.full; return true }),
		"doubts":   able(w.judge),
		"look":     able(w.beginLook),
		"looked": able(func() bool {
			return w.endLook(rapid.SampledFrom([]error{nil, errors.New("no such file")}))
		}),
		"launcher": able(func() bool { w.after(w.b.SetTiming(w.config.Timing)); return true }),
		"late":     able(func() bool { return w.giveBackLate(rapid.Bool()) }),
		"pause":    able(func() bool { return !w.stopped && w.pause(w.target(), rapid.Bool().Draw(w.T, "paused")) }),
		"unable":   able(func() bool { return !w.stopped && w.setUnable(w.target(), rapid.Bool().Draw(w.T, "unable")) }),
		"executor": able(func() bool { w.setExecutor(executors.Draw(w.T, "executor")); return true }),
		"concurrency": able(func() bool {
			return w.setConcurrency(w.target(), rapid.IntRange(1, 3).Draw(w.T, "concurrency"))
		}),
		"remove, add": able(func() bool { return w.removeOrAdd(w.target()) }),
		"crash": able(func() bool {
			return rapid.IntRange(0, 4).Draw(w.T, "crash at 0") > 0 || w.crash(rapid.Bool().Draw(w.T, "runner lives"))
		}),
		"stop": able(w.stop),
	}
}

// row inserts a row that waits, or resets one.
func (w *world) row(id int64) {
	status := rapid.SampledFrom([]string{journal.RowWaiting, journal.RowManual, journal.RowDelayed}).Draw(w.T, "status")
	w.put(journal.Row{Job: id, Target: w.target(), Status: status, Plan: w.plan()})
}

func (w *world) put(row journal.Row) {
	w.rows[row.Job] = row
	w.times.generation[row.Job]++
	w.times.hands[row.Job] = row.Status == journal.RowManual
}

// reset is row by somebody who waits for locks.
func (w *world) reset(id int64) bool {
	if w.locked(id) {
		return false
	}
	w.row(id)
	return true
}

func (w *world) leave() bool {
	for _, id := range slices.Sorted(maps.Keys(w.clients)) {
		w.clients[id].gone = true
		w.b.Leave([]int64{id})
		delete(w.clients, id)
		return true
	}
	return false
}

func (w *world) setConcurrency(name string, concurrency int) bool {
	t := w.b.Target(name)
	if t != nil {
		w.after(w.b.SetConcurrency(t, concurrency))
	}
	return t != nil
}

func (w *world) stop() bool {
	if w.stopped || rapid.IntRange(0, 19).Draw(w.T, "stop at 0") > 0 {
		return !w.stopped
	}
	w.stopped = true
	w.after(w.b.Stop())
	return true
}

func (w *world) target() string { return rapid.SampledFrom([]string{"a", "b"}).Draw(w.T, "target") }

func (w *world) beginLook() bool {
	if len(w.looks) > 0 {
		return false
	}
	w.now = w.now.Add(time.Minute)
	w.after(w.b.LookDue(w.now))
	return len(w.looks) > 0
}

func (w *world) endLook(shows *rapid.Generator[error]) bool {
	if len(w.looks) == 0 {
		return false
	}
	s := w.looks[0]
	w.looks = w.looks[1:]
	w.after(w.b.Looked(s, shows.Draw(w.T, "shows"), w.now))
	return true
}

func (w *world) pause(name string, paused bool) bool {
	if t := w.b.Target(name); t != nil {
		w.paused[name] = paused
		if paused {
			w.after(w.b.Pause([]*Target{t}, w.now, "somebody"))
		} else {
			w.after(w.b.Continue([]*Target{t}))
		}
	}
	return true
}

// removeOrAdd has a target removed, whatever its jobs do; one that is gone is added again.
func (w *world) removeOrAdd(name string) bool {
	if t := w.b.Target(name); t != nil {
		w.after(w.b.Remove(t))
		return true
	}
	w.b.Add(name, 1)
	w.paused[name], w.unable[name] = false, false
	return true
}

// claimAll claims what waits, in the end, until nothing does.
func (w *world) claimAll() bool {
	for id, row := range w.rows {
		if w.b.Target(row.Target) == nil || w.stopped {
			delete(w.rows, id)
		}
	}
	return w.beginClaim(rapid.Just(true))
}
