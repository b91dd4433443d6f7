package store_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// memory is a jobs table in memory, with the guards of a real one: rows change only under their
// token.
type memory struct {
	mu        sync.Mutex
	server    string
	confirmed string
	rows      map[int64]*store.Seen
	locked    map[int64]bool
	refused   map[int64]bool
	poison    map[int64]bool // rows for which the whole transaction fails
	applies   int
	claims    int
	onApply   func()
}

func newMemory(server string) *memory {
	return &memory{
		server: server, rows: map[int64]*store.Seen{}, locked: map[int64]bool{},
		refused: map[int64]bool{}, poison: map[int64]bool{},
	}
}

// put puts a row into the table.
func (m *memory) put(id int64, status, owner string) *store.Seen {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows[id] = &store.Seen{Row: journal.Row{Job: id, Target: "a", Status: status, Owner: owner}}
	return m.rows[id]
}

// change changes the table between two transactions.
func (m *memory) change(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// read puts a row into words: status and owner.
func (m *memory) read(id int64) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rows[id] == nil {
		return "none"
	}
	return m.rows[id].Status + " " + m.rows[id].Owner
}

// Apply implements store.Applier.
func (m *memory) Apply(_ context.Context, changes []store.Change) ([]store.Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applies++
	if m.onApply != nil {
		m.onApply()
	}
	for _, c := range changes {
		if m.poison[c.Job] {
			return nil, fmt.Errorf("a trigger raised 1213 for row %d", c.Job)
		}
	}
	outcomes := make([]store.Outcome, len(changes))
	for i, c := range changes {
		outcomes[i] = m.apply(c)
	}
	return outcomes, nil
}

func (m *memory) apply(c store.Change) store.Outcome {
	row := m.rows[c.Job]
	switch {
	case m.locked[c.Job]:
		return store.Outcome{Fate: store.Held, Note: "somebody else holds a lock on the row"}
	case m.refused[c.Job]:
		return store.Outcome{Fate: store.Refused, Note: "CHECK constraint fails", Found: &row.Row}
	case row == nil || !row.UnderWay() || row.Owner != c.Token:
		return rule.Judge(c, row)
	}
	row.Status = c.Status
	switch {
	case rule.Release(c):
		row.Owner, row.Started = "", 0
	case c.Done != nil:
		row.Owner, row.Result, row.Finished = "", c.Done.Result, c.Finish.Unix()
	default:
		row.Started = c.Start.Unix()
	}
	return store.Outcome{}
}

// ClaimManual implements store.Applier.
func (m *memory) ClaimManual(ctx context.Context, ids []int64, _ []string, decide store.Decide) (locked []int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server != m.confirmed && !store.IsComparing(ctx) {
		return nil, &store.AnotherServer{Reached: m.server, Confirmed: m.confirmed}
	}
	var rows []journal.Row
	for _, id := range ids {
		switch {
		case m.locked[id]:
			locked = append(locked, id)
		case m.rows[id] != nil:
			rows = append(rows, m.rows[id].Row)
		}
	}
	events, err := decide(rows)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		row := m.rows[e.Job]
		if row.Status != journal.RowWaiting && row.Status != journal.RowManual {
			return nil, fmt.Errorf("row %d is %s and can't be claimed", e.Job, row.Status)
		}
		m.claims++
		switch p := e.Payload.(type) {
		case journal.Accepted:
			row.Status, row.Owner = journal.RowAccepted, p.Token
		case journal.Ignored:
			row.Status = journal.RowIgnored
		}
	}
	return locked, nil
}

// Look implements store.Applier.
func (m *memory) Look(_ context.Context, ids []int64) (map[int64]*store.Seen, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[int64]*store.Seen{}
	for _, id := range ids {
		if row := m.rows[id]; row != nil {
			seen := *row
			found[id] = &seen
		}
	}
	return found, nil
}

// Server implements store.Applier.
func (m *memory) Server(context.Context) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.server, nil
}

// Confirm implements store.Applier.
func (m *memory) Confirm(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.confirmed = id
}

// history is all that was journalled.
func history(t *testing.T, j *journal.Journal) (all []journal.Event) {
	t.Helper()
	newest := uint64(0)
	j.View(func(s *journal.State) { newest = s.Seq })
	for seq := uint64(0); seq < newest; {
		events, err := j.Next(t.Context(), seq, 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, events...)
		seq = events[len(events)-1].Seq
	}
	return all
}

// of gives the payloads of one kind.
func of[P journal.Payload](t *testing.T, j *journal.Journal) (list []P) {
	t.Helper()
	for _, e := range history(t, j) {
		if p, ok := e.Payload.(P); ok {
			list = append(list, p)
		}
	}
	return list
}

// await waits for a channel.
func await(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: not after 10 s", what)
	}
}

// open tells whether a channel is not closed yet.
func open(done <-chan struct{}) bool {
	select {
	case <-done:
		return false
	default:
		return true
	}
}

// reasons are those of the rows that are aside, in order.
func reasons(m *store.Mirror) (list []string) {
	for _, a := range m.Aside() {
		list = append(list, fmt.Sprintf("%d %s: %s", a.Job, a.Wanted, a.Reason))
	}
	slices.Sort(list)
	return list
}
