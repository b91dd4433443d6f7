package master

import (
	"cmp"
	"slices"
	"time"

	"jobd/net/contract"
)

// mostUnserved is how many of the targets that nobody serves a status names; their number is told
// besides.
const mostUnserved = 100

// unserved lists the targets that were poked and that none of the workers serves, the one first
// that waits longest, and counts them. A worker with a like name counts as serving it, as it does
// for the poke itself.
func (m *Master) unserved(workers []*worker) (list []contract.UnservedTarget, count int) {
	targets, since := m.ledger.allOwed()
	if len(targets) == 0 {
		return nil, 0
	}
	wanted, served := selectionOf(targets), make(map[string]bool)
	for _, w := range workers {
		for _, name := range w.profile.Load().liked(wanted) {
			served[name] = true
		}
	}
	for i, target := range targets {
		if !served[target] {
			list = append(list, contract.UnservedTarget{Target: target, Since: since[i].UnixMilli()})
		}
	}
	slices.SortStableFunc(list, func(a, b contract.UnservedTarget) int { return cmp.Compare(a.Since, b.Since) })
	return list[:min(len(list), mostUnserved)], len(list)
}

// allOwed gives all targets that no worker has answered yet, and since when each waits.
func (l *ledger) allOwed() (targets []string, since []time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, target := range l.names.list {
		if d := l.debts[target]; d.answered.IsZero() {
			targets, since = append(targets, target), append(since, d.since)
		}
	}
	return targets, since
}
