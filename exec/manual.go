package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// waiter is a client that waits for one job.
type waiter struct {
	once    sync.Once
	told    chan struct{} // closed when it is answered
	result  *Result
	refusal string
	changed bool   // an operator's act changed its row
	undone  string // what does not happen to a job that can't be claimed
	doubted string // what an operator is told where it is not known whether the row was changed
}

// Words for waiter.undone.
const (
	notRun       = "was not run"
	notCancelled = "was not cancelled"
	notHurried   = "is as it was"
)

// tell answers the client with a result, or with why there is none. Only the first answer counts.
func (c *waiter) tell(result *Result, refusal string) {
	c.once.Do(func() {
		c.result, c.refusal = result, refusal
		close(c.told)
	})
}

// refuse tells the client that the job was not run, or not cancelled.
func (c *waiter) refuse(id int64, why string) {
	c.tell(nil, fmt.Sprintf("job %d %s: %s", id, c.undone, why))
}

// did tells an operator that the job's row was changed.
func (c *waiter) did() {
	c.once.Do(func() {
		c.changed = true
		close(c.told)
	})
}

// refuse tells a client that some of its jobs were not run.
func (m *manualClaim) refuse(ids []int64, why string) {
	for _, id := range ids {
		m.clients[id].refuse(id, why)
	}
}

// Answer tells a client what became of the jobs that it named.
type Answer struct {
	Jobs   map[int64]Result
	Errors map[int64]string

	Requested bool // something was done about the request, which is in the journal
}

// wish is what a client asks for: that jobs be run. It is journalled in one append with the first
// event about any of them, so that it costs nothing, and a client who asks in vain fills nothing.
type wish struct {
	by         string
	ids        []int64 // in ascending order
	journalled atomic.Bool
}

// mostNamed bounds how many ids of a request are journalled.
const mostNamed = 10_000

func (r *wish) draft() journal.Draft {
	named := r.ids[:min(len(r.ids), mostNamed)]
	return journal.Draft{Payload: journal.Requested{Jobs: named, More: len(r.ids) - len(named), By: r.by}}
}

// RunManual claims jobs of status manual and waits until all of them are done. by is who asked. It
// fails, without having changed anything, when a client waits for one of them already; a job that
// can't be run is among the answer's errors. When ctx ends before, the jobs run on without a
// client.
func (w *Worker) RunManual(ctx context.Context, ids []int64, by string) (Answer, error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	asked := &wish{by: by, ids: ids}
	clients, err := w.reserve(ctx, asked)
	if err != nil {
		return Answer{}, err
	}
	defer w.unreserve(ids)
	answer := Answer{Jobs: make(map[int64]Result), Errors: make(map[int64]string)}
	for _, id := range ids {
		select {
		case <-clients[id].told:
		case <-ctx.Done():
			return Answer{}, ctx.Err()
		}
		if result := clients[id].result; result != nil {
			answer.Jobs[id] = *result
		} else {
			answer.Errors[id] = clients[id].refusal
		}
	}
	answer.Requested = asked.journalled.Load()
	return answer, nil
}

// reserve notes that a client waits for each of the jobs, and begins to claim them.
func (w *Worker) reserve(ctx context.Context, asked *wish) (map[int64]*waiter, error) {
	clients := make(map[int64]*waiter, len(asked.ids))
	waits := make(map[int64]board.Client, len(asked.ids))
	for _, id := range asked.ids {
		clients[id] = &waiter{told: make(chan struct{}), undone: notRun}
		waits[id] = clients[id]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.board.Stopping() {
		return nil, RefusedError("worker is stopping")
	}
	if taken, ok := w.board.Wait(asked.ids, waits); !ok {
		return nil, RefusedError(fmt.Sprintf("another client is already waiting for job %d", taken))
	}
	w.starts.Go(func() { w.claimManual(ctx, asked, clients) })
	return clients, nil
}

// unreserve ends the waiting, answered or not.
func (w *Worker) unreserve(ids []int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.board.Leave(ids)
}

// What a client's jobs wait for at most until they are claimed: claimTimeout while nothing can be
// claimed at all, lockTimeout for a row that somebody else holds.
const (
	claimTimeout = 10 * time.Second
	mostFailures = 3 // of one row, for a reason that is not known to pass
	retriers     = 2 // clients that try rows that somebody else holds again, at a time
)

// manualClaim claims the jobs of one client, and tells it about those that can't be run.
type manualClaim struct {
	worker  *Worker
	client  context.Context // ends when the client is gone
	asked   *wish
	clients map[int64]*waiter
	retry   Retry         // while nothing can be claimed
	lock    lockWait      // for rows that somebody else holds
	failed  map[int64]int // tries that failed for no known reason
	limit   time.Duration // until nothing is tried any more
	accept  accepting

	operators bool // accept changes rows for an operator, and starts nothing
}

// accepting is what the board makes of a row that a client has named. Callers must hold w.mu.
type accepting func(c *board.Claim, row journal.Row, token, instance string) (drafts []journal.Draft, refusal string)

// claimManual claims jobs for their clients.
func (w *Worker) claimManual(client context.Context, asked *wish, clients map[int64]*waiter) {
	ctx, cancel := context.WithTimeout(w.active, claimTimeout)
	defer cancel()
	m := &manualClaim{
		worker: w, client: client, asked: asked, clients: clients, retry: w.Retry("claim manual jobs"), failed: make(map[int64]int),
		limit: claimTimeout, accept: w.board.AcceptManual,
	}
	if why := w.whyNoStart(); why != "" {
		m.refuse(asked.ids, why)
		return
	}
	m.claimAll(ctx, asked.ids)
}

// claimAll tries to claim jobs until each is claimed, or its client told why not.
func (m *manualClaim) claimAll(ctx context.Context, ids []int64) {
	for groups := [][]int64{ids}; len(groups) > 0; {
		group := groups[0]
		groups = append(groups[1:], m.try(ctx, group)...)
	}
}

// try claims some jobs in one go, and gives those to be tried again, in groups.
func (m *manualClaim) try(ctx context.Context, ids []int64) (again [][]int64) {
	if len(ids) == 0 {
		return nil
	}
	c := manualClaiming{worker: m.worker, asked: m.asked, accept: m.accept, operators: m.operators, ids: ids, refusals: make(map[int64]string)}
	locked, err := m.claim(ctx, &c)
	for id, refusal := range c.refusals {
		m.clients[id].tell(nil, refusal)
	}
	if err != nil {
		return m.claimFailed(ctx, &c, err)
	}
	m.worker.won(&c.Claim)
	for _, id := range c.changes {
		m.clients[id].did()
	}
	for _, id := range ids {
		if !c.found[id] && !slices.Contains(locked, id) {
			m.clients[id].tell(nil, fmt.Sprintf("job %d not found", id))
		}
	}
	if len(locked) > 0 && !m.lock.again(ctx, m.client.Done()) {
		m.refuse(locked, "the row is locked by somebody else")
		return nil
	}
	return [][]int64{locked}
}

// claim claims once, where the worker may claim at all.
func (m *manualClaim) claim(ctx context.Context, c *manualClaiming) (locked []int64, err error) {
	w := m.worker
	w.mu.Lock()
	held, targets := w.identity.held(), w.fitNames()
	w.mu.Unlock()
	if !held {
		if err := w.Identify(ctx); err != nil {
			return nil, err
		}
	}
	if err := w.Disk.Check(); err != nil {
		return nil, noRoom{err}
	}
	if m.lock.met() {
		select {
		case w.again <- struct{}{}:
			defer func() { <-w.again }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	c.sent = time.Now()
	return w.Table.ClaimManual(ctx, c.ids, targets, c.decide)
}

// noRoom says that the journal's disk has too little room.
type noRoom struct{ error }

// Unwrap gives the cause.
func (e noRoom) Unwrap() error { return e.error }

// claimFailed tells the clients what is true, and gives the jobs that are to be tried again.
func (m *manualClaim) claimFailed(ctx context.Context, c *manualClaiming, err error) (again [][]int64) {
	left := slices.DeleteFunc(slices.Clone(c.ids), func(id int64) bool { return isClosed(m.clients[id].told) })
	refused := refusedRows(err)
	if len(c.Events) > 0 && !(undone(err) && m.release(c, err, refused)) {
		return m.leaveInDoubt(c, left, err)
	}
	if known := illegal(err); known != nil && known.Job != 0 {
		refused = map[int64]string{known.Job: "the journal holds it as under way"}
	}
	if len(refused) > 0 {
		for id, why := range refused {
			m.notClaimed(id, "the table refuses it: "+why)
		}
		return [][]int64{slices.DeleteFunc(left, func(id int64) bool { _, at := refused[id]; return at })}
	}
	switch {
	case isAway(err) || holdsAll(err):
		if m.retry.Wait(ctx, err) == nil {
			return [][]int64{left}
		}
	case ctx.Err() == nil && len(left) > 1: // one of them may be at fault
		for _, id := range left {
			again = append(again, []int64{id})
		}
		return again
	case ctx.Err() == nil && len(left) == 1 && m.failed[left[0]] < mostFailures:
		m.failed[left[0]]++
		if m.retry.Wait(ctx, err) == nil {
			return [][]int64{left}
		}
	}
	for _, id := range left {
		m.notClaimed(id, m.words(ctx, err))
	}
	return nil
}

// notClaimed tells a client that its row could not be claimed.
func (m *manualClaim) notClaimed(id int64, why string) {
	if client, ours := m.clients[id]; ours {
		client.refuse(id, why)
	}
}

// release journals that a claim was undone, so that its rows can be claimed again. It is
// false where the journal has no room for that; then the claim loop does it later.
func (m *manualClaim) release(c *manualClaiming, err error, refused map[int64]string) bool {
	w, lost := m.worker, lostReason(err, refused)
	if drafts := c.Undo(lost); len(drafts) > 0 {
		if _, err := w.append(drafts...); err != nil {
			return false
		}
	}
	w.change(func(b *board.Board) board.Effects { return b.Withdraw(&c.Claim) })
	return true
}

// leaveInDoubt has the claim loop find out what became of a claim: its jobs have a client still,
// and run, or the client is told. An operator has nothing to wait for.
func (m *manualClaim) leaveInDoubt(c *manualClaiming, left []int64, err error) [][]int64 {
	var lost func(int64) string
	if undone(err) {
		lost = lostReason(err, refusedRows(err))
	}
	w := m.worker
	w.change(func(b *board.Board) board.Effects { return b.Doubt(&c.Claim, lost) })
	for _, id := range c.changes {
		m.clients[id].tell(nil, m.clients[id].doubted)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range left {
		if !w.board.Holds(id) {
			m.clients[id].refuse(id, m.words(context.Background(), err))
		}
	}
	return nil
}

// holdsAll tells whether an error that is not the table's keeps the worker from claiming anything.
func holdsAll(err error) bool {
	var low noRoom
	var taken *NameTakenError
	var former *formerError
	return errors.As(err, &low) || errors.Is(err, journal.ErrFull) || errors.As(err, &taken) || errors.As(err, &former) ||
		errors.Is(err, errNoMark)
}

// words says why jobs were not run, as it is.
func (m *manualClaim) words(ctx context.Context, err error) string {
	var low noRoom
	switch {
	case m.worker.active.Err() != nil:
		return "the worker is stopping"
	case isAway(err):
		return "the database could not be reached"
	case errors.As(err, &low) || errors.Is(err, journal.ErrFull):
		return "there is no room for the journal: " + err.Error()
	case holdsAll(err):
		return err.Error()
	case ctx.Err() != nil:
		return fmt.Sprintf("the database has not answered within %s", m.limit)
	}
	return "the table refuses it: " + err.Error()
}

// manualClaiming is a claim of named jobs under way.
type manualClaiming struct {
	worker    *Worker
	asked     *wish
	accept    accepting
	operators bool
	ids       []int64
	sent      time.Time // when the table was asked
	found     map[int64]bool
	refusals  map[int64]string // why rows are left as they are
	changes   []int64          // rows that an operator's act changes, once that is committed
	board.Claim
}

// decide journals what is to become of the rows. What is refused stays as it is.
func (c *manualClaiming) decide(rows []journal.Row) ([]journal.Event, error) {
	w := c.worker
	c.found = make(map[int64]bool, len(rows))
	instance := w.instanceNow()
	var drafts []journal.Draft
	w.mu.Lock()
	w.readAt(rows, c.sent, time.Now())
	token := newToken(w.identity.mark)
	for _, row := range rows {
		c.found[row.Job] = true
		accepted, refusal := c.accept(&c.Claim, row, token, instance)
		drafts = append(drafts, accepted...)
		switch {
		case refusal != "":
			c.refusals[row.Job] = refusal
		case c.operators:
			c.changes = append(c.changes, row.Job)
		}
	}
	w.mu.Unlock()
	return c.journalledAsAsked(w, drafts)
}

// journalledAsAsked journals what the claim decides, behind the client's request where that is not
// in the journal yet.
func (c *manualClaiming) journalledAsAsked(w *Worker, drafts []journal.Draft) ([]journal.Event, error) {
	if len(drafts) == 0 || c.asked.journalled.Load() {
		return w.decided(&c.Claim, drafts)
	}
	_, err := w.decided(&c.Claim, append([]journal.Draft{c.asked.draft()}, drafts...))
	if err != nil {
		return nil, err
	}
	c.asked.journalled.Store(true)
	c.Events = c.Events[1:] // the table knows nothing of requests
	return c.Events, nil
}

// What somebody waits for at most whose rows somebody else holds, and how long between two tries.
const (
	lockTimeout = 5 * time.Second
	firstLock   = 50 * time.Millisecond
	longLock    = 500 * time.Millisecond
)

// lockWait is the time between tries of rows that somebody else holds.
type lockWait struct {
	until time.Time     // zero: no row was locked yet
	rest  board.Backoff // until they are tried again
}

// met tells whether a row was locked.
func (l *lockWait) met() bool { return !l.until.IsZero() }

// again waits until the rows are to be tried again. It is false when they were tried for long
// enough, or nobody is there any more who wants them: gone is closed then, and may be nil.
func (l *lockWait) again(ctx context.Context, gone <-chan struct{}) bool {
	if !l.met() {
		l.until = time.Now().Add(lockTimeout)
	}
	l.rest.Grow(time.Now(), firstLock, longLock)
	if l.rest.Due.After(l.until) {
		return false
	}
	timer := time.NewTimer(time.Until(l.rest.Due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-gone:
	case <-ctx.Done():
	}
	return false
}
