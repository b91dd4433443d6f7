package exec

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"jobd/journal"
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
	if err := w.Table.Claim(ctx, room, c.decide); err != nil {
		w.doubt(c.claimed)
		if undone(err) {
			return true, w.overtaken(ctx, c.events)
		}
		return false, err
	}
	w.exhausted(room, asked, c.found)
	return true, w.won(c.claimed)
}

// undone tells whether a claim that failed is known not to have happened, see Claimer.
func undone(err error) bool {
	var known interface{ Undone() bool }
	return errors.As(err, &known) && known.Undone()
}

// overtakenPause is the longest pause of a worker whose claim lost against another one. Its length is random, so that
// the two do not meet again and again.
const overtakenPause = 20 * time.Millisecond

// overtaken gives back what a claim that was undone had accepted: there is nothing to look for in the table.
func (w *Worker) overtaken(ctx context.Context, claims []journal.Event) error {
	var ids []int64
	for _, e := range claims {
		if e.Kind() == journal.KindAccepted {
			ids = append(ids, e.Job)
		}
	}
	if err := w.release(ids, "another claim was faster"); err != nil {
		return err
	}
	select {
	case <-time.After(rand.N(overtakenPause)):
	case <-ctx.Done():
	}
	return nil
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

// claiming is one claim under way.
type claiming struct {
	worker *Worker
	found  map[string]int
	claimed
}

// claimed is what a claim has journalled, and the jobs that got a slot with it: they are started as soon as
// the claim is known to be won.
type claimed struct {
	events []journal.Event
	starts []*job
}

// decide accepts the rows that the worker may run, and journals it. A row of a
// job that is still under way here, reset by somebody, is left alone.
func (c *claiming) decide(rows []journal.Row) ([]journal.Event, error) {
	w := c.worker
	instance := w.instanceNow()
	token := newToken(w.Name)
	w.mu.Lock()
	if w.stopping {
		w.mu.Unlock()
		return nil, errStopping
	}
	var drafts []journal.Draft
	for _, row := range rows {
		t, served := w.targets[row.Target]
		switch {
		case !served || t.paused || t.retiring:
			continue
		case w.holds(row.Job):
			t.skipped = true
			continue
		}
		c.found[row.Target]++
		drafts = append(drafts, c.accept(w, row.Job, t, journal.Accepted{Target: t.name, Token: token}, instance)...)
	}
	w.mu.Unlock()
	return c.journalled(w, drafts)
}

// accept is what is journalled of a row that is accepted: its start too, where a slot is free. The lock is held.
func (c *claimed) accept(w *Worker, id int64, t *target, accepted journal.Accepted, instance string) []journal.Draft {
	drafts := []journal.Draft{{Job: id, Payload: accepted}}
	if instance == "" || t == nil || t.paused || len(t.queue) > 0 || t.active >= t.concurrency {
		return drafts
	}
	j := &job{id: id, target: t, attempt: 1, slotted: true, waiter: w.waiters[id]}
	t.active++
	w.running.Add(1)
	w.jobs[id] = j
	if c.starts = append(c.starts, j); len(c.starts) == 1 {
		w.beginning.Add(1)
	}
	return append(drafts, j.running(instance, true))
}

// journalled journals what the claim decides.
func (c *claimed) journalled(w *Worker, drafts []journal.Draft) (events []journal.Event, err error) {
	if len(drafts) > 0 {
		events, err = w.append(drafts...)
	}
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.withdraw(c)
		return nil, err
	}
	c.events = events
	return events, nil
}

// instanceNow names the runner that is there; "" where there is none to be had at the moment.
func (w *Worker) instanceNow() string {
	name, err := w.Keeper.Instance()
	if err != nil {
		return ""
	}
	return name
}

// won starts and queues what a claim has won.
func (w *Worker) won(c claimed) error {
	err := w.enqueue(c.events)
	if len(c.starts) > 0 {
		w.startAll(c.starts)
	}
	return err
}

// withdraw takes back the slots that a claim gave to its jobs. The lock is held.
func (w *Worker) withdraw(c *claimed) {
	if len(c.starts) > 0 {
		w.beginning.Done()
	}
	for _, j := range c.starts {
		w.free(j)
		w.leave(j)
	}
	c.starts = nil
}

var errStopping = errors.New("worker is stopping")

// doubt is a claim of which it is not known whether it was won.
type doubt struct {
	journal.Accepted
	started bool // if it was won, it may have been started, by a runner that is gone
}

// doubt remembers claims whose commit may or may not have happened.
func (w *Worker) doubt(c claimed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range c.events {
		if accepted, ok := e.Payload.(journal.Accepted); ok {
			w.doubtful[e.Job] = doubt{Accepted: accepted}
		}
	}
	w.withdraw(&c)
	if len(w.doubtful) > 0 {
		w.wake()
	}
}

// resolve asks the table which of the claims in doubt were won: the row of one
// that was bears the claim's token. The others are released.
func (w *Worker) resolve(ctx context.Context) error {
	claims := w.doubts()
	if len(claims) == 0 {
		return nil
	}
	rows, err := w.Table.Rows(ctx, slices.Sorted(maps.Keys(claims)))
	if err != nil {
		return err
	}
	var won []journal.Event
	for _, row := range rows {
		claim := claims[row.Job]
		if !underWay(row) || row.Owner != claim.Token {
			continue
		}
		delete(claims, row.Job)
		if claim.started {
			if err := w.loseDoubted(row.Job, claim); err != nil {
				return err
			}
			continue
		}
		won = append(won, journal.Event{Job: row.Job, Payload: claim.Accepted})
	}
	if err := w.release(slices.Sorted(maps.Keys(claims)), "the claim was not won"); err != nil {
		return err
	}
	return w.enqueue(won)
}

// underWay tells whether a row is one that a worker has.
func underWay(row journal.Row) bool {
	return row.Status == journal.RowAccepted || row.Status == journal.RowRunning
}

// loseDoubted ends a job whose claim turned out to be won, and of which nobody knows whether it was started.
func (w *Worker) loseDoubted(id int64, claim doubt) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.doubtful, id)
	return w.loseOld(journal.Job{ID: id, Target: claim.Target, Attempt: 1}, killedWhileItRan)
}

func (w *Worker) doubts() map[int64]doubt {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.doubtful)
}

// holds tells whether a job is under way here. The lock is held.
func (w *Worker) holds(id int64) bool {
	_, doubtful := w.doubtful[id]
	_, claimed := w.jobs[id]
	return claimed || doubtful
}
