package master

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"jobd/net/api"
)

// ledger holds the targets that were poked and that no worker has answered a poll for since. It is
// safe for concurrent use.
type ledger struct {
	mu    sync.Mutex
	debts map[string]debt
	count int       // of debts so far
	all   selection // of them, for workers that register; nil after a change
}

// debt is what the ledger knows of a target.
type debt struct {
	order int       // of the first poke among all
	since time.Time // of the first poke
	last  time.Time // of the last one
}

// enter notes targets as owed. It tells how many older ones were forgotten for them.
func (l *ledger) enter(targets []string, now time.Time) (forgotten int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.debts == nil {
		l.debts = make(map[string]debt)
	}
	for _, target := range targets {
		d, known := l.debts[target]
		if !known {
			l.count++
			d.order, d.since = l.count, now
		}
		d.last = now
		l.debts[target] = d
	}
	l.all = nil
	forgotten = max(0, len(l.debts)-maxRemembered)
	if forgotten > 0 {
		for _, target := range l.byAge()[:forgotten] {
			delete(l.debts, target)
		}
	}
	return forgotten
}

// byAge gives the targets, the one first that is owed longest. Callers must hold mu.
func (l *ledger) byAge() []string {
	return slices.SortedFunc(maps.Keys(l.debts), func(a, b string) int { return cmp.Compare(l.debts[a].order, l.debts[b].order) })
}

// settle takes out the targets that a worker has answered for, except those that were poked again
// after the worker was asked.
func (l *ledger) settle(targets []string, asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, target := range targets {
		if !l.debts[target].last.After(asked) {
			l.forget(target)
		}
	}
}

// forget takes a target out. Callers must hold mu.
func (l *ledger) forget(target string) {
	delete(l.debts, target)
	l.all = nil
}

// owed gives those of the targets that no worker has answered yet.
func (l *ledger) owed(targets []string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var owed []string
	for _, target := range targets {
		if _, ok := l.debts[target]; ok {
			owed = append(owed, target)
		}
	}
	return owed
}

// allOwed gives everything that is owed. Workers come back by the thousand after an outage, so it
// is put together once for all of them.
func (l *ledger) allOwed() selection {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = selectionOf(slices.Collect(maps.Keys(l.debts)))
	}
	return l.all
}

// A poke of a target that nobody serves is forgotten when nobody has poked the target again within idleFor, and no
// row of it waits: then its name is probably misspelt. Every idleLook the master asks a worker for such rows.
const (
	idleFor       = 10 * time.Minute
	idleLook      = time.Minute
	mostIdleAsked = 3 // workers, until one can tell
)

// forgetIdle forgets such pokes. The first worker that can tell says what waits, in its own table: where that is
// wrong nothing is lost, since a worker that registers looks for its rows anyway.
func (m *Master) forgetIdle(ctx context.Context) {
	workers := m.registry.all()
	list, _ := m.unserved(workers)
	names := m.ledger.idle(list, time.Now())
	for _, w := range workers[:min(len(workers), mostIdleAsked)] {
		if len(names) == 0 {
			return
		}
		var rows api.WaitingRows
		text, err := requestWithin(ctx, answerTimeout, w.link, api.Waiting.Name, api.WaitingQuery{Targets: names})
		if err != nil || json.Unmarshal(text, &rows) != nil {
			continue
		}
		over := slices.DeleteFunc(names, func(name string) bool {
			t, told := rows.Targets[name]
			return !told || t.Error != "" || t.Count > 0 || t.Due > 0
		})
		if len(over) > 0 {
			m.ledger.settle(over, time.Now().Add(-idleFor))
			m.config.Logger.Info("pokes are forgotten: nobody serves their targets, and no row waits there", "targets", listed(over))
		}
		return
	}
}

// idle lists those of some targets that were not poked within idleFor.
func (l *ledger) idle(list []api.UnservedTarget, now time.Time) (names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range list {
		if d, owed := l.debts[u.Target]; owed && now.Sub(d.last) >= idleFor {
			names = append(names, u.Target)
		}
	}
	return names
}

// mostUnserved is how many of the targets that nobody serves a status names; their number is told
// besides.
const mostUnserved = 100

// unserved lists the targets that were poked and that none of the workers serves, the one first
// that waits longest, and counts them.
func (m *Master) unserved(workers []*worker) (list []api.UnservedTarget, count int) {
	owed := m.ledger.allOwed()
	if len(owed) == 0 {
		return nil, 0
	}
	served, _ := serving(workers, owed)
	list = m.ledger.waiting(served)
	return list[:min(len(list), mostUnserved)], len(list)
}

// waiting gives the targets that are owed, but for those that are served, the one first that waits
// longest.
func (l *ledger) waiting(served map[string]bool) (list []api.UnservedTarget) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, target := range l.byAge() {
		if !served[target] {
			list = append(list, api.UnservedTarget{Target: target, Since: l.debts[target].since.UnixMilli()})
		}
	}
	return list
}
