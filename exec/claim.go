package exec

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// One goroutine claims. It is woken when something was asked for or a slot is free, and by one
// timer for all that was put off: polls, looks behind somebody's locks, quarantined rows, claims in
// doubt. An outage of the whole table it waits out; anything else concerns some rows or
// some targets, which wait by themselves.

// claims is what only the claim loop knows.
type claims struct {
	poll   time.Time            // the next poll that nobody asks for; zero: none
	taken  time.Time            // when takeDue last ran
	away   bool                 // the mirror could not write when a claim was last wanted
	names  board.Backoff        // of the question whether the table takes the targets' names
	free   map[string]time.Time // for each worker id found on unknown rows: since when nobody was seen to hold it
	rounds int                  // claims so far
	behind []int64              // rows already logged as behind the journal
}

// renew polls, and looks at everything again that may have changed while the table was out of
// reach.
func (w *Worker) renew() {
	w.claims.free = make(map[string]time.Time)
	w.mu.Lock()
	w.survey = board.Backoff{Due: time.Now()}
	w.identity.checked = time.Time{}
	w.namesDue = true
	w.mu.Unlock()
	w.PollAll()
}

// claimLoop claims whenever there is room, until ctx ends.
func (w *Worker) claimLoop(ctx context.Context) {
	w.claims.poll = w.nextPoll(time.Now())
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for ctx.Err() == nil && w.err() == nil {
		alarm.Reset(w.untilDue(time.Now()))
		select {
		case <-ctx.Done():
		case <-alarm.C:
			w.claimAll(ctx)
		case <-w.nudge:
			w.claimAll(ctx)
		}
	}
}

// claimAll claims until there is no room or no row left.
func (w *Worker) claimAll(ctx context.Context) {
	retry, failed := w.Retry("claim jobs"), error(nil)
	for ctx.Err() == nil && w.err() == nil {
		w.noteAsked(time.Now())
		more, err := w.claimOnce(ctx)
		w.noteAsked(time.Time{})
		switch {
		case err != nil:
			failed = err
			w.noteOutage(err)
			if retry.Wait(ctx, err) != nil {
				return
			}
		case failed != nil: // the table is back: others may have asked in vain meanwhile
			retry.Over()
			if failed = nil; w.noteOutage(nil) {
				w.renew()
			}
		case !more:
			return
		}
	}
}

// noteOutage notes why nothing is claimed at all; nil when something is. It tells whether that was
// otherwise before.
func (w *Worker) noteOutage(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.outage.note(err, time.Now())
}

// claimOnce settles what was left behind and is due, then claims for targets that have room. Its
// errors are those that concern everything: the table is away, or the disk full.
func (w *Worker) claimOnce(ctx context.Context) (more bool, err error) {
	w.takeDue(time.Now())
	for _, settle := range []func(context.Context) error{w.resolve, w.checkNames} {
		if err := settle(ctx); err != nil {
			return false, err
		}
	}
	if known, err := w.identified(ctx); err != nil || !known {
		return false, err
	}
	if err := w.takeSurvey(ctx); err != nil {
		return false, err
	}
	return w.claim(ctx)
}

// takeDue does what is due by now: it polls targets, has launchers looked at, and ends the rests that
// are over.
func (w *Worker) takeDue(now time.Time) {
	w.claims.taken = now
	if c := &w.claims; !c.poll.IsZero() && !now.Before(c.poll) {
		c.poll = w.nextPoll(now)
		w.PollAll()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.follow(w.board.LookDue(now))
	if w.Prefetch < 0 {
		w.follow(w.board.GiveBackLate(now, w.outage.Away || IsClosed(w.Mirror.Away())))
	}
	w.rests(func(rest *board.Backoff, polls *target) {
		if rest.Passed(now) && polls != nil {
			polls.polls++
		}
	})
	w.takeDues(now)
}

// rests calls visit for each thing that waits for a time. polls is the target that the worker polls when
// that time comes; nil: none. Callers must hold w.mu.
func (w *Worker) rests(visit func(rest *board.Backoff, polls *target)) {
	w.board.Rests(func(rest *board.Backoff) { visit(rest, nil) })
	visit(&w.claims.names, nil)
	visit(&w.identity.rest, nil)
	for _, t := range w.targets {
		visit(&t.trouble.rest, nil)
		visit(&t.look, t)
	}
	for _, q := range w.quarantined {
		visit(&q.rest, w.targets[q.Target])
	}
}

// idle is how long the loop sleeps at most.
const idle = time.Hour

// untilDue is the time until the first thing that was put off is due.
func (w *Worker) untilDue(now time.Time) time.Duration {
	first := now.Add(idle)
	at := func(due time.Time) {
		if !due.IsZero() && due.Before(first) {
			first = due
		}
	}
	at(w.claims.poll)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rests(func(rest *board.Backoff, _ *target) { at(rest.Due) })
	at(w.nextDue(now))
	if !w.identity.checked.IsZero() {
		at(w.survey.Due)
	}
	for _, t := range w.targets {
		at(t.Late())
		if t.wanted() { // starts that the rate has allowed since takeDue ran wake the loop, too
			at(t.bucket.due(t.Unstarted(), w.claims.taken))
		}
	}
	return max(first.Sub(now), 0)
}

// concernsAll tells whether an error concerns the whole worker, and not only some rows or some targets.
func concernsAll(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || isAway(err) || errors.Is(err, journal.ErrFull))
}

// told is what an error's causes tell by a method, see Claimer.
func told[T any](err error) (by T, tells bool) {
	tells = errors.As(err, &by)
	return by, tells
}

// isAway tells whether an error says that the whole table is out of reach.
func isAway(err error) bool {
	by, tells := told[interface{ Away() bool }](err)
	return tells && by.Away()
}

// undone tells whether a claim that failed is known not to have happened.
func undone(err error) bool {
	by, tells := told[interface{ Undone() bool }](err)
	return tells && by.Undone()
}

// passing tells whether an error is expected and passes by itself.
func passing(err error) bool {
	by, tells := told[interface{ Passing() bool }](err)
	return tells && by.Passing()
}

// refusedRows tells which rows the table does not let us claim.
func refusedRows(err error) map[int64]string {
	if by, tells := told[interface{ Refused() map[int64]string }](err); tells {
		return by.Refused()
	}
	return nil
}

// round is one claim: for all targets that have room, or for one whose claims have failed.
type round struct {
	room   map[string]int
	asked  map[string]int // the poll that the claim answers
	except []int64
}

// claim claims once; more tells whether there was room. It claims nothing while the mirror can't write to
// the table, even where a claim would succeed: with LaunchOffline the worker would start jobs all the
// same, and owe the table ever more. When the mirror is back, the worker polls.
func (w *Worker) claim(ctx context.Context) (more bool, err error) {
	if IsClosed(w.Mirror.Away()) {
		w.claims.away = true
		return false, nil
	}
	if w.claims.away {
		w.claims.away = false
		w.renew()
		return true, nil
	}
	w.seen(w.Mirror.Reached())
	r := w.nextRound()
	if len(r.room) == 0 {
		return false, nil
	}
	if err := w.Disk.Check(); err != nil {
		return false, err
	}
	c := claiming{worker: w, asked: time.Now()}
	c.accept = func(of *board.Claim, row journal.Row, token, instance string) ([]journal.Draft, string) {
		return w.board.Accept(of, row, token, instance, time.Now()), ""
	}
	err = w.Table.Claim(ctx, r.room, r.except, c.decide)
	w.Observer.Claimed(time.Since(c.asked), err)
	if err != nil {
		return true, w.claimFailed(ctx, r, &c, err)
	}
	w.won(&c.Claim)
	return true, w.lookFor(ctx, w.claimSucceeded(r, &c))
}

// nextRound tells how much to claim for which targets. Those whose claims have failed are claimed for
// one by one, in turns with all others.
func (w *Worker) nextRound() round {
	w.mu.Lock()
	defer w.mu.Unlock()
	together, now := make(map[string]int), time.Now()
	rounds, trials := []map[string]int{}, make(map[*board.Starter]bool)
	for _, name := range w.board.Names() {
		t := w.targets[name]
		t.bucket.set(w.Terms[name].Rate, now)
		n, s := t.room(w.Prefetch, now), t.Starter()
		// While a starter can start nothing, only one of its targets claims: its job shows whether that is over.
		if why, _ := s.Why(); why != "" && n > 0 {
			if trials[s] {
				continue
			}
			trials[s] = true
		}
		switch {
		case n <= 0:
		case t.trouble.alone:
			rounds = append(rounds, map[string]int{name: n})
		default:
			together[name] = n
		}
	}
	if len(together) > 0 || len(rounds) == 0 {
		rounds = append(rounds, together)
	}
	w.claims.rounds++
	r := round{room: rounds[w.claims.rounds%len(rounds)], asked: make(map[string]int)}
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

// except lists the rows of targets that a claim must leave out: quarantined, in doubt, or waiting
// while their job is still under way here. Callers must hold w.mu.
func (w *Worker) except(room map[string]int) (ids []int64) {
	ids = w.board.Skipped(func(target string) bool { _, asked := room[target]; return asked })
	for id, q := range w.quarantined {
		if _, asked := room[q.Target]; asked && !q.rest.Due.IsZero() {
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
	seen := make(map[string]int)
	for _, target := range c.found {
		seen[target]++
	}
	for name, n := range r.room {
		t, served := w.targets[name]
		if !served {
			continue
		}
		t.trouble.ended()
		if w.Prefetch < 0 {
			t.Claimed(seen[name] >= n, time.Now())
		}
		if seen[name] > 0 {
			t.locked = locked{}
		}
		if seen[name] < n {
			w.exhausted(t)
			t.polled = r.asked[name]
			if t.Open() {
				short = append(short, name)
			}
		}
	}
	slices.Sort(short)
	return short
}

// ended notes that a claim for the target has succeeded.
func (t *trouble) ended() {
	*t = trouble{narrow: 2 * t.narrow}
	if t.narrow > wide {
		t.narrow = 0
	}
}

// wide is the number of rows above which a claim needs no limit of its own any more.
const wide = 1000

// claimFailed does what follows a claim that failed. It fails where the error concerns everything.
func (w *Worker) claimFailed(ctx context.Context, r round, c *claiming, err error) error {
	refused := refusedRows(err)
	w.change(func(b *board.Board) board.Effects { return b.Doubt(&c.Claim, lostReason(err, refused)) })
	if concernsAll(ctx, err) {
		return err
	}
	if known := illegal(err); known != nil && known.Job != 0 {
		refused = map[int64]string{known.Job: "the journal holds it as under way: " + known.Error()}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range r.room {
		if t, served := w.targets[name]; served {
			w.claimsFail(t, c, refused, len(r.room) == 1, err)
		}
	}
	return nil
}

// lostReason gives a function that tells, for each row, why a claim is given up that certainly did not
// happen. It gives nil where the claim may have happened.
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

// claimsFail does what follows a claim that failed, with the rows that it had taken of a target. It
// quarantines the rows that the table refuses. Then the worker claims the others again, without rows that
// come after them: else the others would wait until all refused rows are known. Where nobody knows which
// rows are at fault, the worker claims for the target alone, half as many rows each time, down to a single
// one, which it quarantines. So no error, whatever its number says, holds up more than the rows that it is
// about. Callers must hold w.mu.
func (w *Worker) claimsFail(t *target, c *claiming, refused map[int64]string, alone bool, err error) {
	trouble, bad := &t.trouble, false
	for _, id := range slices.Sorted(maps.Keys(refused)) {
		if c.found[id] == t.Name() {
			w.quarantine(id, t.Name(), refused[id])
			bad = true
		}
	}
	taken := slices.DeleteFunc(slices.Clone(c.changes), func(id int64) bool {
		_, is := refused[id]
		return is || c.found[id] != t.Name()
	})
	switch {
	case bad && len(w.quarantined) >= w.mostQuarantined: // it rests
	case bad && len(taken) > 0:
		trouble.narrow = len(taken)
		return
	case bad:
		trouble.ended()
		return
	case len(refused) > 0: // rows of other targets are at fault
		return
	case alone && len(taken) == 1:
		w.quarantine(taken[0], t.Name(), "claims fail: "+err.Error())
	case alone && len(taken) > 1:
		trouble.narrow = len(taken) / 2
	}
	trouble.rest.Grow(time.Now(), firstRest, longRest)
	if trouble.alone = true; !alone {
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
}

// claiming is one claim under way.
type claiming struct {
	worker *Worker
	asked  time.Time // when the table was asked
	accept accepting
	wish   *wish            // of a client that wants jobs run; nil: what is journalled of each row tells who asked
	found  map[int64]string // rows, with their targets

	refusals map[int64]string // why rows are left as they are
	changes  []int64          // rows that something is journalled of
	later    []int64          // others

	board.Claim
}

// accepting is what the board makes of a row that was found: drafts, or why it is left as it is. A row that
// a client has named, and of which there is neither, is tried again a little later. Callers must hold w.mu.
type accepting func(c *board.Claim, row journal.Row, token, instance string) (drafts []journal.Draft, refusal string)

const errStopping = RefusedError("worker is stopping")

// decide journals what becomes of the rows.
func (c *claiming) decide(rows []journal.Row) ([]journal.Event, error) {
	w := c.worker
	c.found, c.refusals = make(map[int64]string, len(rows)), make(map[int64]string)
	instance, _ := w.runnerName() // "" where there is none to be had at the moment
	var drafts []journal.Draft
	w.mu.Lock()
	w.readAt(rows, c.asked, time.Now())
	token := newToken(w.identity.workerID)
	for _, row := range rows {
		c.found[row.Job] = row.Target
		accepted, refusal := c.accept(&c.Claim, row, token, instance)
		drafts = append(drafts, accepted...)
		switch {
		case refusal != "":
			c.refusals[row.Job] = refusal
		case len(accepted) == 0:
			c.later = append(c.later, row.Job)
		default:
			c.changes = append(c.changes, row.Job)
		}
	}
	w.mu.Unlock()
	return c.decided(drafts)
}

// decided journals the drafts of a claim. Where the client's request is not in the journal yet, it goes
// there first, in the same append.
func (c *claiming) decided(drafts []journal.Draft) (events []journal.Event, err error) {
	w, asks := c.worker, c.wish != nil && !c.wish.journalled.Load()
	if asks && len(drafts) > 0 {
		drafts = append([]journal.Draft{c.wish.draft()}, drafts...)
	}
	if len(drafts) > 0 {
		events, err = w.append(drafts...)
	}
	if asks && len(events) > 0 {
		c.wish.journalled.Store(true)
		events = events[1:] // the table knows nothing of requests
	}
	w.change(func(b *board.Board) board.Effects {
		if err != nil {
			return b.Withdraw(&c.Claim)
		}
		b.Decided(&c.Claim, events)
		return board.Effects{}
	})
	return c.Events, err
}

// won goes on with what a claim has won.
func (w *Worker) won(c *board.Claim) {
	w.change(func(b *board.Board) board.Effects {
		for _, e := range c.Events {
			if e.Kind() != journal.KindAccepted { // else its start shows whether nothing is wrong with the row
				delete(w.quarantined, e.Job)
			}
		}
		return b.Won(c)
	})
}

// resolve asks the table which of the claims in doubt were won, and gives up the others. Rows that
// somebody holds stay in doubt and hold up nothing else.
func (w *Worker) resolve(ctx context.Context) error {
	w.mu.Lock()
	ids := w.board.DueDoubts(time.Now())
	w.mu.Unlock()
	if len(ids) > 0 {
		rows, locked, err := w.Table.Rows(ctx, ids)
		w.change(func(b *board.Board) board.Effects { return b.Judge(ids, rows, locked, err == nil, time.Now()) })
		if concernsAll(ctx, err) {
			return err
		}
		w.mu.Lock()
		if len(w.board.DueDoubts(time.Now())) > 0 { // more than are asked about at once
			w.wake()
		}
		w.mu.Unlock()
	}
	return w.giveUp()
}

// giveUp journals released for claims that were not won. One that the journal holds as over already is
// only forgotten.
func (w *Worker) giveUp() error {
	w.mu.Lock()
	lost := w.board.LostDoubts()
	w.mu.Unlock()
	for len(lost) > 0 {
		_, err := w.append(lost...)
		known := illegal(err)
		if err != nil && (known == nil || known.Job == 0) {
			return err
		}
		over := func(d journal.Draft) bool { return known == nil || d.Job == known.Job }
		w.change(func(b *board.Board) board.Effects {
			return b.GivenUp(slices.DeleteFunc(slices.Clone(lost), func(d journal.Draft) bool { return !over(d) }))
		})
		lost = slices.DeleteFunc(lost, over)
		w.lookAgain()
	}
	return nil
}

// How long a target waits until it looks again for rows that somebody else's lock has hidden.
const (
	firstLook = 50 * time.Millisecond
	longLook  = time.Second
)

// lookFor asks whether rows still wait of targets for which a claim came back short, and when delayed rows of
// them are due next. The claim found none that it could lock; but somebody may hold some: a connection of a
// dead worker that the server has not noticed yet, a transaction of the application. Those targets look again,
// until no row waits.
func (w *Worker) lookFor(ctx context.Context, short []string) error {
	if len(short) == 0 {
		return nil
	}
	w.mu.Lock()
	room := make(map[string]int, len(short))
	for _, name := range short {
		room[name] = 1
	}
	except := w.except(room)
	w.mu.Unlock()
	left, err := w.Table.Waiting(ctx, short, except)
	if concernsAll(ctx, err) {
		return err
	}
	due, unknown := w.askDue(ctx, short, except)
	if concernsAll(ctx, unknown) {
		return unknown
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for _, name := range short {
		t, served := w.targets[name]
		if !served {
			continue
		}
		next, delayed := due.Next[name]
		isDue := delayed && !dueAt(next).After(w.clock.now(now))
		if delayed && !isDue {
			t.comes(next)
		}
		if waits := err != nil || slices.Contains(left, name); waits {
			t.locked.note(err, now)
		} else if t.locked = (locked{}); unknown == nil && !isDue { // due since the claim, or somebody holds it
			t.look = board.Backoff{}
			continue
		}
		t.look.Grow(now, firstLook, longLook)
	}
	return nil
}

// Poll makes the worker look for jobs of some targets (none named: all). It returns at once; what
// was asked for is not forgotten until the table has answered, however long it is away.
func (w *Worker) Poll(names []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	targets, err := w.find(names)
	if err != nil {
		return err
	}
	for _, t := range targets {
		w.poll(t.Name())
	}
	return nil
}

// PollAll is Poll for all targets.
func (w *Worker) PollAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.poll(w.board.Names()...)
}

// GivenBack is Poll for those of some targets that are served here: rows of theirs wait again.
func (w *Worker) GivenBack(names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.poll(names...)
}

// poll notes that targets want a look at the table, as far as they are served here. Callers must hold w.mu.
func (w *Worker) poll(names ...string) {
	for _, name := range names {
		if t, served := w.targets[name]; served {
			t.polls++
			w.wake()
		}
	}
}

// find gives the targets of these names, or all. Callers must hold w.mu.
func (w *Worker) find(names []string) ([]*target, error) {
	if names == nil {
		names = w.board.Names()
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

// nextPoll is the time of the next poll that nobody asks for; zero where there is none. It is off
// by up to a fifth of the interval, so that workers that were started together do not poll
// together.
func (w *Worker) nextPoll(now time.Time) time.Time {
	if w.PollInterval <= 0 {
		return time.Time{}
	}
	fifth := w.PollInterval / 5
	return now.Add(w.PollInterval - fifth + rand.N(2*fifth+1))
}
