package master

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"jobd/net/api"
)

// keepsAnswered is for how long a poke that was answered is still given to workers that register:
// after an outage the first of them must not keep it from the others.
const keepsAnswered = time.Minute

// ledger holds the targets that were poked and are not answered yet, and those that were answered
// lately. It is safe for concurrent use.
//
//	poke ──enter──► owed ──answered─► answered ──keepsAnswered──► forgotten
//	                 ▲                   │
//	                 └──────enter────────┘
type ledger struct {
	mu    sync.Mutex
	names names
	debts map[string]debt
	turn  uint64 // counts the entries

	expires time.Time  // when the first of those that were answered is forgotten; zero: none was
	kept    *selection // of names, for workers that register; nil after a change
}

// debt is what the ledger knows of a target.
type debt struct {
	turn     uint64    // of the last poke
	since    time.Time // of the first poke that is not answered
	answered time.Time // zero while it is owed
}

// enter notes targets as owed. It tells how many older ones that were owed were forgotten for them.
func (l *ledger) enter(targets []string, now time.Time) (forgotten int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.debts == nil {
		l.debts = make(map[string]debt)
	}
	l.turn++
	l.names.add(targets)
	for _, target := range targets {
		before, known := l.debts[target]
		if !known {
			l.kept = nil
		}
		if !known || !before.answered.IsZero() {
			before.since = now
		}
		l.debts[target] = debt{turn: l.turn, since: before.since}
	}
	for _, keeps := range []time.Duration{keepsAnswered, 0} {
		if l.overfull() {
			l.forgetAnswered(now, keeps)
		}
	}
	return l.forgetOldest()
}

func (l *ledger) overfull() bool {
	return len(l.names.list) > maxRemembered || l.names.bytes > maxRememberedBytes
}

// forgetAnswered forgets what was answered so long ago. Callers must hold mu.
func (l *ledger) forgetAnswered(now time.Time, keeps time.Duration) {
	l.expires = time.Time{}
	l.names.takeIf(func(target string) bool {
		answered := l.debts[target].answered
		switch {
		case answered.IsZero():
			return false
		case now.Sub(answered) < keeps:
			l.expireAt(answered.Add(keepsAnswered))
			return false
		}
		delete(l.debts, target)
		l.kept = nil
		return true
	})
}

func (l *ledger) expireAt(at time.Time) {
	if l.expires.IsZero() || at.Before(l.expires) {
		l.expires = at
	}
}

// forgetOldest keeps the ledger within its bounds. Callers must hold mu.
func (l *ledger) forgetOldest() (forgotten int) {
	dropped := l.names.trim(maxRemembered, maxRememberedBytes)
	for _, target := range dropped {
		delete(l.debts, target)
		l.kept = nil
	}
	return len(dropped)
}

// now gives the number of the last entry: an answer to what is asked now settles what was entered
// until then.
func (l *ledger) now() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.turn
}

// markAnswered notes targets as answered, but for those that were poked again after turn.
func (l *ledger) markAnswered(targets []string, turn uint64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, target := range targets {
		if d, ok := l.debts[target]; ok && d.answered.IsZero() && d.turn <= turn {
			d.answered = now
			l.debts[target] = d
			l.expireAt(now.Add(keepsAnswered))
		}
	}
}

// owed gives those of the targets that no worker has answered yet.
func (l *ledger) owed(targets []string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var owed []string
	for _, target := range targets {
		if d, ok := l.debts[target]; ok && d.answered.IsZero() {
			owed = append(owed, target)
		}
	}
	return owed
}

// recall gives everything that a worker that registers now is to be polled for. Workers come back
// by the thousand after an outage, so it is put together once for all of them.
func (l *ledger) recall(now time.Time) *selection {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.expires.IsZero() && !now.Before(l.expires) {
		l.forgetAnswered(now, keepsAnswered)
	}
	if l.kept == nil {
		l.kept = selectionOf(l.names.list)
	}
	return l.kept
}

// mostUnserved is how many of the targets that nobody serves a status names; their number is told
// besides.
const mostUnserved = 100

// unserved lists the targets that were poked and that none of the workers serves, the one first
// that waits longest, and counts them. A worker with a like name counts as serving it, as it does
// for the poke itself.
func (m *Master) unserved(workers []*worker) (list []api.UnservedTarget, count int) {
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
			list = append(list, api.UnservedTarget{Target: target, Since: since[i].UnixMilli()})
		}
	}
	slices.SortStableFunc(list, func(a, b api.UnservedTarget) int { return cmp.Compare(a.Since, b.Since) })
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
