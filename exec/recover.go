package exec

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// start tells one start of one job from all others.
type start struct {
	job     int64
	token   string
	attempt int
}

// specOf is a start of a former run of the worker, as far as the runner needs to know it.
func specOf(old *journal.Job) Spec {
	return Spec{
		Mode: modeOf(old.Executor), Target: old.Target, Since: old.Running.Time,
		Job: old.ID, Token: old.Token, Attempt: old.Attempt,
		Timeout: time.Duration(old.Timeout) * time.Second, KillAfter: time.Duration(old.KillAfter) * time.Second,
	}
}

// recover takes up the jobs that a former run of the worker did not bring to their end. It needs no
// table, and journals nothing: claims go to the claim loop, which asks the table whether they were
// won; ends go to the turns. doubtful are the rows that were ignored and set back last: the claim loop asks
// those too.
func (w *Worker) recover(doubtful map[int64]journal.Payload) error {
	instance, err := w.runnerName()
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	var unfinished []journal.Job
	w.Recorder.View(func(s *journal.State) { unfinished = s.Unfinished() })
	underWay := make([]Spec, len(unfinished))
	for i := range unfinished {
		underWay[i] = specOf(&unfinished[i])
	}
	recalled := make(map[start]Process)
	for _, r := range w.Keeper.Recall(underWay) {
		recalled[start{r.Job, r.Token, r.Attempt}] = r.Process
	}
	for _, old := range unfinished {
		key := start{old.ID, old.Token, old.Attempt}
		w.change(func(b *board.Board) board.Effects { return w.takeUp(b, old, recalled[key], instance) })
		delete(recalled, key)
	}
	w.change(func(b *board.Board) board.Effects {
		for id, of := range doubtful {
			b.DoubtFormer(id, of, false)
		}
		return board.Effects{}
	})
	for key, process := range recalled {
		w.others.Go(func() { w.abandon(key, process) })
	}
	return nil
}

// abandon has the runner forget a start that the journal does not wait for: its outcome was
// journalled before the worker was killed, and only the runner was not told.
func (w *Worker) abandon(key start, process Process) {
	select {
	case <-process.Ended():
		w.Keeper.Forget(key.job, key.token, key.attempt)
	case <-w.turned: // the next start is told of it again
	}
}

// takeUp goes on with one job. process is what the runner has of its newest start, nil where it has
// nothing. A request whose connection is not journalled was never sent. Where the runner has nothing
// of it, a process was never started if the runner is still the one that was announced, or if that one
// ended by itself. Callers must hold w.mu.
func (w *Worker) takeUp(b *board.Board, old journal.Job, process Process, instance string) board.Effects {
	requests := Mode(old.Executor).Requests()
	if process == nil && !requests && old.Status == journal.StatusRunning && old.Process != nil {
		if stray, alive := w.Runner.Adopt(specOf(&old), *old.Process); alive {
			process = stray
		}
	}
	if process != nil && old.Status != journal.StatusAccepted {
		return w.adopt(b, old, process)
	}
	never := requests || old.Runner == instance && instance != "" || w.Keeper.Ended(old.Runner)
	return b.TakeUp(old, never)
}

// adopt goes on with a process that a former worker had started; it holds a slot like any other.
// Callers must hold w.mu.
func (w *Worker) adopt(b *board.Board, old journal.Job, process Process) board.Effects {
	pid := 0 // it waits for a pool process
	if IsClosed(process.Begun()) {
		pid = process.Started().Pid
	}
	w.Logger.Info("a job survived the worker restart", "job", old.ID, "target", old.Target, "pid", pid)
	j := b.Adopt(old, process)
	if old.Cancelled != nil {
		w.killLater(j, process, *old.Cancelled)
	}
	w.others.Go(func() {
		for i, news := range []<-chan struct{}{process.Begun(), process.Ended()} {
			select {
			case <-news:
				w.hear(News{Job: old.ID, Token: old.Token, Attempt: old.Attempt, Ended: i == 1})
			case <-w.turned:
				return
			}
		}
	})
	return look(b, j)
}

// After each start and each outage the worker looks for rows under way of which its journal knows
// nothing. They bear its worker id, which no other living worker has, and a token that the journal does
// not hold as live: the journal was lost, or is an older copy, or the table is one. Nobody knows whether
// those jobs ran, so their outcome is unknown.
//
// Such a row may only be behind. The worker leaves it to the mirror that still owes it something, and
// looks again.
//
// Rows of our targets that bear no token are unowned: something else left them, the original jobd for
// one. The worker counts them and leaves them alone.
//
// A worker with a new journal finds rows that bear the worker id which it would have chosen. They may be
// its own, of a journal that was lost; or those of a worker whose name has the same hash, or the same
// name, and which is down, or lives and can't reach the table at the moment. Nobody can tell them apart.
// So the worker takes another id, and leaves these rows alone until nobody has held their worker id for
// Config.LostAfter. A worker that comes back in that time holds it again.

const (
	firstSurvey  = 100 * time.Millisecond // until the next look, where the mirror owes a row something
	longSurvey   = time.Minute
	rowMissing   = 10 * time.Second // until a look for a row that was missing when its job should start
	lostTogether = 100              // rows that one look locks, and one append
)

// How often the worker looks whether somebody holds other worker ids: each quarter of Config.LostAfter,
// within these bounds.
const (
	oftenFree = 100 * time.Millisecond
	rareFree  = 30 * time.Second
)

// takeSurvey takes the look that is due, if any. Its error concerns everything; any other error only puts
// the look off.
func (w *Worker) takeSurvey(ctx context.Context) error {
	w.mu.Lock()
	due := w.survey.Passed(time.Now())
	w.mu.Unlock()
	if !due {
		return nil
	}
	again, err := w.lookForLost(ctx)
	if concernsAll(ctx, err) {
		return err
	}
	if err != nil {
		w.Logger.Warn("unowned rows could not be looked for; trying again", "error", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	planned := w.survey.Due // by whoever wants a look meanwhile
	if again || err != nil {
		w.survey.Grow(time.Now(), firstSurvey, longSurvey)
	} else {
		w.survey = board.Backoff{}
	}
	if !planned.IsZero() && (w.survey.Due.IsZero() || planned.Before(w.survey.Due)) {
		w.survey.Due = planned
	}
	return nil
}

// lookForLost looks for lost rows: with the worker's own id, and with ids of its name that it has passed
// by and nobody holds. It tells whether some may turn out to be lost later.
func (w *Worker) lookForLost(ctx context.Context) (again bool, err error) {
	w.mu.Lock()
	ours, names := w.identity.workerID, w.fitNames()
	w.mu.Unlock()
	var upTo uint64
	unowned := 0
	candidates := make(map[int64]string) // tokens of rows that may be lost
	for _, workerID := range append(workerIDsBefore(w.Name, ours), ours) {
		var targets []string // whose rows without an owner are counted
		if workerID == ours {
			targets = names
		}
		rows, err := w.Table.UnderWay(ctx, "@"+workerID, targets)
		if err != nil {
			return false, err
		}
		unknown := make(map[int64]string)
		w.Recorder.View(func(state *journal.State) {
			upTo = state.Seq
			for _, row := range rows {
				if row.Owner == "" {
					unowned++
				} else if !live(state.Job(row.Job), row.Owner) {
					unknown[row.Job] = row.Owner
				}
			}
		})
		free := workerID == ours
		if !free && len(unknown) > 0 {
			if free, err = w.isFree(ctx, workerID, len(unknown)); err != nil {
				return false, err
			}
			if !free {
				w.lookIn(min(max(w.LostAfter/4, oftenFree), rareFree))
			}
		}
		if free {
			maps.Copy(candidates, unknown)
		}
	}
	w.noteUnowned(unowned)
	return w.endLost(ctx, candidates, upTo)
}

// isFree tells whether nobody has held a worker id for so long that rows which bear it are lost. Then it
// takes the id.
func (w *Worker) isFree(ctx context.Context, workerID string, rows int) (bool, error) {
	holder, err := w.Table.Holder(ctx, "mark:"+workerID)
	if err != nil || holder != "" {
		delete(w.claims.free, workerID)
		return false, err
	}
	since, seen := w.claims.free[workerID]
	if !seen {
		since = time.Now()
		w.claims.free[workerID] = since
		w.Logger.Warn("rows claimed under this worker's name are not in its journal: left alone for now",
			"rows", rows, "worker id", workerID, "until unused for", w.LostAfter)
	}
	if time.Since(since) < w.LostAfter {
		return false, nil
	}
	holder, err = w.Table.Hold(ctx, "mark:"+workerID)
	return err == nil && holder == "", err
}

// workerIDsBefore lists the ids of a name that a worker passed by before it took its own.
func workerIDsBefore(name, workerID string) (before []string) {
	for n := range mostWorkerIDs {
		one := workerIDOf(name, n)
		if one == workerID {
			return before
		}
		before = append(before, one)
	}
	return nil // the journal's id is of another name
}

// live tells whether the journal holds a claim as under way.
func live(known journal.Job, token string) bool {
	return !known.Status.Ended() && known.Token == token
}

func (w *Worker) noteUnowned(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n > 0 && n != w.unowned {
		w.Logger.Warn("rows of our targets are accepted or running and belong to no worker; they are left alone", "rows", n)
	}
	w.unowned = n
}

// endLost ends the jobs of those rows that are as they were found, though the mirror owes them nothing up
// to an event that is newer than that. It locks the rows for one moment, on the server that claims are
// made on, and only while the worker holds its id. It tells whether some are locked, or owed something.
func (w *Worker) endLost(ctx context.Context, tokens map[int64]string, upTo uint64) (again bool, err error) {
	if len(tokens) == 0 {
		return false, nil
	}
	if err := w.Identify(ctx); err != nil {
		return false, err
	}
	var behind []int64
	ids := slices.Sorted(maps.Keys(tokens))
	shown := slices.DeleteFunc(slices.Clone(ids), func(id int64) bool { return !IsClosed(w.Mirror.Shown(upTo, id)) })
	again = len(shown) < len(ids)
	for group := range slices.Chunk(shown, lostTogether) {
		var lost []journal.Row
		locked, err := w.Table.ClaimManual(ctx, group, nil, func(rows []journal.Row) ([]journal.Event, error) {
			lost = slices.Clone(rows)
			return nil, nil
		})
		if err != nil {
			return false, err
		}
		again = again || len(locked) > 0
		lost = slices.DeleteFunc(lost, func(row journal.Row) bool { return !board.UnderWay(row) || row.Owner != tokens[row.Job] })
		older, err := w.takeUpLost(ctx, lost)
		if err != nil {
			return false, err
		}
		behind = append(behind, older...)
	}
	if !again { // else the next look knows of more
		w.tellBehind(behind)
	}
	return again, nil
}

// someNamed is how many rows a message names of those that it counts.
const someNamed = 8

// tellBehind tells, once for all of them and not again at the next look, of rows that say less than the
// journal knows of their jobs, as after a restore of the table in place.
func (w *Worker) tellBehind(ids []int64) {
	slices.Sort(ids)
	told := w.claims.behind
	w.claims.behind = ids
	if slices.ContainsFunc(ids, func(id int64) bool { return !slices.Contains(told, id) }) {
		w.Logger.Error("rows show less than the journal knows of their jobs, and are left as they are",
			"rows", len(ids), "some", ids[:min(len(ids), someNamed)],
			"remedy", "jobctl journal diff lists them; jobctl journal reapply mends them, after showing what it would do")
	}
}

// takeUpLost journals jobs of which the journal knows nothing, and ends them like all whose outcome
// is unknown. It gives the rows that are behind the journal.
func (w *Worker) takeUpLost(ctx context.Context, rows []journal.Row) (behind []int64, err error) {
	var lost []journal.Row
	for _, row := range rows {
		switch known, unstarted := w.Knows(ctx, row.Job, row.Owner); {
		case unstarted != nil:
			if err := w.takeUpAgain(row, *unstarted); err != nil {
				return nil, err
			}
		case known:
			behind = append(behind, row.Job)
		default:
			lost = append(lost, row)
		}
	}
	if len(lost) > 0 {
		w.Logger.Error("rows carry this worker's id and a claim that its journal does not know: their outcome is unknown",
			"rows", len(lost), "journal is new", w.fresh, "requeue", w.Requeue)
	}
	for _, row := range lost {
		claim := lostClaim(row)
		_, err := w.append(
			journal.Draft{Job: row.Job, Payload: claim},
			journal.Draft{Job: row.Job, Payload: journal.Running{Attempt: board.First(claim), Token: row.Owner}},
		)
		switch {
		case err == nil:
			w.change(func(b *board.Board) board.Effects { return b.LostClaim(row.Job, claim, w.whyLost()) })
		case illegal(err) == nil:
			return nil, err
		} // else it was claimed anew meanwhile
	}
	return behind, nil
}

// lostClaim is the claim that a row tells of. What the row said about time before is known from what
// it says now: with its start the row got the number of the attempt, so that a recurring one goes on.
// One that recurs and has no planned start was run by hand.
func lostClaim(row journal.Row) journal.Accepted {
	claim := journal.Accepted{Target: row.Target, Token: row.Owner}
	if row.Plan != nil {
		plan := *row.Plan
		if row.Status == journal.RowRunning {
			plan.Attempts--
		}
		plan.Attempts = max(plan.Attempts, 0)
		claim.Plan, claim.PlannedAt = &plan, plan.PlannedAt
		claim.Manual = plan.Schedule != "" && plan.PlannedAt == 0
	}
	return claim
}

// whyLost is why the journal does not know a claim of this worker.
func (w *Worker) whyLost() string {
	if w.fresh {
		return "the claim's journal was lost"
	}
	return "the journal does not know its claim"
}

// takeUpAgain goes on with a claim that was given up, and never started: its row was not there then, as
// while the table was another one. It is as one of a former run: the table is asked whether it holds.
func (w *Worker) takeUpAgain(row journal.Row, claim journal.Accepted) error {
	w.Logger.Warn("a row that was missing is back with its claim: its job goes on",
		"job", row.Job, "target", row.Target)
	_, err := w.append(journal.Draft{Job: row.Job, Payload: claim})
	if illegal(err) != nil { // it was claimed anew meanwhile
		return nil
	}
	if err == nil {
		w.change(func(b *board.Board) board.Effects {
			b.DoubtFormer(row.Job, claim, false)
			return board.Effects{Wake: true}
		})
	}
	return err
}

// lookAgain plans a look for rows with this worker's id: a row was missing when its job should start, or
// when its claim was in doubt, and may come back.
func (w *Worker) lookAgain() { w.lookIn(rowMissing) }

// lookIn plans a look for rows of this worker after a time, or sooner.
func (w *Worker) lookIn(after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at := time.Now().Add(after); w.survey.Due.IsZero() || at.Before(w.survey.Due) {
		w.survey.Due = at
		w.wake()
	}
}
