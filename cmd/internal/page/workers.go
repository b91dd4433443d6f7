package page

import (
	"cmp"

	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	"jobd/net/api"
)

// worker is a worker as the page shows it.
type worker struct {
	Name     string
	Address  string
	Err      string            // why it did not tell
	Status   *api.WorkerStatus // nil: it did not tell
	Running  int
	Slots    int
	Behind   uint64 // events that the table does not show yet
	Troubles []operator.Trouble
	State    string
	Tone     string
}

// workersOf are the workers of a census.
func (l *look) workersOf(s *operator.Census) (all []worker) {
	for _, w := range s.Workers {
		one := worker{Name: cmp.Or(w.From.Name, l.page.Name), Address: w.From.Address, State: "works", Tone: "good"}
		if w.Err != nil {
			one.Err, one.State, one.Tone = screen.Clean(w.Err.Error()), "does not answer", "bad"
			all = append(all, one)
			continue
		}
		one.Status, one.Troubles = w.Value, operator.Troubles(w.Value)
		for _, t := range w.Value.Targets {
			one.Running, one.Slots = one.Running+t.Running, one.Slots+t.Concurrency
		}
		if j := w.Value.Journal; j != nil && j.Events > j.Mirrored {
			one.Behind = j.Events - j.Mirrored
		}
		switch {
		case !operator.Ready(w.Value):
			one.State, one.Tone = "takes no work", "bad"
		case len(one.Troubles) > 0 || !w.Value.ConfigRefused.IsZero():
			one.State, one.Tone = "works, with trouble", "warn"
		}
		all = append(all, one)
	}
	return all
}

// workersView is /workers.
func workersView(l *look) (any, error) {
	census, err := l.census()
	if err != nil {
		return nil, err
	}
	return struct {
		Census *operator.Census
		List   []worker
	}{census, l.workersOf(census)}, nil
}

// workerView is /workers/NAME.
func workerView(l *look) (any, error) {
	name := l.PathValue("name")
	f, err := l.fleet()
	if err != nil {
		return nil, err
	}
	for i, one := range l.workersOf(f.Census) {
		if one.Name != name {
			continue
		}
		l.title = "Worker " + screen.Clean(name)
		of := &operator.Census{Workers: f.Census.Workers[i : i+1], Waiting: f.Census.Waiting}
		return struct {
			worker
			Targets []target
			Master  bool
		}{one, targetsOf(of), f.Census.Master != nil}, nil
	}
	return nil, notFound("there is no worker %s", screen.Clean(name))
}
