package simulation

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

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

	mu         sync.Mutex
	memory     *storetest.Memory
	waits      map[string]*ids    // by target: each row that waits, and some that did
	marked     map[string][]int64 // by worker id: rows that were claimed with it
	holders    map[string]holder  // of advisory locks
	busy       []time.Time        // until when, by processor
	slow       int                // how many times as long everything takes
	away       bool               // it can't be reached
	inserted   map[int64]time.Time
	commits    int
	claims     int
	left       int // rows that have not come to their end
	lastChange time.Time
}

// ids is a heap of rows.
type ids []int64

func (h ids) Len() int           { return len(h) }
func (h ids) Less(i, j int) bool { return h[i] < h[j] }
func (h ids) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *ids) Push(id any)       { *h = append(*h, id.(int64)) }
func (h *ids) Pop() any {
	last := len(*h) - 1
	id := (*h)[last]
	*h = (*h)[:last]
	return id
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
		w: w, memory: storetest.NewMemory(serverID), waits: map[string]*ids{},
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
		s.waiting(target, id)
	}
	s.lastChange = time.Now()
}

// waiting notes that a row waits. Callers must hold s.mu.
func (s *server) waiting(target string, id int64) {
	if s.waits[target] == nil {
		s.waits[target] = &ids{}
	}
	heap.Push(s.waits[target], id)
}

// take takes up to n rows of a target that wait, are not locked and not in except. Callers must hold s.mu.
func (s *server) take(target string, n int, except []int64) (taken []int64) {
	all, passed := s.waits[target], []int64(nil)
	for all != nil && len(*all) > 0 && len(taken) < n {
		id := heap.Pop(all).(int64)
		if row := s.memory.Rows[id]; row.Status != journal.RowWaiting || len(taken) > 0 && taken[len(taken)-1] == id {
			continue
		}
		if _, is := slices.BinarySearch(except, id); is || s.memory.Locked[id] {
			passed = append(passed, id)
			continue
		}
		taken = append(taken, id)
	}
	for _, id := range passed {
		heap.Push(all, id)
	}
	return taken
}

// session is the connection of a worker's process to the table.
type session struct {
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
	c.mu.Lock()
	defer c.mu.Unlock()
	lost := holder{c, c.connection}
	c.connection++
	c.broken = true
	c.w.after(lasts, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.broken = false
	})
	c.w.after(c.w.upTo(8*time.Second), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		maps.DeleteFunc(c.holders, func(_ string, by holder) bool { return by == lost })
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
	now := time.Now()
	free := 0
	for i, until := range c.busy {
		if until.Before(c.busy[free]) {
			free = i
		}
	}
	until := now
	if c.busy[free].After(now) {
		until = c.busy[free]
	}
	until = until.Add(work * time.Duration(c.slow))
	c.busy[free] = until
	c.mu.Unlock()
	if err := rest(ctx, until.Sub(now)+2*trip); err != nil {
		return connection, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.whole(connection) {
		return connection, unreachable(op)
	}
	return connection, nil
}

// Claim implements exec.Claimer.
func (c *session) Claim(ctx context.Context, room map[string]int, except []int64, decide store.Decide) error {
	pick := func() (ids, _ []int64) {
		c.claims++
		for _, target := range slices.Sorted(maps.Keys(room)) {
			ids = append(ids, c.take(target, room[target], except)...)
		}
		return ids, nil
	}
	_, err := c.transact(ctx, pick, false, decide)
	return err
}

// ClaimManual implements exec.Claimer and store.Applier.
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
		c.lastChange = time.Now()
		_, err := c.memory.ClaimManual(context.Background(), ids, nil, func([]journal.Row) ([]journal.Event, error) { return events, nil })
		if err != nil {
			c.w.violated("the table refuses a claim of %s: %v", c.name, err)
		}
	}
	for _, id := range ids {
		row := c.memory.Rows[id]
		if row.Status == journal.RowWaiting {
			c.waiting(row.Target, id)
		} else if len(row.Owner) > workerID && len(events) > 0 {
			c.marked[row.Owner[:workerID]] = append(c.marked[row.Owner[:workerID]], id)
		}
		c.w.note("claimed", id, row.Status, row.Owner)
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

// Apply implements store.Applier.
func (c *session) Apply(ctx context.Context, changes []store.Change) ([]store.Outcome, error) {
	c.w.mayKill(c.p, 0.002)
	_, err := c.ask(ctx, "apply", perStatement+perCommit+time.Duration(len(changes))*perRow)
	lost := c.w.chance("commits", 0.02)
	if arrived := err == nil && !lost || c.w.coin() && !c.p.isDead(); !arrived {
		return nil, cmp.Or(err, unreachable("apply"))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := make([]string, len(changes))
	for i, change := range changes {
		before[i] = c.memory.Rows[change.Job].Status
	}
	outcomes, failed := c.memory.Apply(ctx, changes)
	c.commits++
	for i, change := range changes {
		if outcomes[i].Fate != store.Applied {
			continue
		}
		switch row := c.memory.Rows[change.Job]; {
		case row.Status == before[i]:
		case row.Status == journal.RowWaiting:
			c.waiting(row.Target, change.Job)
		case row.Status == journal.RowDone:
			c.left--
		}
		c.lastChange = time.Now()
		c.w.note("applied", change.Job, change.Status, change.Token)
	}
	if err != nil || lost {
		return nil, cmp.Or(err, unreachable("apply"))
	}
	return outcomes, failed
}

// Rows implements exec.Claimer.
func (c *session) Rows(ctx context.Context, ids []int64) (rows []journal.Row, locked []int64, err error) {
	if _, err := c.ask(ctx, "look", perStatement); err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	free, locked := c.free(ids)
	for _, id := range free {
		rows = append(rows, c.memory.Rows[id].Row)
	}
	return rows, locked, nil
}

// Waiting implements exec.Claimer.
func (c *session) Waiting(ctx context.Context, targets []string, except []int64) (left []string, err error) {
	if _, err := c.ask(ctx, "look", perStatement); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, target := range targets {
		one := c.take(target, 1, except)
		for _, id := range one {
			heap.Push(c.waits[target], id)
		}
		if len(one) > 0 || c.lockedWaits(target, except) {
			left = append(left, target)
		}
	}
	return left, nil
}

// lockedWaits tells whether a row of a target waits that somebody holds. Callers must hold c.mu.
func (c *session) lockedWaits(target string, except []int64) bool {
	for id := range c.memory.Locked {
		_, is := slices.BinarySearch(except, id)
		if row := c.memory.Rows[id]; !is && row.Target == target && row.Status == journal.RowWaiting {
			return true
		}
	}
	return false
}

// UnderWay implements exec.Claimer. No row is under way that bears no token.
func (c *session) UnderWay(ctx context.Context, owner string, _ []string) (rows []journal.Row, err error) {
	if _, err := c.ask(ctx, "look", perStatement); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marked[owner] = slices.DeleteFunc(c.marked[owner], func(id int64) bool {
		row := c.memory.Rows[id]
		return !row.UnderWay() || !strings.HasPrefix(row.Owner, owner)
	})
	slices.Sort(c.marked[owner])
	c.marked[owner] = slices.Compact(c.marked[owner])
	for _, id := range c.marked[owner] {
		rows = append(rows, c.memory.Rows[id].Row)
	}
	return rows, nil
}

// Look implements store.Applier.
func (c *session) Look(ctx context.Context, ids []int64) (map[int64]*store.Seen, error) {
	if _, err := c.ask(ctx, "look", perStatement); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.memory.Look(ctx, ids)
}

// Hold implements exec.Claimer.
func (c *session) Hold(ctx context.Context, name string) (string, error) {
	return c.held(ctx, name, true)
}

// Holder implements exec.Claimer.
func (c *session) Holder(ctx context.Context, name string) (string, error) {
	return c.held(ctx, name, false)
}

func (c *session) held(ctx context.Context, name string, take bool) (string, error) {
	connection, err := c.ask(ctx, "lock", perStatement)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	by, held := c.holders[name]
	switch {
	case held && by != holder{c, connection}:
		return by.String(), nil
	case take:
		c.holders[name] = holder{c, connection}
	}
	return "", nil
}

// Server implements store.Applier.
func (c *session) Server(ctx context.Context) (string, error) {
	_, err := c.ask(ctx, "look", perStatement)
	return serverID, err
}

// Confirm implements store.Applier.
func (c *session) Confirm(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.confirmed = id
}

// Names implements exec.Claimer: all names are fit.
func (c *session) Names(ctx context.Context, _ []string) (map[string]string, error) {
	_, err := c.ask(ctx, "look", perStatement)
	return nil, err
}

// NextDue implements exec.Claimer: no row is delayed.
func (c *session) NextDue(context.Context, []string, []int64) (none journal.Due, err error) {
	return none, nil
}

// hold has the application lock some rows that have not ended, or a rule refuse them, for a time.
func (s *server) hold(of map[int64]bool, random *rand.Rand, lasts time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var held []int64
	for range 5 {
		if id := 1 + random.Int64N(int64(len(s.memory.Rows)+1)); s.memory.Rows[id] != nil && !s.memory.Locked[id] && s.memory.Rows[id].Status != journal.RowDone {
			of[id] = true
			held = append(held, id)
		}
	}
	s.w.after(lasts, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, id := range held {
			delete(of, id)
		}
	})
}
