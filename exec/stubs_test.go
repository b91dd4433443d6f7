package exec_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	jobexec "jobd/exec"
	"jobd/journal"
)

// table is a jobs table in memory.
type table struct {
	mu       sync.Mutex
	rows     map[int64]journal.Row
	claims   int
	commit   func(apply func()) error // how a transaction ends; nil: apply and succeed
	rowsErr  error
	selected chan struct{} // receives when a claim has looked
}

func newTable(rows ...journal.Row) *table {
	t := &table{rows: make(map[int64]journal.Row), selected: make(chan struct{}, 1000)}
	for _, row := range rows {
		t.rows[row.Job] = row
	}
	return t
}

func waiting(id int64, target string) journal.Row {
	return journal.Row{Job: id, Target: target, Status: journal.RowWaiting}
}

func manual(id int64, target string) journal.Row {
	return journal.Row{Job: id, Target: target, Status: journal.RowManual}
}

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
		left := room[target]
		for _, id := range slices.Sorted(maps.Keys(t.rows)) {
			if row := t.rows[id]; left > 0 && row.Target == target && !slices.Contains(except, id) && row.Status == journal.RowWaiting {
				rows, left = append(rows, row), left-1
			}
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return t.transact(rows, decide)
}

func (t *table) ClaimManual(_ context.Context, ids []int64, _ []string, decide func([]journal.Row) ([]journal.Event, error)) ([]int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var rows []journal.Row
	for _, id := range ids {
		if row, ok := t.rows[id]; ok {
			rows = append(rows, row)
		}
	}
	return nil, t.transact(rows, decide)
}

func (t *table) transact(rows []journal.Row, decide func([]journal.Row) ([]journal.Event, error)) error {
	events, err := decide(rows)
	if err != nil {
		return err
	}
	apply := func() {
		for _, d := range events {
			row := t.rows[d.Job]
			switch p := d.Payload.(type) {
			case journal.Accepted:
				row.Status, row.Owner = journal.RowAccepted, p.Token
			case journal.Running:
				row.Status = journal.RowRunning
			case journal.Ignored:
				row.Status = journal.RowIgnored
			}
			t.rows[d.Job] = row
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
	var rows []journal.Row
	for _, id := range ids {
		if row, ok := t.rows[id]; ok {
			rows = append(rows, row)
		}
	}
	return rows, nil, nil
}

func (t *table) Names(context.Context, []string) (map[string]string, error) { return nil, nil }

func (t *table) Hold(context.Context, string) (string, error) { return "", nil }

func (t *table) Waiting(_ context.Context, targets []string, except []int64) (left []string, _ error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, row := range t.rows {
		if row.Status == journal.RowWaiting && slices.Contains(targets, row.Target) && !slices.Contains(except, id) {
			left = append(left, row.Target)
		}
	}
	slices.Sort(left)
	return slices.Compact(left), nil
}

func (t *table) Probe(context.Context, []int64) (map[int64]string, error) { return nil, nil }

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

// mirror shows everything at once, unless it is held.
type mirror struct {
	mu   sync.Mutex
	held chan struct{} // not nil: Shown waits until it is closed
	away chan struct{}
	seen chan struct{} // has room for one; receives when somebody asks whether the table is away
}

func (m *mirror) Tried(seq uint64) <-chan struct{} { return m.Shown(seq, 0) }

func (m *mirror) Shown(uint64, int64) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held != nil {
		return m.held
	}
	shown := make(chan struct{})
	close(shown)
	return shown
}

func (m *mirror) Away() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case m.seen <- struct{}{}:
	default:
	}
	return m.away
}

// runner starts processes that the test ends.
type runner struct {
	mu      sync.Mutex
	refuse  error
	once    error            // refuses one start
	alive   map[int]*process // to be adopted, by pid
	started chan *process
	instant bool // processes end at once
	pid     int

	recalled  []jobexec.Recalled
	forgotten chan [2]int64
}

// instance is the name of the runner in all tests.
const instance = "runner-1"

// endedInstance is the name of one that ended in order.
const endedInstance = "runner-0-ended"

func (r *runner) Instance() (string, error) { return instance, nil }

func (r *runner) Ended(instance string) bool { return instance == endedInstance }

func (r *runner) Recall() []jobexec.Recalled { return r.recalled }

func (r *runner) Forget(job int64, attempt int) { r.forgotten <- [2]int64{job, int64(attempt)} }

func newRunner() *runner {
	return &runner{
		started: make(chan *process, 1000), alive: make(map[int]*process),
		forgotten: make(chan [2]int64, 1000),
	}
}

func (r *runner) Start(spec jobexec.Spec) (jobexec.Process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		return nil, r.refuse
	}
	if err := r.once; err != nil {
		r.once = nil
		return nil, err
	}
	r.pid++
	p := &process{spec: spec, pid: r.pid, ended: make(chan struct{}), signals: make(chan int, 10), known: true}
	if r.instant {
		p.exit(0)
	} else {
		go spec.OnBegun()
	}
	r.started <- p
	return p, nil
}

func (r *runner) Adopt(started journal.Started) (jobexec.Process, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.alive[started.Pid]
	if !ok {
		return nil, false
	}
	return p, true
}

// process is a process that the test ends.
type process struct {
	spec    jobexec.Spec
	pid     int
	once    sync.Once
	ended   chan struct{}
	done    journal.Done
	known   bool
	signals chan int
}

func (p *process) Started() journal.Started {
	return journal.Started{Pid: p.pid, StartTime: 1, BootID: "boot"}
}

func (p *process) Signal(signo int) error {
	select {
	case <-p.ended:
		return errors.New("process is gone")
	default:
		p.signals <- signo
		return nil
	}
}

func (p *process) Begun() <-chan struct{} {
	begun := make(chan struct{})
	close(begun)
	return begun
}

func (p *process) Ended() <-chan struct{} { return p.ended }

func (p *process) Outcome() (journal.Done, error) {
	if !p.known {
		return journal.Done{}, jobexec.ErrOutcomeUnknown
	}
	return p.done, nil
}

func (p *process) exit(code int) {
	p.once.Do(func() {
		result := "ok"
		if code != 0 {
			result = "fail"
		}
		p.done = journal.Done{Result: result, Code: &code}
		close(p.ended)
		if p.spec.OnEnded != nil {
			p.spec.OnEnded()
		}
	})
}

// patience is a Retry that tries again at once.
type patience struct{}

func (patience) Wait(ctx context.Context, _ error) error { return ctx.Err() }

// disk is the journal's disk, which the test fills.
type disk struct {
	mu       sync.Mutex
	low      error
	checked  chan struct{} // receives when somebody asked while it was low
	released int
}

func newDisk() *disk { return &disk{checked: make(chan struct{}, 1)} }

func (d *disk) Check() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.low != nil {
		select {
		case d.checked <- struct{}{}:
		default:
		}
	}
	return d.low
}

func (d *disk) Release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.released++
}

func (d *disk) set(low error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.low = low
}
