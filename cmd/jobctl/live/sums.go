package live

import (
	"maps"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/screen"
	"jobd/net/api"
)

// rates is what happened within the last minute.
type rates struct {
	started, ended, failed int
	known                  bool // somebody told
	partly                 bool // somebody could not
}

func (r *rates) add(t api.TargetStatus, tells bool) {
	if !tells {
		r.partly = true
		return
	}
	r.known = true
	r.started, r.ended, r.failed = r.started+t.Started, r.ended+t.Ended, r.failed+t.Failed
}

// target is a target, summed up over the workers that serve it.
type target struct {
	rates
	name       string
	slots      int
	inUse      int
	prefetched int
	workers    int
	paused     int // workers for which it is paused
	unable     int // others that can start no job of it
	pausedAt   time.Time
	pausedBy   string
	why        []string // why a worker claims nothing, with its name
}

// tells says that a worker tells how many slots are in use, and what happened within a minute: the
// original and older versions don't.
func tells(status *api.WorkerStatus) bool { return status.Database != nil }

// targets sums up those that the filter leaves, by name.
func (m *model) targets() []target {
	found := map[string]*target{}
	for _, w := range m.fleet.answer.Workers {
		if w.Status == nil {
			for _, name := range w.Targets {
				m.sum(found, name)
			}
			continue
		}
		for name, status := range w.Status.Targets {
			m.sum(found, name).join(w, status, m.config.Master)
		}
	}
	var all []target
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if m.matches(name) {
			all = append(all, *found[name])
		}
	}
	return all
}

func (m *model) sum(found map[string]*target, name string) *target {
	if found[name] == nil {
		found[name] = &target{name: name}
	}
	return found[name]
}

// join adds what one worker says of the target.
func (t *target) join(w Worker, status api.TargetStatus, named bool) {
	t.workers++
	t.slots += status.Concurrency
	t.inUse += status.Running
	t.prefetched += status.Prefetched
	t.rates.add(status, tells(w.Status))
	if status.Paused {
		t.paused++
		if at := time.UnixMilli(status.PausedSince); status.PausedSince > 0 && (t.pausedAt.IsZero() || at.Before(t.pausedAt)) {
			t.pausedAt, t.pausedBy = at, status.PausedBy
		}
	}
	if !status.Paused && w.Status.Stuck(t.name) {
		t.unable++
	}
	if status.Why != "" {
		why := status.Why
		if named {
			why = w.Name + ": " + why
		}
		t.why = append(t.why, why)
	}
}

// matches tells whether the filter leaves a target.
func (m *model) matches(target string) bool {
	return strings.Contains(strings.ToLower(target), strings.ToLower(m.filter))
}

// load is a worker's slots, and what happened on it within the last minute.
type load struct {
	rates
	slots, inUse int
}

func loadOf(status *api.WorkerStatus) (l load) {
	for _, t := range status.Targets {
		l.slots += t.Concurrency
		l.inUse += t.Running
		l.rates.add(t, tells(status))
	}
	return l
}

// emptyIn estimates when all that waits will have ended, at the pace of the last minute; "" where
// nothing waits or was counted, "never" where nothing ends, or nobody can start a job of it.
func emptyIn(t target, w api.WaitingTarget, counted bool) string {
	rows := w.Count + t.prefetched
	switch {
	case !counted || w.Error != "" || !t.known || rows == 0:
		return ""
	case t.ended == 0 || t.unable == t.workers:
		return "never"
	}
	in := time.Duration(rows) * time.Minute / time.Duration(t.ended)
	if w.More {
		return ">" + screen.Length(in)
	}
	return screen.Length(in)
}
