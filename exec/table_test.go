package exec_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"jobd/journal"
)

// table is a jobs table in memory. Other people's doings are in the test's hands.
type table struct {
	mu       sync.Mutex
	rows     map[int64]journal.Row
	claims   int
	commit   func(apply func()) error // how a transaction ends; nil: apply and succeed
	rowsErr  error
	selected chan struct{} // receives when a claim has looked

	locked      map[int64]bool        // by somebody else's transaction
	uncommitted map[int64]journal.Row // rows of somebody else's open transaction
	refused     map[int64]string      // rows that a rule of the table does not let anybody claim
	failing     map[string]error      // claims for these targets fail before anything is decided
	holders     map[string]string     // advisory locks that somebody else has
	holdErr     error
	unfit       map[string]string // names that the table does not take
	namesErr    error
	waitingHeld chan struct{} // not nil: Waiting waits until it is closed
	asked       [][]string    // the targets of each Waiting
	changed     chan struct{} // closed when a row has changed; nil while nobody waits for that
	ahead       time.Duration // of the server's clock
	nextDues    int           // how often it was asked when rows are due
}

func newTable(rows ...journal.Row) *table {
	t := &table{
		rows: make(map[int64]journal.Row), selected: make(chan struct{}, 1000), locked: make(map[int64]bool),
		uncommitted: make(map[int64]journal.Row), refused: make(map[int64]string), failing: make(map[string]error),
		holders: make(map[string]string), unfit: make(map[string]string),
	}
	for _, row := range rows {
		t.rows[row.Job] = row
	}
	return t
}

func waiting(id int64, target string) journal.Row {
	return journal.Row{Job: id, Target: target, Status: journal.RowWaiting}
}

// delayed is a row that is due at a time, in seconds since 1970.
func delayed(id int64, target string, plan journal.Plan) journal.Row {
	return journal.Row{Job: id, Target: target, Status: journal.RowDelayed, Plan: &plan}
}

func manual(id int64, target string) journal.Row {
	return journal.Row{Job: id, Target: target, Status: journal.RowManual}
}

// awayError says that the whole table is out of reach.
type awayError struct{ error }

func (awayError) Away() bool { return true }

var errAway = awayError{errors.New("connection refused")}

// refusedError names the rows that the table did not let the worker claim.
type refusedError map[int64]string

func (refusedError) Error() string { return "the table refuses the update" }

func (refusedError) Undone() bool { return true }

func (e refusedError) Refused() map[int64]string { return e }

func (t *table) Claim(_ context.Context, room map[string]int, except []int64, decide func([]journal.Row) ([]journal.Event, error)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.claims++
	defer func() {
		select {
		case t.selected <- struct{}{}:
		default: // nobody counts any more
		}
	}()
	var rows []journal.Row
	for _, target := range slices.Sorted(maps.Keys(room)) {
		if err := t.failing[target]; err != nil {
			return err
		}
		left := room[target]
		for _, id := range slices.Sorted(maps.Keys(t.rows)) {
			row := t.rows[id]
			if left > 0 && row.Target == target && !slices.Contains(except, id) && t.waits(row) && !t.locked[id] {
				rows, left = append(rows, row), left-1
			}
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return t.transact(rows, decide)
}

func (t *table) ClaimManual(_ context.Context, ids []int64, targets []string, decide func([]journal.Row) ([]journal.Event, error)) (locked []int64, _ error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows, locked := t.find(ids)
	for i, row := range rows {
		for _, name := range targets { // as a collation does that takes no notice of case
			if strings.EqualFold(name, row.Target) {
				rows[i].Target = name
			}
		}
	}
	return locked, t.transact(rows, decide)
}

// find gives rows that exist, but not those that somebody holds.
func (t *table) find(ids []int64) (rows []journal.Row, locked []int64) {
	for _, id := range ids {
		switch row, ok := t.rows[id]; {
		case t.locked[id]:
			locked = append(locked, id)
		case ok:
			rows = append(rows, row)
		}
	}
	return rows, locked
}

func (t *table) transact(rows []journal.Row, decide func([]journal.Row) ([]journal.Event, error)) error {
	defer t.tell()
	for i := range rows {
		rows[i].Now = t.now()
	}
	events, err := decide(rows)
	if err != nil {
		return err
	}
	refused := make(refusedError)
	for _, e := range events {
		if why, is := t.refused[e.Job]; is {
			refused[e.Job] = why
		}
	}
	if len(refused) > 0 {
		return refused
	}
	apply := func() {
		for _, e := range events {
			row := t.rows[e.Job]
			switch p := e.Payload.(type) {
			case journal.Accepted:
				row.Status, row.Owner = journal.RowAccepted, p.Token
				row.Plan = replanned(row.Plan, func(plan *journal.Plan) { plan.PlannedAt = max(p.PlannedAt, plan.PlannedAt) })
			case journal.Running:
				row.Status = journal.RowRunning
				row.Plan = replanned(row.Plan, func(plan *journal.Plan) { plan.Attempts = int64(p.Attempt) })
			case journal.Planned:
				row.Plan = comesBack(row.Plan, p.To)
			case journal.Ignored:
				row.Status = journal.RowIgnored
			case journal.Retried:
				row.Status, row.Result = p.To, ""
			}
			t.rows[e.Job] = row
		}
	}
	if t.commit != nil {
		return t.commit(apply)
	}
	apply()
	return nil
}

func (t *table) Rows(_ context.Context, ids []int64) ([]journal.Row, []int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rowsErr != nil {
		return nil, nil, t.rowsErr
	}
	rows, locked := t.find(ids)
	return rows, locked, nil
}

func (t *table) Names(_ context.Context, names []string) (map[string]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	unfit := make(map[string]string)
	for _, name := range names {
		if why, is := t.unfit[name]; is {
			unfit[name] = why
		}
	}
	return unfit, t.namesErr
}

func (t *table) Hold(_ context.Context, name string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.holders[name], t.holdErr
}

func (t *table) Holder(ctx context.Context, name string) (string, error) { return t.Hold(ctx, name) }

// now is what the server's clock says.
func (t *table) now() time.Time { return time.Now().Add(t.ahead) }

// waits tells whether a row waits, or is due.
func (t *table) waits(row journal.Row) bool {
	return row.Status == journal.RowWaiting || row.Status == journal.RowDelayed && row.Plan.RunAt <= t.now().Unix()
}

// replanned is a plan with a change; nil where there is none.
func replanned(plan *journal.Plan, change func(*journal.Plan)) *journal.Plan {
	if plan == nil {
		return nil
	}
	other := *plan
	change(&other)
	return &other
}

// comesBack is the plan of a row that is due at another time.
func comesBack(plan *journal.Plan, again journal.Again) *journal.Plan {
	return replanned(plan, func(p *journal.Plan) { p.RunAt, p.PlannedAt, p.Attempts = again.RunAt, again.PlannedAt, again.Attempts })
}

func (t *table) NextDue(_ context.Context, targets []string, except []int64) (journal.Due, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nextDues++
	due := journal.Due{Now: t.now(), Next: make(map[string]int64)}
	for id, row := range t.rows {
		if row.Status == journal.RowDelayed && slices.Contains(targets, row.Target) && !slices.Contains(except, id) {
			if next, known := due.Next[row.Target]; !known || row.Plan.RunAt < next {
				due.Next[row.Target] = row.Plan.RunAt
			}
		}
	}
	return due, nil
}

func (t *table) Waiting(_ context.Context, targets []string, except []int64) (left []string, _ error) {
	t.mu.Lock()
	held := t.waitingHeld
	t.asked = append(t.asked, targets)
	t.mu.Unlock()
	if held != nil {
		<-held
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, rows := range []map[int64]journal.Row{t.rows, t.uncommitted} {
		for id, row := range rows {
			if t.waits(row) && slices.Contains(targets, row.Target) && !slices.Contains(except, id) {
				left = append(left, row.Target)
			}
		}
	}
	slices.Sort(left)
	return slices.Compact(left), nil
}

func (t *table) UnderWay(_ context.Context, owner string, targets []string) ([]journal.Row, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var rows []journal.Row
	for _, id := range slices.Sorted(maps.Keys(t.rows)) {
		row := t.rows[id]
		underWay := row.Status == journal.RowAccepted || row.Status == journal.RowRunning
		if underWay && (row.Owner == "" && slices.Contains(targets, row.Target) || row.Owner != "" && strings.HasPrefix(row.Owner, owner)) {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func (t *table) status(id int64) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows[id].Status
}

func (t *table) insert(rows ...journal.Row) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, row := range rows {
		t.rows[row.Job] = row
	}
}

// change does something to the table that nobody else sees half of.
func (t *table) change(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	do()
	t.tell()
}

// changes gives a channel that is closed when a row changes.
func (t *table) changes() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed
}

// tell tells who waits for changes. Callers must hold w.mu.
func (t *table) tell() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}
