package master

import (
	"slices"
	"time"

	"jobd/net/api"
)

// rememberedFor is for how long a worker that is missed is kept in mind.
const rememberedFor = 24 * time.Hour

// How many of them.
const (
	mostMissed    = 200 // workers
	mostOfAMissed = 20  // targets of one
)

// missed are the workers whose links ended without their having said that they leave, the one first
// that is missed longest, each until a worker of its name is registered. It is not safe for
// concurrent use.
type missed []api.DownWorker

// add notes a worker. Beyond as many as are kept, those that are missed longest are forgotten.
func (m *missed) add(w *worker, now time.Time) {
	info := w.info()
	cut := max(0, len(info.Targets)-mostOfAMissed)
	m.back(info.Name)
	*m = append(*m, api.DownWorker{
		Name: info.Name, RemoteAddr: info.RemoteAddr, RemotePort: info.RemotePort,
		Targets: slices.Clone(info.Targets[:len(info.Targets)-cut]), TargetsCut: cut, Since: now.UnixMilli(),
	})
	*m = (*m)[max(0, len(*m)-mostMissed):]
}

// back forgets a worker that is registered again.
func (m *missed) back(name string) {
	*m = slices.DeleteFunc(*m, func(w api.DownWorker) bool { return w.Name == name })
}

// list gives them, but for those that are missed for too long already.
func (m *missed) list(now time.Time) []api.DownWorker {
	*m = slices.DeleteFunc(*m, func(w api.DownWorker) bool { return now.Sub(time.UnixMilli(w.Since)) >= rememberedFor })
	return slices.Clone(*m)
}

// down lists the workers that are missed.
func (r *registry) down(now time.Time) []api.DownWorker {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.missed.list(now)
}
