package exec

import (
	"context"
	"time"

	"jobd/exec/board"
)

// change tells the board what has happened, and carries out what is to follow. Whoever has won a
// claim starts its jobs.
func (w *Worker) change(event func(*board.Board) board.Effects) { w.carryOut(w.settle(event)) }

// settle is the part of change that only memory is needed for.
func (w *Worker) settle(event func(*board.Board) board.Effects) board.Effects {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := event(w.board)
	w.follow(e)
	return e
}

// carryOut is the part of change that the runner may hold up.
func (w *Worker) carryOut(e board.Effects) {
	w.goOn(e.Held)
	for _, j := range e.Forget {
		w.Keeper.Forget(j.ID(), j.Token(), j.Attempt())
	}
	if len(e.Start) > 0 && e.Start[0].Claimed {
		w.startAll(e.Start)
	}
}

// follow carries out what is to follow a change of the board, but for what only turns and claims
// have to follow. None of it waits: what takes time gets a goroutine. Callers must hold w.mu.
func (w *Worker) follow(e board.Effects) {
	for _, n := range e.Notes {
		w.Logger.Log(context.Background(), n.Level, n.Text, n.Args...)
	}
	for _, name := range e.Poll {
		w.pollNamed(name)
	}
	if free := e.Free; len(free) > 0 { // of its own: e would be on the heap for the closure's sake, each time
		w.others.Go(func() { w.tellSetBack(free) })
	}
	for _, t := range e.Changed {
		if served := w.targets[t.Name()]; served != nil && served.room(w.Prefetch, time.Now()) > 0 {
			e.Wake = true
		} else if t.Behind() {
			w.awaitTable()
		}
	}
	w.expect(e.Coming)
	if e.Wake {
		w.wake()
	}
	if e.Turn {
		w.nudgeTurn()
	}
	if e.Examine != board.NoLook {
		how := e.Examine
		w.others.Go(func() { w.examine(how) })
	}
	for _, t := range e.Empty {
		w.others.Go(func() { w.removeRetired(t) })
	}
	for _, c := range e.Cancelled {
		c.To <- c
	}
	for _, s := range e.Signalled {
		s.To <- s.Err
	}
	for _, s := range e.Settled {
		if client, waits := s.Client.(*waiter); waits {
			client.tell(&Result{}, "")
		}
	}
	for _, r := range e.Refusals {
		w.refuse(r)
	}
	for _, a := range e.Answers {
		w.answers.Go(func() { w.answer(a) })
	}
	if group := e.Start; len(group) > 0 && !group[0].Claimed {
		w.starts.Go(func() { w.launch(group) })
	}
	for _, r := range e.Renewed {
		if r.Job.Retry == nil {
			r.Job.Retry = w.Retry("start a job", "job", r.Job.ID(), "target", r.Job.Target())
		}
		w.starts.Go(func() { w.announceAgain(r) })
	}
}

// refuse tells a client that its job is not run.
func (w *Worker) refuse(r board.Refusal) {
	if client := r.Client.(*waiter); r.Whole {
		client.tell(nil, r.Why)
	} else {
		client.refuse(r.Job, r.Why)
	}
}
