package exec_test

import (
	"cmp"
	"context"
	"sync"
	"testing"

	"jobd/journal"
	"jobd/journal/eventlog"
)

// follower is a mirror that follows a journal and brings the table in memory up to date, as the
// real one does.
type follower struct {
	table *table
	away  chan struct{}

	mu          sync.Mutex
	applied     uint64
	claims      map[int64]journal.Accepted
	owed        map[int64][]journal.Event // what rows that somebody holds are owed
	locked      map[int64]bool            // by somebody else, after their claims
	owedNothing map[int64][]chan struct{} // closed when a row is owed nothing any more
	watchers    map[uint64][]chan struct{}
}

// follow makes a follower that works until the test ends.
func follow(t *testing.T, j *eventlog.Log, table *table) *follower {
	m := &follower{
		table: table, away: make(chan struct{}),
		claims: make(map[int64]journal.Accepted), watchers: make(map[uint64][]chan struct{}),
		owed: make(map[int64][]journal.Event), locked: make(map[int64]bool), owedNothing: make(map[int64][]chan struct{}),
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for seq := uint64(0); ; {
			events, err := j.Next(ctx, seq, 100)
			if err != nil {
				return
			}
			for _, e := range events {
				m.apply(e)
				seq = e.Seq
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return m
}

// lock has somebody hold a row, and everything that it is owed wait.
func (m *follower) lock(id int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.locked[id] = true
}

// unlock lets a row go, and brings it up to date.
func (m *follower) unlock(id int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.locked, id)
	for _, e := range m.owed[id] {
		m.show(e)
	}
	delete(m.owed, id)
	for _, c := range m.owedNothing[id] {
		close(c)
	}
	delete(m.owedNothing, id)
}

// apply shows one event in the table, or owes it to its row.
func (m *follower) apply(e journal.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locked[e.Job] && e.Kind() != journal.KindAccepted {
		m.owed[e.Job] = append(m.owed[e.Job], e)
	} else {
		m.show(e)
	}
	m.applied = e.Seq
	for seq, all := range m.watchers {
		if seq <= e.Seq {
			for _, c := range all {
				close(c)
			}
			delete(m.watchers, seq)
		}
	}
}

// show shows one event in the table, while the row bears the claim's token. Callers must hold w.mu.
func (m *follower) show(e journal.Event) {
	if accepted, is := e.Payload.(journal.Accepted); is {
		m.claims[e.Job] = accepted
	}
	claim := m.claims[e.Job]
	m.table.change(func() {
		row := m.table.rows[e.Job]
		if row.Owner != claim.Token || row.Owner == "" {
			return
		}
		m.table.rows[e.Job] = shown(row, claim, e.Payload)
	})
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

// Shown implements Mirror.
func (m *follower) Shown(seq uint64, job int64) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := make(chan struct{})
	if m.locked[job] {
		m.owedNothing[job] = append(m.owedNothing[job], c)
	} else if seq <= m.applied {
		close(c)
	} else {
		m.watchers[seq] = append(m.watchers[seq], c)
	}
	return c
}

// Tried implements Mirror.
func (m *follower) Tried(seq uint64) <-chan struct{} { return m.Shown(seq, 0) }

// Reached implements Mirror.
func (m *follower) Reached() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.applied
}

// Away implements Mirror.
func (m *follower) Away() <-chan struct{} { return m.away }
