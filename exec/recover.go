package exec

import (
	"fmt"

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
		Mode: modeOf(old.Executor), Target: old.Target, Since: old.Running,
		Job: old.ID, Token: old.Token, Attempt: old.Attempt, Timeout: old.Timeout, KillAfter: old.KillAfter,
	}
}

// recover takes up the jobs that a former run of the worker did not bring to their end. It needs no
// table, and journals nothing: claims go to the claim loop, which asks the table whether they were
// won; ends go to the turns. ignored and retried are the rows that were ignored and set back last: the
// claim loop asks those too.
func (w *Worker) recover(ignored []int64, retried map[int64]journal.Retried) error {
	instance, err := w.Keeper.Instance()
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	unfinished := w.unfinished()
	underWay := make([]Spec, len(unfinished))
	for i := range unfinished {
		underWay[i] = specOf(&unfinished[i])
	}
	recalled := make(map[start]Process)
	for _, r := range w.Keeper.Recall(underWay) {
		recalled[start{r.Job, r.Token, r.Attempt}] = r.Process
	}
	w.sweep(unfinished, recalled)
	for _, old := range unfinished {
		key := start{old.ID, old.Token, old.Attempt}
		w.change(func(b *board.Board) board.Effects { return w.takeUp(b, old, recalled[key], instance) })
		delete(recalled, key)
	}
	w.change(func(b *board.Board) board.Effects {
		for _, id := range ignored {
			b.DoubtIgnored(id)
		}
		for id, of := range retried {
			b.DoubtRetried(id, of)
		}
		return board.Effects{}
	})
	for key, process := range recalled {
		w.others.Go(func() { w.abandon(key, process) })
	}
	return nil
}

// sweep has the output removed that is on disk of starts that are neither to be ended by this run
// nor the runner's still.
func (w *Worker) sweep(unfinished []journal.Job, recalled map[start]Process) {
	newest := make(map[int64]journal.Job, len(unfinished))
	for _, old := range unfinished {
		newest[old.ID] = old
	}
	w.Keeper.Sweep(func(job int64, token string, attempt int) bool {
		old, known := newest[job]
		ours := known && attempt == old.Attempt && (token == old.Token || token == "")
		return ours || recalled[start{job, token, attempt}] != nil
	})
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

func (w *Worker) unfinished() (jobs []journal.Job) {
	w.Recorder.View(func(s *journal.State) { jobs = s.Unfinished() })
	return jobs
}

// takeUp goes on with one job. process is what the runner has of its newest start, nil where it has
// nothing. Callers must hold w.mu.
func (w *Worker) takeUp(b *board.Board, old journal.Job, process Process, instance string) board.Effects {
	switch {
	case old.Status == journal.StatusAccepted:
		b.DoubtOld(old, false)
		return board.Effects{}
	case process != nil:
		return w.adopt(b, old, process)
	case old.Status == journal.StatusStarting:
		return w.takeUpStart(b, old, instance)
	}
	if old.Process != nil && !Mode(old.Executor).Requests() {
		if stray, alive := w.Runner.Adopt(specOf(&old), *old.Process); alive {
			return w.adopt(b, old, stray)
		}
		var left journal.Done
		left.Stdout, left.Stderr = w.Keeper.Left(old.ID, old.Token, old.Attempt, *old.Process)
		return b.Lost(old, left)
	}
	return b.Lost(old, journal.Done{})
}

// takeUpStart goes on with a job that was announced, and of which the runner that is there knows
// nothing. A request whose connection is not journalled was never sent. A process was never started
// where that is the one that was to do it, or where that one ended in order. Where the claim itself
// announced it, the claim may not have been won, which the table tells first. Callers must hold
// w.mu.
func (w *Worker) takeUpStart(b *board.Board, old journal.Job, instance string) board.Effects {
	never := Mode(old.Executor).Requests() || old.Runner == instance && instance != "" || w.Keeper.Ended(old.Runner)
	switch {
	case old.Claimed:
		b.DoubtOld(old, !never)
		return board.Effects{}
	case never:
		return b.Requeue(old)
	}
	return b.Lost(old, journal.Done{})
}

// adopt goes on with a process that a former worker had started; it holds a slot like any other.
// Callers must hold w.mu.
func (w *Worker) adopt(b *board.Board, old journal.Job, process Process) board.Effects {
	pid := 0 // it waits for a process that is kept for such jobs
	if isClosed(process.Begun()) {
		pid = process.Started().Pid
	}
	w.Logger.Info("job goes on from before", "job", old.ID, "target", old.Target, "pid", pid)
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
