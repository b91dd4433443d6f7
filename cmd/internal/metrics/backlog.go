package metrics

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"jobd/net/api"
)

// The table is asked what waits at a scrape, but not more often than this, and the scrape waits for
// it so long at most. Rows are counted as far as for anybody who asks (api.MostCounted).
const (
	countAge     = 10 * time.Second
	countTimeout = 3 * time.Second
)

// backlog is what waits in the table.
type backlog struct {
	gauges
	targets *byTarget
	now     func() Now
	count   func(ctx context.Context, targets []string) (api.WaitingRows, error)

	waiting, oldest, counted, asked *prometheus.Desc

	mu    sync.Mutex
	at    time.Time // when the table was asked; zero: it never was
	found map[string]api.WaitingTarget
	all   bool // of all targets it is known
}

func newBacklog(targets *byTarget, now func() Now, count func(context.Context, []string) (api.WaitingRows, error)) *backlog {
	b := &backlog{targets: targets, now: now, count: count}
	b.waiting = b.desc("jobd_jobs_waiting", "Rows of the table that wait, those that are delayed and due among them, counted up to 10,000. All workers of a table tell the same.", "target")
	b.oldest = b.desc("jobd_jobs_waiting_oldest_seconds", "How old the first of them is, by its time_created, or since when it is due; 0 where none waits.", "target")
	b.counted = b.desc("jobd_jobs_waiting_counted", "1 where the table told of all targets what waits when it was asked last.")
	b.asked = b.desc("jobd_jobs_waiting_age_seconds", "How long ago that was: the table is asked at most each 10 s.")
	b.tell = b.collect
	return b
}

func (b *backlog) collect(send send) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.at.IsZero() || now.Sub(b.at) >= countAge {
		b.look()
		now = time.Now()
	}
	for name, t := range b.found {
		if t.Error != "" || !b.targets.own(name) {
			continue
		}
		send(b.waiting, prometheus.GaugeValue, float64(t.Count), name)
		if t.Count == 0 {
			send(b.oldest, prometheus.GaugeValue, 0, name)
		} else if t.Oldest > 0 {
			send(b.oldest, prometheus.GaugeValue, age(time.Unix(t.Oldest, 0), now), name)
		}
	}
	send(b.counted, prometheus.GaugeValue, truth(b.all))
	send(b.asked, prometheus.GaugeValue, age(b.at, now))
}

// look asks the table. Callers must hold b.mu.
func (b *backlog) look() {
	b.found, b.all = nil, true
	var names []string
	for name := range b.now().Status.Targets {
		if b.targets.own(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
		defer cancel()
		rows, err := b.count(ctx, names)
		b.found, b.all = rows.Targets, err == nil
		for _, name := range names {
			t, is := rows.Targets[name]
			b.all = b.all && is && t.Error == ""
		}
	}
	b.at = time.Now()
}
