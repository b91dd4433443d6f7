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
}

// Words for act.undone.
const (
	notRun       = "was not run"
	notCancelled = "was not cancelled"
	notPlanned   = "is as it was"
	notSetBack   = "was not set back"
)

// tell answers the client with a result, or with why there is none. Only the first answer counts.
func (c *waiter) tell(result *Result, refusal string) {
	c.once.Do(func() {
		c.result, c.refusal = result, refusal
		close(c.told)
	})
}

// refuse tells that rows are left as they are.
func (m *manualClaim) refuse(ids []int64, why string) {
	for _, id := range ids {
		m.clients[id].tell(nil, fmt.Sprintf("job %d %s: %s", id, m.undone, why))
	}
}

// Answer tells a client what became of the jobs, or rows, that it named.
type Answer[T any] struct {
	Jobs   map[int64]T      // what was done about them, or came of that
	Errors map[int64]string // why nothing was done about others

	Requested bool // something was done about the request, which the journal tells
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
func (w *Worker) RunManual(ctx context.Context, ids []int64, by string) (Answer[Result], error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	asked := &wish{by: by, ids: ids}
	answer, err := do(ctx, w, ids, act{
		what: "claim manual jobs", undone: notRun, limit: claimTimeout, accept: w.board.AcceptManual, asked: asked,
	}, func(_ int64, result Result) Result { return result })
	answer.Requested = asked.journalled.Load()
	return answer, err
}

// What a client's jobs wait for at most until they are claimed: claimTimeout while nothing can be
// claimed at all (each claim that succeeds begins it anew), lockTimeout for a row that somebody else
// holds.
const (
	claimTimeout = 10 * time.Second
	mostFailures = 3     // of one row, for a reason that is not known to pass
	mostTogether = 500   // rows that are changed for an operator in one transaction
	mostAtOnce   = 5_000 // jobs that are claimed for a client in one: what a claim keeps of its rows is bounded
)

// act is what a client wants done to rows: run them as jobs, or change them.
type act struct {
	what    string                // for the log
	undone  string                // what does not happen to a row that is left as it is
	doubted func(id int64) string // what is told where it is not known whether a row was changed
	limit   time.Duration         // until nothing is tried any more, since the last claim that succeeded
	accept  accepting
	asked   *wish // the rows are run; nil: what is journalled of each row tells who asked
}

// manualClaim claims rows that a client has named, and tells it about those that are left as they are.
type manualClaim struct {
	act
	worker  *Worker
	client  context.Context // ends when the client is gone
	clients map[int64]*waiter
	retry   Retry         // while nothing can be claimed
	expiry  *time.Timer   // at the limit
	failed  map[int64]int // tries that failed for no known reason

	lockedUntil time.Time // when rows are not tried again any more that somebody else holds; zero: none was
}

// do claims rows that a client has named, to run them or to change them: each is decided under its lock,
// journalled, updated, committed. What is not known to be committed at the end the claim loop finds out.
// told says what is told of a row that is changed, or of how its job has ended. It fails, without having
// changed anything, when the worker stops. A client that is gone wants no row changed any more.
func do[T any](client context.Context, w *Worker, ids []int64, a act, told func(id int64, result Result) T) (answer Answer[T], err error) {
	m := &manualClaim{
		act: a, worker: w, client: client, clients: make(map[int64]*waiter, len(ids)), retry: w.Retry(a.what), failed: make(map[int64]int),
	}
	for _, id := range ids {
		m.clients[id] = &waiter{told: make(chan struct{})}
	}
	if err := m.begin(ids); err != nil {
		return answer, err
	}
	if a.asked != nil {
		defer func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.board.Leave(ids)
		}()
	}
	for _, c := range m.clients { // all of them, before any answer is looked into: accept notes things beside
		select {
		case <-c.told:
		case <-client.Done():
			return answer, client.Err()
		}
	}
	answer = Answer[T]{Jobs: make(map[int64]T), Errors: make(map[int64]string)}
	for id, c := range m.clients {
		if c.result != nil {
			answer.Jobs[id] = told(id, *c.result)
		} else {
			answer.Errors[id] = c.refusal
		}
	}
	answer.Requested = len(answer.Jobs) > 0
	return answer, nil
}

// begin begins to claim, after it has noted that a client waits for each of the jobs that are to be run.
func (m *manualClaim) begin(ids []int64) error {
	w := m.worker
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.board.Stopping() {
		return errStopping
	}
	if m.asked != nil {
		waits := make(map[int64]board.Client, len(ids))
		for id, client := range m.clients {
			waits[id] = client
		}
		if taken, ok := w.board.Wait(ids, waits); !ok {
			return RefusedError(fmt.Sprintf("another client is already waiting for job %d", taken))
		}
	}
	w.starts.Go(func() {
		ctx, cancel := m.within(w.active)
		defer cancel()
		if m.asked != nil {
			m.claimAll(ctx, slices.Collect(slices.Chunk(ids, mostAtOnce)))
			return
		}
		defer context.AfterFunc(m.client, cancel)()
		m.change(ctx, ids)
	})
	return nil
}

// change changes rows, as far as that is done in time.
func (m *manualClaim) change(ctx context.Context, ids []int64) {
	if err := m.worker.Disk.Check(); err != nil {
		m.refuse(ids, m.words(ctx, noRoom{err}))
		return
	}
	m.claimAll(ctx, slices.Collect(slices.Chunk(ids, mostTogether)))
	for id, c := range m.clients {
		select {
		case <-c.told:
		case <-ctx.Done():
			c.tell(nil, m.doubted(id))
		}
	}
}

// within gives what claims are made under: it ends with parent, and when none has succeeded for the limit.
func (m *manualClaim) within(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	m.expiry = time.AfterFunc(m.limit, cancel)
	return ctx, func() {
		m.expiry.Stop()
		cancel()
	}
}

// claimAll tries to claim jobs until each is claimed, or its client told why not.
func (m *manualClaim) claimAll(ctx context.Context, groups [][]int64) {
	for len(groups) > 0 {
		group := groups[0]
		if groups = groups[1:]; len(group) > 0 {
			groups = append(m.try(ctx, group), groups...)
		}
	}
}

// try claims some jobs in one go, and gives those to be tried again, in groups.
func (m *manualClaim) try(ctx context.Context, ids []int64) (again [][]int64) {
	c := claiming{worker: m.worker, wish: m.asked, accept: m.accept}
	c.Clients = make(map[int64]board.Client, len(ids))
	for _, id := range ids {
		c.Clients[id] = m.clients[id]
	}
	locked, err := m.claim(ctx, ids, &c)
	for id, refusal := range c.refusals {
		m.clients[id].tell(nil, refusal)
	}
	if err != nil {
		return m.claimFailed(ctx, ids, &c, err)
	}
	m.expiry.Reset(m.limit)
	m.worker.won(&c.Claim)
	isLocked := make(map[int64]bool, len(locked))
	for _, id := range locked {
		isLocked[id] = true
	}
	for _, id := range c.changes {
		if m.asked == nil { // else the client hears how the job has ended
			m.clients[id].tell(&Result{}, "")
		}
	}
	for _, id := range ids {
		if _, found := c.found[id]; !found && !isLocked[id] {
			m.clients[id].tell(nil, fmt.Sprintf("job %d not found", id))
		}
	}
	if locked = append(locked, c.later...); len(locked) > 0 && !m.lockAgain(ctx) {
		m.refuse(locked, "the row is locked by somebody else")
		return nil
	}
	return [][]int64{locked}
}

// claim claims once, where the worker may claim at all.
func (m *manualClaim) claim(ctx context.Context, ids []int64, c *claiming) (locked []int64, err error) {
	w := m.worker
	if err := w.Disk.Check(); err != nil {
		return nil, noRoom{err}
	}
	c.asked = time.Now()
	return w.claimNamed(ctx, ids, c.decide)
}

// claimNamed is Claimer.ClaimManual, which only a worker does that has its name and worker id.
func (w *Worker) claimNamed(ctx context.Context, ids []int64, decide func([]journal.Row) ([]journal.Event, error)) (locked []int64, err error) {
	w.mu.Lock()
	held, targets := w.identity.held(), w.fitNames()
	w.mu.Unlock()
	if !held {
		if err := w.Identify(ctx); err != nil {
			return nil, err
		}
	}
	return w.Table.ClaimManual(ctx, ids, targets, decide)
}

// noRoom says that the journal's disk has too little room.
type noRoom struct{ error }

// Unwrap gives the cause.
func (e noRoom) Unwrap() error { return e.error }

// claimFailed tells the clients what happened, and gives the jobs to try again: all of them once the
// table answers again, else halves of them, because one may be at fault.
func (m *manualClaim) claimFailed(ctx context.Context, ids []int64, c *claiming, err error) (again [][]int64) {
	refused, left := refusedRows(err), ids
	if len(c.Events) > 0 && !(undone(err) && m.release(c, err, refused)) {
		left = m.leaveInDoubt(ids, c, err)
	}
	if known := illegal(err); known != nil && known.Job != 0 {
		refused = map[int64]string{known.Job: "the journal holds it as under way"}
	}
	for id, why := range refused {
		if _, ours := m.clients[id]; ours {
			m.refuse([]int64{id}, "the table refuses it: "+why)
		}
	}
	left = slices.DeleteFunc(slices.Clone(left), func(id int64) bool { return IsClosed(m.clients[id].told) })
	switch n := len(left); {
	case n == 0:
		return nil
	case len(refused) > 0:
		return [][]int64{left}
	case isAway(err) || isOther(err) || holdsAll(err):
		if m.retry.Wait(ctx, err) == nil {
			return [][]int64{left}
		}
	case ctx.Err() == nil && n > 1:
		return [][]int64{left[:n/2], left[n/2:]}
	case ctx.Err() == nil && m.failed[left[0]] < mostFailures:
		m.failed[left[0]]++
		if m.retry.Wait(ctx, err) == nil {
			return [][]int64{left}
		}
	}
	m.refuse(left, m.words(ctx, err))
	return nil
}

// release journals that a claim was undone, so that its rows can be claimed again. It is
// false where the journal has no room for that; then the claim loop does it later.
func (m *manualClaim) release(c *claiming, err error, refused map[int64]string) bool {
	w := m.worker
	if drafts := c.Undo(lostReason(err, refused)); len(drafts) > 0 {
		if _, err := w.append(drafts...); err != nil {
			return false
		}
	}
	w.change(func(b *board.Board) board.Effects { return b.Withdraw(&c.Claim) })
	return true
}

// leaveInDoubt has the claim loop find out what became of a claim, and gives the jobs that the claim
// has left as they were. A job in doubt still has its client: it runs, or the client hears why not. A
// client whose row is set back hears it from the claim loop, which tells nothing of rows that become
// ignored or due: their clients hear at once that the outcome is not known.
func (m *manualClaim) leaveInDoubt(ids []int64, c *claiming, err error) (left []int64) {
	var lost func(int64) string
	if undone(err) {
		lost = lostReason(err, refusedRows(err))
	}
	m.worker.change(func(b *board.Board) board.Effects { return b.Doubt(&c.Claim, lost) })
	left = slices.Clone(ids)
	for _, e := range c.Events {
		left = slices.DeleteFunc(left, func(id int64) bool { return id == e.Job })
		if m.asked == nil && e.Kind() != journal.KindRetried {
			m.clients[e.Job].tell(nil, m.doubted(e.Job))
		}
	}
	return left
}

// isOther tells that the server is another one, whose rows are compared with the journal first.
func isOther(err error) bool {
	by, tells := told[interface {
		Away() bool
		Undone() bool
	}](err)
	return tells && by.Undone() && !by.Away()
}

// holdsAll tells whether an error that is not the table's keeps the worker from claiming anything.
func holdsAll(err error) bool {
	var low noRoom
	var taken *NameTakenError
	var former *formerError
	return errors.As(err, &low) || errors.Is(err, journal.ErrFull) || errors.As(err, &taken) || errors.As(err, &former) ||
		errors.Is(err, errNoWorkerID)
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

// How long rows are tried again that somebody else holds, and how often.
const (
	lockTimeout = 5 * time.Second
	lockRest    = 100 * time.Millisecond
)

// lockAgain waits until rows are tried again that somebody else holds. It is false when that has lasted
// long enough, or the client is gone.
func (m *manualClaim) lockAgain(ctx context.Context) bool {
	if m.lockedUntil.IsZero() {
		m.lockedUntil = time.Now().Add(lockTimeout)
	}
	if time.Until(m.lockedUntil) < lockRest {
		return false
	}
	select {
	case <-time.After(lockRest):
		return true
	case <-m.client.Done():
	case <-ctx.Done():
	}
	return false
}
