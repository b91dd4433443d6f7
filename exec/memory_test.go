package exec_test

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
)

// memory is a journal in memory that folds by the real rules. The table shows its events at once, as far as
// rows bear the claim's token and no claim's own transaction shows them.
type memory struct {
	table *table
	told  strings.Builder // what was logged

	mu     sync.Mutex
	state  journal.State
	claims map[int64]journal.Accepted
	events []journal.Event
	grown  chan struct{} // closed when there are more events
}

func newJournal(table *table) *memory {
	return &memory{table: table, claims: make(map[int64]journal.Accepted), grown: make(chan struct{})}
}

// Append implements Recorder.
func (m *memory) Append(drafts ...journal.Draft) (events []journal.Event, err error) {
	var show []func()
	defer func() { // without m.mu: a claim appends while it holds the table
		for _, change := range show {
			m.table.change(change)
		}
	}()
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, d := range drafts {
		events = append(events, journal.Event{Seq: m.state.Seq + uint64(i) + 1, Time: time.Now(), Job: d.Job, Payload: d.Payload})
	}
	staged := m.state.Stage(len(events))
	if _, err := staged.Add(events...); err != nil {
		return nil, err
	}
	if err := m.state.Take(staged, events); err != nil {
		return nil, err
	}
	for _, e := range events {
		switch p := e.Payload.(type) {
		case journal.Accepted:
			m.claims[e.Job] = p
		case journal.Running:
			if !p.Claimed {
				show = append(show, m.show(e))
			}
		case journal.Done, journal.Released, journal.Cancelled:
			show = append(show, m.show(e))
		}
	}
	m.events = append(m.events, events...)
	close(m.grown)
	m.grown = make(chan struct{})
	return events, nil
}

// show has the row of an event's job show it. Callers must hold m.mu.
func (m *memory) show(e journal.Event) func() {
	claim := m.claims[e.Job]
	return func() {
		if row := m.table.rows[e.Job]; row.Owner == claim.Token && row.Owner != "" {
			m.table.rows[e.Job] = shown(row, claim, e.Payload)
		}
	}
}

// View implements Recorder.
func (m *memory) View(look func(*journal.State)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	look(&m.state)
}

// next waits for events behind one, and gives them.
func (m *memory) next(ctx context.Context, after uint64) ([]journal.Event, error) {
	for {
		m.mu.Lock()
		events, grown := slices.Clone(m.events[min(after, uint64(len(m.events))):]), m.grown
		m.mu.Unlock()
		if len(events) > 0 {
			return events, nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// of lists the events of one kind of a job, in order; "": of all kinds.
func (m *memory) of(id int64, kind journal.Kind) (found []journal.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.events {
		if e.Job == id && (kind == "" || e.Kind() == kind) {
			found = append(found, e)
		}
	}
	return found
}

// shown is a row that shows one more event of its claim.
func shown(row journal.Row, claim journal.Accepted, payload journal.Payload) journal.Row {
	switch p := payload.(type) {
	case journal.Running:
		row.Status = journal.RowRunning
		row.Plan = replanned(row.Plan, func(plan *journal.Plan) { plan.Attempts = int64(p.Attempt) })
	case journal.Released:
		row.Owner, row.Status = "", cmp.Or(p.From, journal.RowWaiting)
		if row.Plan = p.Plan; claim.Manual {
			row.Status = journal.RowManual
		}
	case journal.Done:
		if row.Owner, row.Status = "", journal.RowDone; p.Again != nil {
			row.Status, row.Plan = journal.RowDelayed, comesBack(row.Plan, *p.Again)
		}
	case journal.Cancelled:
		if !p.Runs {
			row.Owner, row.Status = "", journal.RowIgnored
		}
	}
	return row
}

// newMemory runs a worker until the test ends, for tests in which time is faked. It serves target a with two
// slots, and b with one, and rows may come back.
func newMemory(t *testing.T, table *table, change func(*jobexec.Config)) (*memory, *runner, *jobexec.Worker) {
	t.Helper()
	f := newFixture(t, table, nil)
	f.build(func(c *jobexec.Config) {
		c.Prefetch, c.Again, c.Logger = 0, true, slog.New(slog.NewTextHandler(&f.journal.told, nil))
		if change != nil {
			change(c)
		}
	})
	f.start()
	return f.journal, f.runner, f.worker
}
