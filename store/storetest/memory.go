package storetest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"jobd/journal"
	"jobd/store"
	"jobd/store/internal/rule"
)

// Memory is a jobs table in memory, with the guards of a real one: rows change only under their
// token. It implements store.Applier. Tests that change its fields while it is used do so by
// Change.
type Memory struct {
	mu        sync.Mutex
	Uses      store.Uses // the optional columns that are jobd's
	Reached   string     // the server that answers
	Confirmed string     // the one that claims are made on
	Rows      map[int64]*store.Seen
	Locked    map[int64]bool // rows that somebody else holds
	Refused   map[int64]bool // rows whose updates a rule of the table refuses
	Away      error          // what every call fails with; nil: the table answers
	Applies   int            // calls of Apply
	Claims    int            // rows that were claimed
	OnApply   func()
	OnChange  func(store.Change) // is told of each change that is tried
}

// NewMemory makes an empty table on a server.
func NewMemory(server string) *Memory {
	return &Memory{
		Reached: server, Rows: map[int64]*store.Seen{}, Locked: map[int64]bool{},
		Refused: map[int64]bool{},
	}
}

// Put puts a row into the table.
func (m *Memory) Put(id int64, status, owner string) *store.Seen {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Rows[id] = &store.Seen{Row: journal.Row{Job: id, Target: "a", Status: status, Owner: owner}}
	if m.Uses.Any() {
		m.Rows[id].Plan = &journal.Plan{}
	}
	return m.Rows[id]
}

// Change changes the table between two transactions.
func (m *Memory) Change(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// Read puts a row into words: status and owner.
func (m *Memory) Read(id int64) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Rows[id] == nil {
		return "none"
	}
	return m.Rows[id].Status + " " + m.Rows[id].Owner
}

// Apply implements store.Applier.
func (m *Memory) Apply(_ context.Context, changes []store.Change) ([]store.Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Away != nil {
		return nil, m.Away
	}
	m.Applies++
	if m.OnApply != nil {
		m.OnApply()
	}
	outcomes := make([]store.Outcome, len(changes))
	for i, c := range changes {
		if m.OnChange != nil {
			m.OnChange(c)
		}
		outcomes[i] = m.apply(c)
	}
	return outcomes, nil
}

func (m *Memory) apply(c store.Change) store.Outcome {
	row := m.Rows[c.Job]
	switch {
	case m.Locked[c.Job]:
		return store.Outcome{Fate: store.Held, Note: "somebody else holds a lock on the row"}
	case m.Refused[c.Job]:
		return store.Outcome{Fate: store.Refused, Note: "CHECK constraint fails", Found: &row.Row}
	case row == nil || !row.UnderWay() || row.Owner != c.Token || m.edited(c, row):
		return rule.Judge(c, row, m.Uses)
	}
	m.set(row, m.shape().Write(c, false))
	return store.Outcome{}
}

// ClaimManual implements store.Applier.
func (m *Memory) ClaimManual(ctx context.Context, ids []int64, _ []string, decide store.Decide) (locked []int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Away != nil {
		return nil, m.Away
	}
	if m.Reached != m.Confirmed && !store.IsComparing(ctx) {
		return nil, &store.AnotherServer{Reached: m.Reached, Confirmed: m.Confirmed}
	}
	var rows []journal.Row
	for _, id := range ids {
		switch {
		case m.Locked[id]:
			locked = append(locked, id)
		case m.Rows[id] != nil:
			row := copied(m.Rows[id]).Row
			row.Finished, row.Result = m.Rows[id].Finished, m.Rows[id].Result
			rows = append(rows, row)
		}
	}
	events, err := decide(rows)
	if err != nil {
		return nil, err
	}
	verdicts, err := rule.Verdicts(rows, events)
	if err != nil {
		return nil, err
	}
	for _, verdict := range verdicts {
		for _, id := range verdict.Jobs {
			m.Claims++
			m.set(m.Rows[id], verdict.Write(m.shape()))
		}
	}
	return locked, nil
}

// Look implements store.Applier.
func (m *Memory) Look(_ context.Context, ids []int64) (map[int64]*store.Seen, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Away != nil {
		return nil, m.Away
	}
	found := map[int64]*store.Seen{}
	for _, id := range ids {
		if row := m.Rows[id]; row != nil {
			found[id] = copied(row)
		}
	}
	return found, nil
}

// Server implements store.Applier.
func (m *Memory) Server(context.Context) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Reached, nil
}

// Confirm implements store.Applier.
func (m *Memory) Confirm(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Confirmed = id
}

// Free implements store.Table, whatever the targets are.
func (m *Memory) Free(_ context.Context, status string, _ []string, before int64, limit int) (rows []*store.Seen, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, row := range m.Rows {
		if row.Status == status && id < before {
			rows = append(rows, &store.Seen{Row: row.Row})
		}
	}
	slices.SortFunc(rows, func(a, b *store.Seen) int { return cmp.Compare(b.Job, a.Job) })
	return rows[:min(len(rows), limit)], m.Away
}

// Unclaimed implements store.Table, whatever the targets are.
func (m *Memory) Unclaimed(_ context.Context, _ []string, created, after int64, limit int) (ids []int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Away != nil {
		return nil, m.Away
	}
	for id, row := range m.Rows {
		if store.IsFree(row.Row) && row.Created < created && id > after {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids[:min(len(ids), limit)], nil
}

// edited tells whether a row has another schedule than its end was planned from.
func (m *Memory) edited(c store.Change, row *store.Seen) bool {
	condition, args := rule.Unedited(c, m.Uses)
	return condition != "" && (args[0] != row.Plan.Schedule || len(args) > 1 && args[1] != row.Plan.Zone)
}

// set makes of a row what an update would.
func (m *Memory) set(row *store.Seen, list []rule.Assignment) {
	if row.Plan == nil && m.Uses.Any() {
		row.Plan = &journal.Plan{}
	}
	text, args := rule.Set(list, func(column string) string { return column })
	for i, column := range strings.Split(text, ", ") {
		number, _ := args[i].(int64)
		word, _ := args[i].(string)
		switch strings.TrimSuffix(column, " = ?") {
		case "status":
			row.Status = word
		case store.SigColumn:
			row.Owner = word
		case "time_started":
			row.Started = number
		case "time_finished":
			row.Finished = number
		case "result":
			row.Result = word
		case store.ColumnRunAt:
			row.Plan.RunAt = number
		case store.ColumnPlannedAt:
			row.Plan.PlannedAt = number
		case store.ColumnAttempts:
			row.Plan.Attempts = number
		}
	}
}

// copied is a row as somebody else gets it.
func copied(row *store.Seen) *store.Seen {
	seen := *row
	if row.Plan != nil {
		plan := *row.Plan
		seen.Plan = &plan
	}
	return &seen
}

// shape is how a table in memory holds what jobd writes: as it comes.
func (m *Memory) shape() *rule.Shape {
	return &rule.Shape{
		Uses: m.Uses, Owner: store.SigColumn, Columns: map[string]rule.Column{"result": {Nullable: true}},
		Output: func(done *journal.Done, _ bool) (stdout, stderr string) { return "", done.Note },
	}
}
