package storetest

import (
	"context"
	"database/sql"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

func detailTests() []test {
	return []test{
		{"all of a row, and of none that is missing", detailShowsAll},
		{"columns that are NULL", detailOfNulls},
		{"the end of what a job wrote", detailOfOutput},
		{"how many wait before a row", aheadCounts},
		{"no more are counted than are wanted", aheadIsBounded},
		{"neither waits for a writer", detailWaitsForNobody},
	}
}

// details compares what Details tells of one row.
func (s *suite) detail(id int64, targets []string, tail int, want *store.Detail) {
	s.Helper()
	got, err := s.Table.Details(s.within(hung), []int64{id, 999_999}, targets, tail)
	if err != nil {
		s.Fatalf("Details: %v", err)
	}
	check.Diff(s, map[int64]*store.Detail{id: want}, got, "row")
}

func detailShowsAll(s *suite) {
	id := s.insert("a", journal.RowDone, "SIGKILL")
	s.exec("UPDATE jobs SET time_started = 5, time_finished = 7, result = 'fail', return_code = 3, stdout = 'out', stderr = 'errors' WHERE id = ?", id)
	three := int64(3)
	want := &store.Detail{
		Seen: store.Seen{
			Row:     journal.Row{Job: id, Target: "a", Status: journal.RowDone, Owner: "SIGKILL"},
			Created: 1, Started: 5, Finished: 7, Result: "fail", Code: &three, Signal: "SIGKILL",
		},
		Code: "3", Sig: "SIGKILL", Served: "a",
		Stdout: store.Written{Size: 3, Tail: "out"}, Stderr: store.Written{Size: 6, Tail: "rors"},
	}
	s.detail(id, []string{"b", "a"}, 4, want)
	want.Served, want.Stdout.Tail, want.Stderr.Tail = "", "", ""
	s.detail(id, nil, 0, want)
	if got, err := s.Table.Details(s.Context(), nil, nil, 0); err != nil || len(got) > 0 {
		s.Errorf("details of nothing: %v, %v", got, err)
	}
}

func detailOfNulls(s *suite) {
	id := s.insert("a", journal.RowWaiting, "")
	s.detail(id, []string{"b"}, 100, &store.Detail{
		Seen: store.Seen{Row: journal.Row{Job: id, Target: "a", Status: journal.RowWaiting}, Created: 1},
	})
}

// What is cut begins with a whole character.
func detailOfOutput(s *suite) {
	id := s.insert("a", journal.RowDone, "")
	text := strings.Repeat("x", 1<<16) + "ü€\n"
	s.exec("UPDATE jobs SET stdout = ?, stderr = ? WHERE id = ?", text, "€", id)
	got := must.Get(s.Table.Details(s.Context(), []int64{id}, nil, 5))(s)
	if out := got[id].Stdout; out != (store.Written{Size: 1<<16 + 6, Tail: "€\n"}) {
		s.Errorf("stdout: %+v", out)
	}
	if errs := got[id].Stderr; errs != (store.Written{Size: 3, Tail: "€"}) {
		s.Errorf("stderr: %+v", errs)
	}
}

// ahead compares what Ahead tells.
func (s *suite) ahead(most int, waiters []store.Waiter, want map[int64]store.Counted) {
	s.Helper()
	got, err := s.Table.Ahead(s.within(hung), waiters, most)
	if err != nil {
		s.Fatalf("Ahead: %v", err)
	}
	check.Diff(s, want, got, "rows ahead, up to %d", most)
}

func aheadCounts(s *suite) {
	a := s.insertAll(3, "a", journal.RowWaiting, "")
	s.insert("a", journal.RowManual, "")
	s.insert("a", journal.RowRunning, token)
	b := s.insertAll(2, "b", journal.RowWaiting, "")
	last := s.insert("a", journal.RowWaiting, "")
	ran := s.insert("a", journal.RowDone, "")
	s.ahead(10, []store.Waiter{{Job: last, Target: "a"}, {Job: b[1], Target: "b"}, {Job: a[0], Target: "a"}, {Job: ran, Target: "a"}, {Job: a[2], Target: "c"}},
		map[int64]store.Counted{a[0]: {}, last: {Rows: 3}, ran: {Rows: 4}, b[1]: {Rows: 1}, a[2]: {}})
	s.ahead(10, nil, map[int64]store.Counted{})
}

func aheadIsBounded(s *suite) {
	a := s.insertAll(8, "a", journal.RowWaiting, "")
	waiters := []store.Waiter{{Job: a[2], Target: "a"}, {Job: a[3], Target: "a"}, {Job: a[4], Target: "a"}, {Job: a[7], Target: "a"}}
	s.ahead(3, waiters, map[int64]store.Counted{a[2]: {Rows: 2}, a[3]: {Rows: 3}, a[4]: {Rows: 3, More: true}, a[7]: {Rows: 3, More: true}})
	s.ahead(3, waiters[3:], map[int64]store.Counted{a[7]: {Rows: 3, More: true}})
}

func detailWaitsForNobody(s *suite) {
	a := s.insertAll(2, "a", journal.RowWaiting, "")
	s.waitingIsConnected()
	var tx *sql.Tx
	if s.RowLocks {
		tx = s.begin()
		s.execIn(tx, "UPDATE jobs SET status = 'accepted'")
	}
	s.quick(func() {
		s.ahead(10, []store.Waiter{{Job: a[1], Target: "a"}}, map[int64]store.Counted{a[1]: {Rows: 1}})
		got, err := s.Table.Details(s.Context(), a, nil, 10)
		if err != nil || len(got) != 2 || got[a[1]].Status != journal.RowWaiting {
			s.Errorf("%v, %v", got, err)
		}
	})
}

// History is a journal in memory, for what only reads one. Its methods are safe for concurrent use.
type History struct {
	mu      sync.Mutex
	events  []journal.Event
	Removed *journal.RemovedError // what retention has removed; nil: nothing
}

// Add appends an event that happened at a time, and gives its number.
func (h *History) Add(job int64, at time.Time, payload journal.Payload) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	seq := uint64(len(h.events) + 1)
	h.events = append(h.events, journal.Event{Seq: seq, Time: at, Job: job, Payload: payload})
	return seq
}

func (h *History) all() []journal.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.events
}

// Events gives the events that a filter selects by number, job, kinds and count.
func (h *History) Events(_ context.Context, f journal.Filter) iter.Seq2[journal.Event, error] {
	var selected []journal.Event
	for _, e := range h.all() {
		if e.Seq > f.After && (f.Job == 0 || e.Job == f.Job) && (len(f.Kinds) == 0 || slices.Contains(f.Kinds, e.Kind())) {
			selected = append(selected, e)
		}
	}
	if f.Last > 0 {
		selected = selected[max(0, len(selected)-f.Last):]
	}
	return func(yield func(journal.Event, error) bool) {
		for _, e := range selected {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Jobs gives every job as it stands now, by id.
func (h *History) Jobs(context.Context, time.Time) iter.Seq2[journal.Job, error] {
	return func(yield func(journal.Job, error) bool) {
		state := journal.State{KeepEnded: true}
		for _, e := range h.all() {
			if err := state.Apply(e); err != nil {
				yield(journal.Job{}, err)
				return
			}
		}
		for _, id := range slices.Sorted(maps.Keys(state.Jobs)) {
			if !yield(*state.Jobs[id], nil) {
				return
			}
		}
	}
}

// First is the number of the first event.
func (h *History) First(context.Context) (uint64, error) { return 1, nil }

// Newest is the number of the newest event.
func (h *History) Newest(context.Context) (uint64, error) { return uint64(len(h.all())), nil }

// Anchor is the newest event's number; nothing here has a hash.
func (h *History) Anchor(context.Context) (journal.Anchor, error) {
	return journal.Anchor{Seq: uint64(len(h.all()))}, nil
}

// Kept says what retention has removed.
func (h *History) Kept(context.Context) (*journal.RemovedError, error) { return h.Removed, nil }

func holdTests() []test {
	return []test{
		{"a lock has one holder, until it is closed", func(s *suite) {
			s.holds(true, "name:node-1", "mark:@abcd")
			first, err := s.Other.Hold(s.Context(), "name:node-1")
			if err != nil || first == "" {
				s.Fatalf("the other worker got %q, %v; want to hear who has it", first, err)
			}
			if again, err := s.Other.Hold(s.Context(), "name:node-1"); err != nil || again != first {
				s.Errorf("the same holder is called %q and %q (%v)", first, again, err)
			}
			if holder, err := s.Other.Hold(s.Context(), "name:node-2"); err != nil || holder != "" {
				s.Errorf("another name: %q, %v", holder, err)
			}
			s.holds(true, "name:node-1", "mark:@abcd")
			must.Do(s, s.Table.Close())
			s.eventuallyFree("name:node-1")
			s.eventuallyFree("mark:@abcd")
		}},
	}
}

// holds checks whether the table's own locks are its own.
func (s *suite) holds(want bool, names ...string) {
	s.Helper()
	for range 2 {
		for _, name := range names {
			if holder, err := s.Table.Hold(s.Context(), name); err != nil || (holder == "") != want {
				s.Errorf("lock %s: %q, %v", name, holder, err)
			}
		}
	}
}

// eventuallyFree takes a lock whose holder has just gone: a server needs a moment to notice.
func (s *suite) eventuallyFree(name string) {
	s.Helper()
	ctx := s.within(hung)
	for {
		holder, err := s.Other.Hold(ctx, name)
		if err != nil {
			s.Fatalf("lock %s is not free: %v", name, err)
		}
		if holder == "" {
			return
		}
	}
}

func countTests() []test {
	return []test{
		{"waiting rows, up to a limit", countedUpTo},
		{"it waits for no writer, and counts what others hold", countedThoughHeld},
		{"a name that no row can have", countedOfNobody},
		{"the targets of rows that wait", targetsOfWaiting},
	}
}

// counts compares how many rows wait for a target.
func (s *suite) counts(target string, most int, want store.Counted) {
	s.Helper()
	if got, err := s.Table.CountWaiting(s.within(hung), target, most); err != nil || got != want {
		s.Errorf("of %s, up to %d: %+v, %v, want %+v", target, most, got, err, want)
	}
}

func countedUpTo(s *suite) {
	s.counts("a", 10, store.Counted{})
	ids := s.insertAll(5, "a", journal.RowWaiting, "")
	s.insert("a", journal.RowManual, "")
	s.insert("a", journal.RowAccepted, token)
	s.insert("b", journal.RowWaiting, "")
	s.exec("UPDATE jobs SET time_created = 7 WHERE id = ?", ids[0]) // the lowest, not the earliest
	s.counts("a", 4, store.Counted{Rows: 4, More: true, Oldest: 7})
	s.counts("a", 5, store.Counted{Rows: 5, Oldest: 7})
	s.counts("b", 5, store.Counted{Rows: 1, Oldest: 1})
	s.counts("c", 5, store.Counted{})
}

func targetsOfWaiting(s *suite) {
	targets := func(most, want int) {
		s.Helper()
		got, err := s.Table.WaitingTargets(s.within(hung), most)
		slices.Sort(got) // an ENUM has an order of its own
		if err != nil || len(got) != want || want > 1 && !slices.Equal(got, []string{"a", "b"}) {
			s.Errorf("%d at most: %q, %v, want %d", most, got, err, want)
		}
	}
	targets(9, 0)
	s.insertAll(2, "b", journal.RowWaiting, "")
	s.insertAll(2, "a", journal.RowWaiting, "")
	s.insert("c", journal.RowManual, "")
	targets(9, 2)
	targets(1, 1)
}

func countedThoughHeld(s *suite) {
	s.insertAll(2, "a", journal.RowWaiting, "")
	s.counts("a", 5, store.Counted{Rows: 2, Oldest: 1}) // which examines the table
	tx := s.begin()
	s.execIn(tx, "UPDATE jobs SET status = 'accepted'")
	s.quick(func() { s.counts("a", 5, store.Counted{Rows: 2, Oldest: 1}) })
}

func countedOfNobody(s *suite) {
	s.insert("a", journal.RowWaiting, "")
	for _, name := range []string{"日本語 🙂", "a\xff", "no such target, and far longer than the column is"} {
		s.counts(name, 5, store.Counted{})
	}
}
