package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/store"
	"jobd/store/storetest"
)

// serverID is the identity of the table's server.
const serverID = "one"

// What the server's processors need for a statement, and for each row of it, and what a packet takes.
const (
	perStatement = 100 * time.Microsecond
	perRow       = 15 * time.Microsecond
	perCommit    = 400 * time.Microsecond
	trip         = 100 * time.Microsecond
)

// server is a jobs table with transactions, row locks and advisory locks. What becomes of rows is said by
// the table in memory of storetest, which has the guards of a real one.
type server struct {
	w *world

	mu       sync.Mutex
	memory   *storetest.Memory
	waits    map[string][]int64 // by target: the rows that wait, locked ones too
	marked   map[string][]int64 // by worker id: rows that were claimed with it
	holders  map[string]holder  // of advisory locks
	busy     []time.Time        // until when, by processor
	slow     int                // how many times as long everything takes
	away     bool               // it can't be reached
	inserted map[int64]time.Time
	commits  int
	claims   int
	left     int       // rows that have not come to their end
	moved    time.Time // when a row was inserted or came to its end last
}

// holder is a connection that holds an advisory lock.
type holder struct {
	session    *session
	connection int
}

func (h holder) String() string {
	return fmt.Sprintf("%s, connection %d", h.session.name, h.connection)
}

func newServer(w *world) *server {
	s := &server{
		w: w, memory: storetest.NewMemory(serverID), waits: map[string][]int64{},
		marked: map[string][]int64{}, holders: map[string]holder{}, busy: make([]time.Time, 4), slow: 1, inserted: map[int64]time.Time{},
	}
	s.memory.Confirm(serverID)
	return s
}

// insert is what the application does.
func (s *server) insert(target string, ids ...int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		row := s.memory.Put(id, journal.RowWaiting, "")
		row.Target, row.Created = target, time.Now().Unix()
		s.inserted[id] = time.Now()
		s.left++
		s.changed(id)
	}
	s.moved = time.Now()
}

// changed takes in what a row says by now. Callers must hold s.mu.
func (s *server) changed(id int64) {
	row := s.memory.Rows[id]
	list := s.waits[row.Target]
	at, listed := slices.BinarySearch(list, id)
	switch waits := row.Status == journal.RowWaiting; {
	case waits && !listed:
		s.waits[row.Target] = slices.Insert(list, at, id)
	case !waits && listed:
		s.waits[row.Target] = slices.Delete(list, at, at+1)
	}
	s.w.note("row", id, row.Status, row.Owner)
}

// take gives up to n rows of a target that wait, are not locked, unless those count, and are not in except.
// Callers must hold s.mu.
func (s *server) take(target string, n int, except []int64, locked bool) (taken []int64) {
	for _, id := range s.waits[target] {
		if len(taken) == n {
			break
		}
		if _, is := slices.BinarySearch(except, id); !is && (locked || !s.memory.Locked[id]) {
			taken = append(taken, id)
		}
	}
	return taken
}

// session is the connection of a worker's process to the table.
type session struct {
	jobexec.Claimer // for what is not needed: rows that are delayed
	*server
	p          *process
	name       string
	connection int
	broken     bool // the link is down
	confirmed  string
}

var errLink = errors.New("the connection is lost")

func unreachable(op string) error { return &store.Unreachable{Op: op, Err: errLink} }

// cut loses the connection, and has no other for a time. The server misses it after some time more.
func (c *session) cut(lasts time.Duration) {
	c.trouble(lasts, func(on bool) { c.connection, c.broken = c.connection+count(on), on })
	c.trouble(c.w.upTo(8*time.Second), func(on bool) {
		maps.DeleteFunc(c.holders, func(_ string, by holder) bool { return !on && by.session == c && by.connection < c.connection })
	})
}

// whole tells whether a connection is still there. Callers must hold c.mu.
func (c *session) whole(connection int) bool {
	return !c.broken && !c.away && c.connection == connection && !c.p.isDead()
}

// ask has the server work. It gives the connection that was asked over.
func (c *session) ask(ctx context.Context, op string, work time.Duration) (connection int, err error) {
	c.mu.Lock()
	connection = c.connection
	if !c.whole(connection) {
		c.mu.Unlock()
		if rest(ctx, trip) != nil {
			return 0, ctx.Err()
		}
		return 0, unreachable(op)
	}
	first := &c.busy[0] // the processor that is free first
	for i := range c.busy {
		if c.busy[i].Before(*first) {
			first = &c.busy[i]
		}
	}
	*first = time.Now().Add(max(0, time.Until(*first)) + work*time.Duration(c.slow))
	done := time.Until(*first) + 2*trip
	c.mu.Unlock()
	if err := rest(ctx, done); err != nil {
		return connection, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.whole(connection) {
		return connection, unreachable(op)
	}
	return connection, nil
}

func (c *session) Claim(ctx context.Context, room map[string]int, except []int64, decide store.Decide) error {
	pick := func() (ids, _ []int64) {
		c.claims++
		for _, target := range slices.Sorted(maps.Keys(room)) {
			ids = append(ids, c.take(target, room[target], except, false)...)
		}
		return ids, nil
	}
	_, err := c.transact(ctx, pick, false, decide)
	return err
}

func (c *session) ClaimManual(ctx context.Context, ids []int64, _ []string, decide store.Decide) (locked []int64, err error) {
	return c.transact(ctx, func() (free, locked []int64) { return c.free(ids) }, true, decide)
}

// free parts rows that exist into those that nobody holds and those that somebody does. Callers must hold c.mu.
func (c *session) free(ids []int64) (free, locked []int64) {
	for _, id := range ids {
		switch {
		case c.memory.Locked[id]:
			locked = append(locked, id)
		case c.memory.Rows[id] != nil:
			free = append(free, id)
		}
	}
	return free, locked
}

// transact locks the rows that pick gives, has them decided on, and commits. Where there is none, always tells
// whether decide is called.
func (c *session) transact(ctx context.Context, pick func() (ids, locked []int64), always bool, decide store.Decide) (locked []int64, err error) {
	connection, err := c.ask(ctx, "claim", perStatement)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	if c.confirmed != serverID && !store.IsComparing(ctx) {
		c.mu.Unlock()
		return nil, &store.AnotherServer{Reached: serverID, Confirmed: c.confirmed}
	}
	picked, locked := pick()
	rows := c.lock(picked)
	c.mu.Unlock()
	if len(rows) == 0 && !always {
		return locked, nil
	}
	events, err := decide(rows)
	if err != nil || len(events) == 0 {
		c.end(picked, nil)
		return locked, err
	}
	return locked, c.commit(ctx, connection, picked, events)
}

// lock locks rows. Callers must hold c.mu.
func (c *session) lock(ids []int64) (rows []journal.Row) {
	for _, id := range ids {
		row := c.memory.Rows[id].Row
		row.Now = time.Now()
		rows = append(rows, row)
		c.memory.Locked[id] = true
	}
	return rows
}

// end ends a transaction: its rows are free, and show the events, if there are any.
func (c *session) end(ids []int64, events []journal.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		delete(c.memory.Locked, id)
	}
	if len(events) > 0 {
		c.commits++
		_, err := c.memory.ClaimManual(context.Background(), ids, nil, func([]journal.Row) ([]journal.Event, error) { return events, nil })
		if err != nil {
			c.w.violated("the table refuses a claim of %s: %v", c.name, err)
		}
	}
	for _, id := range ids {
		if row := c.memory.Rows[id]; len(events) > 0 && len(row.Owner) > workerID {
			c.marked[row.Owner[:workerID]] = append(c.marked[row.Owner[:workerID]], id)
		}
		c.changed(id)
	}
}

// workerID is how much of a token tells the worker.
const workerID = len("@abcd")

// commit commits. Sometimes nobody hears what became of that: the request is lost, or the answer, and the
// server ends the transaction in its own time.
func (c *session) commit(ctx context.Context, connection int, ids []int64, events []journal.Event) error {
	refused := map[int64]string{}
	c.mu.Lock()
	for _, e := range events {
		if c.memory.Refused[e.Job] {
			refused[e.Job] = "CHECK constraint fails"
		}
	}
	c.mu.Unlock()
	switch {
	case len(refused) > 0:
		c.end(ids, nil)
		return &store.RefusedRows{Rows: refused, Err: errors.New("CHECK constraint fails")}
	case c.w.chance("commits", 0.01):
		c.end(ids, nil)
		return &store.Overtaken{Err: errors.New("deadlock")}
	}
	c.w.mayKill(c.p, 0.002)
	asked, err := c.ask(ctx, "commit", perCommit+time.Duration(len(ids))*perRow)
	if err == nil && asked == connection && !c.w.chance("commits", 0.02) {
		c.end(ids, events)
		c.w.mayKill(c.p, 0.002)
		return nil
	}
	if c.w.coin() { // it never arrived
		events = nil
	}
	var late time.Duration
	if c.w.coin() {
		late = c.w.upTo(8 * time.Second)
	}
	c.w.after(late, func() { c.end(ids, events) })
	return cmp.Or(err, unreachable("commit"))
}

func (c *session) Apply(ctx context.Context, changes []store.Change) ([]store.Outcome, error) {
	c.w.mayKill(c.p, 0.002)
	_, err := c.ask(ctx, "apply", perStatement+perCommit+time.Duration(len(changes))*perRow)
	lost := c.w.chance("commits", 0.02)
	if arrived := err == nil && !lost || c.w.coin() && !c.p.isDead(); !arrived {
		return nil, cmp.Or(err, unreachable("apply"))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	undone := func(change store.Change) int { return count(c.memory.Rows[change.Job].Status != journal.RowDone) }
	before := c.left
	for _, change := range changes {
		c.left -= undone(change)
	}
	outcomes, failed := c.memory.Apply(ctx, changes)
	c.commits++
	for _, change := range changes {
		c.left += undone(change)
		c.changed(change.Job)
	}
	if c.left < before {
		c.moved = time.Now()
	}
	if err != nil || lost {
		return nil, cmp.Or(err, unreachable("apply"))
	}
	return outcomes, failed
}

// look looks at the table.
func (c *session) look(ctx context.Context, do func()) error {
	if _, err := c.ask(ctx, "look", perStatement); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
	return nil
}

func (c *session) Rows(ctx context.Context, ids []int64) (rows []journal.Row, locked []int64, err error) {
	err = c.look(ctx, func() {
		ids, locked = c.free(ids)
		for _, id := range ids {
			rows = append(rows, c.memory.Rows[id].Row)
		}
	})
	return rows, locked, err
}

func (c *session) Waiting(ctx context.Context, targets []string, except []int64) (left []string, err error) {
	err = c.look(ctx, func() {
		for _, target := range targets {
			if len(c.take(target, 1, except, true)) > 0 {
				left = append(left, target)
			}
		}
	})
	return left, err
}

// UnderWay implements exec.Claimer. No row is under way that bears no token.
func (c *session) UnderWay(ctx context.Context, owner string, _ []string) (rows []journal.Row, err error) {
	err = c.look(ctx, func() {
		slices.Sort(c.marked[owner])
		c.marked[owner] = slices.DeleteFunc(slices.Compact(c.marked[owner]), func(id int64) bool {
			row := c.memory.Rows[id]
			return !row.UnderWay() || !strings.HasPrefix(row.Owner, owner)
		})
		for _, id := range c.marked[owner] {
			rows = append(rows, c.memory.Rows[id].Row)
		}
	})
	return rows, err
}

func (c *session) Look(ctx context.Context, ids []int64) (seen map[int64]*store.Seen, err error) {
	err = c.look(ctx, func() { seen, _ = c.memory.Look(ctx, ids) })
	return seen, err
}

func (c *session) Hold(ctx context.Context, name string) (string, error) {
	return c.held(ctx, name, true)
}

func (c *session) Holder(ctx context.Context, name string) (string, error) {
	return c.held(ctx, name, false)
}

func (c *session) held(ctx context.Context, name string, take bool) (by string, err error) {
	err = c.look(ctx, func() {
		ours := holder{c, c.connection}
		switch other, held := c.holders[name]; {
		case held && other != ours:
			by = other.String()
		case take:
			c.holders[name] = ours
		}
	})
	return by, err
}

func (c *session) Server(ctx context.Context) (string, error) {
	return serverID, c.look(ctx, func() {})
}

func (c *session) Confirm(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.confirmed = id
}

// Names implements exec.Claimer: all names are fit.
func (c *session) Names(ctx context.Context, _ []string) (map[string]string, error) {
	return nil, c.look(ctx, func() {})
}

// hold has the application lock some of the newest rows, or a rule refuse them, for a time.
func (s *server) hold(of map[int64]bool, random *rand.Rand, lasts time.Duration) {
	var held []int64
	s.trouble(lasts, func(on bool) {
		for id := int64(len(s.memory.Rows)); on && len(held) < 10 && id > 0; id -= random.Int64N(10) {
			if row := s.memory.Rows[id]; row != nil && !s.memory.Locked[id] && !of[id] && row.Status != journal.RowDone {
				of[id] = true
				held = append(held, id)
			}
		}
		for i := range len(held) * count(!on) {
			delete(of, held[i])
		}
	})
}

// trouble turns a trouble on, and off after a time.
func (s *server) trouble(lasts time.Duration, turn func(on bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	turn(true)
	s.w.after(lasts, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		turn(false)
	})
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}
