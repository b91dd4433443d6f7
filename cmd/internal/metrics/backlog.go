package metrics

import (
	"context"
	"slices"
	"sync"
	"time"

	"jobd/net/api"
)

// The table is asked what waits at a scrape, but not more often than this, and the scrape waits for
// it so long at most. Rows are counted as far as for anybody who asks (api.MostCounted).
const (
	countAge     = 10 * time.Second
	countTimeout = 3 * time.Second
)

// waiting is what waits in the table, of targets with series of their own.
type waiting struct {
	at    time.Time // when the table was asked; zero: it never was
	found map[string]api.WaitingTarget
	all   bool // of all targets it is known
}

// backlog asks the table what waits.
type backlog struct {
	targets *byTarget
	count   func(ctx context.Context, targets []string) (api.WaitingRows, error)

	mu   sync.Mutex
	last waiting
}

// look gives what waits for some targets.
func (b *backlog) look(targets map[string]api.TargetStatus) waiting {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.last.at) < countAge {
		return b.last
	}
	w := waiting{all: true}
	var names []string
	for name := range targets {
		if b.targets.of(name) == name && name != otherTargets {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
		defer cancel()
		rows, err := b.count(ctx, names)
		w.all = err == nil
		w.found = make(map[string]api.WaitingTarget, len(names))
		for _, name := range names {
			t, is := rows.Targets[name]
			if is = is && t.Error == ""; is {
				w.found[name] = t
			}
			w.all = w.all && is
		}
	}
	w.at = time.Now()
	b.last = w
	return w
}
