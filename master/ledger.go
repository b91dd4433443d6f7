package master

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"jobd/net/api"
)

// ledger holds the targets that were poked and that no worker has answered a poll for since. It is
// safe for concurrent use.
type ledger struct {
	mu    sync.Mutex
	names names
	debts map[string]debt
	all   selection // of names, for workers that register; nil after a change
}

// debt is what the ledger knows of a target.
type debt struct {
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
	l.all = nil
	l.names.add(targets)
	for _, target := range targets {
		before, known := l.debts[target]
		if !known {
			before.since = now
		}
		l.debts[target] = debt{since: before.since, last: now}
	}
	dropped := l.names.trim(maxRemembered, maxRememberedBytes)
	for _, target := range dropped {
		delete(l.debts, target)
	}
	return len(dropped)
}

// settle takes targets out that a worker has answered for, but for those that were poked again since
// it was asked.
func (l *ledger) settle(targets []string, asked time.Time) {
	answered := setOf(targets)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(func(target string, d debt) bool { return answered[target] && !d.last.After(asked) })
}

// forget takes targets out. Callers must hold mu.
func (l *ledger) forget(over func(target string, d debt) bool) {
	l.names.takeIf(func(target string) bool {
		if !over(target, l.debts[target]) {
			return false
		}
		delete(l.debts, target)
		l.all = nil
		return true
	})
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
		l.all = selectionOf(l.names.list)
	}
	return l.all
}

// rememberedFor is for how long a poke is remembered that no worker has answered, and a worker that is
// missed.
const rememberedFor = 24 * time.Hour

// mostUnserved is how many of the targets that nobody serves a status names; their number is told
// besides.
const mostUnserved = 100

// unserved lists the targets that were poked and that none of the workers serves, the one first
// that waits longest, and counts them.
func (m *Master) unserved(workers []*worker) (list []api.UnservedTarget, count int) {
	owed, served := m.ledger.allOwed(), make(map[string]bool)
	if len(owed) == 0 {
		return nil, 0
	}
	for _, w := range workers {
		_, names := w.profile.Load().match(owed)
		for _, name := range names {
			served[name] = true
		}
	}
	list = m.ledger.waiting(served, time.Now())
	slices.SortStableFunc(list, func(a, b api.UnservedTarget) int { return cmp.Compare(a.Since, b.Since) })
	return list[:min(len(list), mostUnserved)], len(list)
}

// waiting gives the targets that are owed, but for those that are served. It forgets those that nobody
// has poked for too long: a worker that comes for one later looks for its rows anyway.
func (l *ledger) waiting(served map[string]bool, now time.Time) (list []api.UnservedTarget) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(func(_ string, d debt) bool { return now.Sub(d.last) >= rememberedFor })
	for _, target := range l.names.list {
		if !served[target] {
			list = append(list, api.UnservedTarget{Target: target, Since: l.debts[target].since.UnixMilli()})
		}
	}
	return list
}
