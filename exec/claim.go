package exec

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// round is one claim: for all targets that have room, or for one whose claims have failed, or which
// is swept.
type round struct {
	room   map[string]int
	asked  map[string]int // the poll that the claim answers
	except []int64
	behind int64 // only rows behind this one
	atEnd  bool  // of the sweep before: a look at new rows
}

// claim claims once; more tells whether there was room. Nothing is claimed while the mirror can't
// write, even where claims could be made: with LaunchOffline the table would be owed ever more.
// When the mirror is back the worker polls.
func (w *Worker) claim(ctx context.Context) (more bool, err error) {
	if isClosed(w.Mirror.Away()) {
		w.claims.away = true
		return false, nil
	}
	if w.claims.away {
		w.claims.away = false
		w.renew()
		return true, nil
	}
	w.seen(w.Mirror.Reached())
	var r round
	works(w.ClaimPulse, func() { r = w.nextRound() })
	w.probeRoom(r.room)
	if len(r.room) == 0 {
		return false, nil
	}
	if err := w.Disk.Check(); err != nil {
		return false, err
	}
	c := claiming{worker: w, seen: make(map[string]int)}
	asked := time.Now()
	err = w.ask(ctx, r, c.decide)
	w.Observer.Claimed(time.Since(asked), err)
	if err != nil {
		return true, w.claimFailed(ctx, r, &c, err)
	}
	w.won(&c.Claim)
	return true, w.lookFor(ctx, w.claimSucceeded(r, &c))
}

// ask asks the table for rows.
func (w *Worker) ask(ctx context.Context, r round, decide func([]journal.Row) ([]journal.Event, error)) error {
	if r.behind == 0 {
		return w.Table.Claim(ctx, r.room, r.except, decide)
	}
	for name, room := range r.room { // it is one
		return w.Table.ClaimBehind(ctx, name, r.behind, room, r.except, decide)
	}
	return nil
}

// nextRound tells how much to claim for which targets. Those whose claims have failed, or which are
// swept, are claimed for one by one, in turns with all others.
func (w *Worker) nextRound() round {
	w.mu.Lock()
	defer w.mu.Unlock()
	healthy, suspects, now := make(map[string]int), make(map[string]int), time.Now()
	for name, t := range w.targets {
		t.bucket.set(w.terms[name].Rate, now)
		if n := t.room(w.Prefetch, now); n > 0 && (t.trouble.suspected() || t.sweep.swept()) {
			suspects[name] = n
		} else if n > 0 {
			healthy[name] = n
		}
	}
	r := round{room: healthy, asked: make(map[string]int)}
	if w.claims.suspect = len(suspects) > 0 && (len(healthy) == 0 || !w.claims.suspect); w.claims.suspect {
		names := slices.SortedFunc(maps.Keys(suspects), func(a, b string) int { return w.targets[a].trouble.failed - w.targets[b].trouble.failed })
		r.room = map[string]int{names[0]: suspects[names[0]]}
		r.behind, r.atEnd = w.targets[names[0]].sweep.next()
	}
	w.limit(r.room)
	for name := range r.room {
		r.asked[name] = w.targets[name].polls
	}
	r.except = w.except(r.room)
	return r
}

// limit shares the fetch limit among the targets evenly.
func (w *Worker) limit(room map[string]int) {
	left := w.FetchLimit
	if left <= 0 {
		return
	}
	names := slices.SortedFunc(maps.Keys(room), func(a, b string) int { return room[a] - room[b] })
	for i, name := range names {
		room[name] = min(room[name], max(left/(len(names)-i), 1))
		if left -= room[name]; left < 0 {
			delete(room, name)
		}
	}
}

// except lists the rows of targets that are not to be claimed: set aside, in doubt, or waiting
// while their job is still under way here. Callers must hold w.mu.
func (w *Worker) except(room map[string]int) (ids []int64) {
	ids = w.board.Skipped(func(target string) bool { _, asked := room[target]; return asked })
	for id, a := range w.asides {
		if _, asked := room[a.target]; asked && !a.trusted {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// claimSucceeded notes what a claim has found, and lists the targets for which it came back short.
func (w *Worker) claimSucceeded(r round, c *claiming) (short []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, n := range r.room {
		t, served := w.targets[name]
		if !served {
			continue
		}
		t.trouble.ended()
		if c.seen[name] > 0 {
			t.locked = locked{}
		}
		w.forgetAsides(t)
		if c.seen[name] < n && !r.atEnd {
			t.sweep.ended()
			t.polled = r.asked[name]
			if t.Open() {
				short = append(short, name)
			}
		}
	}
	slices.Sort(short)
	return short
}

// ended notes that a claim for the target has succeeded, or has met refused rows only.
func (t *trouble) ended() {
	*t = trouble{narrow: 2 * t.narrow}
	if t.narrow > wide {
		t.narrow = 0
	}
}

// wide is where a claim is not narrow any more.
const wide = 1000

// claimFailed does what is to follow a claim that failed. It fails where the error concerns
// everything.
func (w *Worker) claimFailed(ctx context.Context, r round, c *claiming, err error) error {
	refused := refusedRows(err)
	w.change(func(b *board.Board) board.Effects { return b.Doubt(&c.Claim, lostReason(err, refused)) })
	if concernsAll(ctx, err) || errors.Is(err, errStopping) {
		return err
	}
	if known := illegal(err); known != nil && known.Job != 0 {
		refused = map[int64]string{known.Job: "the journal holds it as under way: " + known.Error()}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.setAsideAll(c, refused) {
		w.retryOthers(r, c, refused)
		return nil
	}
	for name := range r.room {
		if t, served := w.targets[name]; served {
			w.claimsFail(t, c, len(r.room) == 1, err)
		}
	}
	return nil
}

// lostReason tells why a claim is given up that is known not to have happened: by row; nil where
// that is not known.
func lostReason(err error, refused map[int64]string) func(id int64) string {
	if !undone(err) {
		return nil
	}
	return func(id int64) string {
		if why, at := refused[id]; at {
			return why
		}
		if len(refused) > 0 {
			return "another row of the claim was refused"
		}
		return "another claim was faster"
	}
}

// tooOften is how often a claim of one single row may fail before that row is taken to be at fault.
const tooOften = 6

// claimsFail has a target rest, ever longer, and claim ever fewer rows, down to a single one: where
// that fails again and again, that row is set aside. So no error, whatever its number says, holds
// up more than what it is about. Callers must hold w.mu.
func (w *Worker) claimsFail(t *target, c *claiming, alone bool, err error) {
	trouble := &t.trouble
	trouble.failed++
	trouble.rest.Grow(time.Now(), firstRest, longRest)
	if !alone || trouble.failed < 2 {
		return
	}
	if why := "claims fail: " + err.Error(); why != trouble.why {
		trouble.why = why
		level := slog.LevelWarn
		if passing(err) {
			level = slog.LevelDebug
		}
		w.Logger.Log(context.Background(), level, "jobs of a target can't be claimed for now; trying again", "target", t.Name(), "error", err)
	}
	taken := c.jobsOf(t.Name())
	if n := len(taken); n > 0 {
		trouble.narrow = max(n/2, 1)
	}
	if len(taken) == 1 && trouble.failed >= tooOften {
		w.setAside(taken[0], t.Name(), err.Error())
		w.forgetAsides(t)
		trouble.failed, trouble.why, trouble.rest = 0, "", board.Backoff{}
	}
}

// jobsOf lists the rows of a target that a claim was to update: those that it has accepted, planned
// anew or marked as ignored.
func (c *claiming) jobsOf(name string) (ids []int64) {
	targets := make(map[int64]string, len(c.rows))
	for _, row := range c.rows {
		targets[row.Job] = row.Target
	}
	for _, e := range c.Events {
		if e.Kind() != journal.KindRunning && targets[e.Job] == name {
			ids = append(ids, e.Job)
		}
	}
	return ids
}
