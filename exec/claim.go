package exec

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Poll makes the worker look for jobs of some targets (none named: all). It
// returns at once; what was asked for is not forgotten until the table has
// answered, however long it is away.
func (w *Worker) Poll(names []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	targets, err := w.find(names)
	if err != nil {
		return err
	}
	w.poll(targets)
	return nil
}

// PollAll is Poll for all targets.
func (w *Worker) PollAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	targets, _ := w.find(nil)
	w.poll(targets)
}

// poll notes that targets want a look at the table. The lock is held.
func (w *Worker) poll(targets []*target) {
	for _, t := range targets {
		t.polls++
	}
	w.wake()
}

// find gives the targets of these names, or all. The lock is held.
func (w *Worker) find(names []string) ([]*target, error) {
	if names == nil {
		names = w.names()
	}
	targets := make([]*target, 0, len(names))
	for _, name := range names {
		t, ok := w.targets[name]
		if !ok {
			return nil, RefusedError("invalid target '" + name + "'")
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// claimLoop claims whenever there is room, until ctx ends.
func (w *Worker) claimLoop(ctx context.Context) {
	interval := w.pollTicks()
	defer interval.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-interval.C:
			w.PollAll()
		case <-w.nudge:
			w.claimAll(ctx)
		}
	}
}

// pollTicks ticks every poll interval, never where there is none.
func (w *Worker) pollTicks() *time.Ticker {
	if w.PollInterval > 0 {
		return time.NewTicker(w.PollInterval)
	}
	never := time.NewTicker(time.Hour)
	never.Stop()
	return never
}

// claimAll claims until there is no room or no row left.
func (w *Worker) claimAll(ctx context.Context) {
	retry, failed := w.Retry("claim jobs"), false
	for ctx.Err() == nil && w.err() == nil {
		more, err := w.claimOnce(ctx)
		switch {
		case err != nil:
			failed = true
			if retry.Wait(ctx, err) != nil {
				return
			}
		case failed: // the table is back: others may have asked in vain meanwhile
			failed = false
			w.PollAll()
		case !more:
			return
		}
	}
}

// claimOnce settles what was left behind, then claims for all targets that have room.
func (w *Worker) claimOnce(ctx context.Context) (more bool, err error) {
	if err := w.survey(ctx); err != nil {
		return false, err
	}
	if err := w.resolve(ctx); err != nil {
		return false, err
	}
	return w.claim(ctx)
}

// claim claims once for all targets that have room; more tells whether it found any. Nothing is claimed while the mirror
// can't write, even where claims could be made: with LaunchOffline the table would be owed ever more. When the
// mirror is back the worker polls.
func (w *Worker) claim(ctx context.Context) (more bool, err error) {
	select {
	case <-w.Mirror.Away():
		return false, nil
	default:
	}
	room, asked := w.room()
	if len(room) == 0 {
		return false, nil
	}
	if err := w.Disk.Check(); err != nil {
		return false, err
	}
	c := claiming{worker: w, found: make(map[string]int)}
	if err := w.Table.Claim(ctx, room, nil, c.decide); err != nil {
		w.doubt(c.claimed)
		if undone(err) {
			return true, w.overtaken(ctx, c.events)
		}
		return false, err
	}
	w.exhausted(room, asked, c.found)
	return true, w.won(c.claimed)
}

// room tells how much to claim for each target, and up to which poll that answers.
func (w *Worker) room() (room, asked map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	room, asked = make(map[string]int), make(map[string]int)
	for name, t := range w.targets {
		if n := t.room(w.Prefetch); n > 0 {
			room[name], asked[name] = n, t.polls
		}
	}
	w.limit(room)
	return room, asked
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

// exhausted notes for which targets the table had no more than was asked for.
func (w *Worker) exhausted(room, asked, found map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, n := range room {
		if t, ok := w.targets[name]; ok && found[name] < n {
			t.polled = asked[name]
		}
	}
}
