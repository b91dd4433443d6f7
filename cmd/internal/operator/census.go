package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/screen"
	jobnet "jobd/net"
	"jobd/net/api"
)

// Census is how a daemon stands, and all that it leads to: a worker, or a master and its workers.
type Census struct {
	Said    json.RawMessage                     // the daemon's answer to status, as it came
	Master  *api.FleetStatus[*api.WorkerStatus] // nil: it is a worker
	Workers []Answer[*api.WorkerStatus]         // one that did not answer its master has an error

	Most    int                          // how far rows are counted; 0: as far as workers do
	Others  bool                         // rows of targets that no worker serves are counted, too
	Waiting map[string]api.WaitingTarget // rows, by target; one that is not here could not be counted
	Why     []error                      // why some could not
	lost    bool                         // how many wait in all is not known
}

// TakeCensus asks a daemon how it stands, a master with all of its workers.
func TakeCensus(ctx context.Context, d *Daemon) (s *Census, err error) {
	if !d.Master {
		s = &Census{Workers: []Answer[*api.WorkerStatus]{{From: d.direct()}}}
		if s.Said, err = d.Ask(ctx, api.Status.Name, nil); err != nil {
			return nil, err
		}
		return s, d.Understand(api.Status.Name, s.Said, &s.Workers[0].Value)
	}
	s = &Census{Master: &api.FleetStatus[*api.WorkerStatus]{}}
	if s.Said, err = d.Ask(ctx, api.MasterStatus.Name, api.Polling{Workers: true, Patience: d.WorkersTime.Milliseconds()}); err != nil {
		return nil, err
	}
	if err := d.Understand(api.Status.Name, s.Said, s.Master); err != nil {
		return nil, err
	}
	for i, from := range workersOf(d, s.Master.Workers) {
		w := s.Master.Workers[i]
		one := Answer[*api.WorkerStatus]{From: from, Value: w.Status}
		if w.Status == nil {
			one.Err = &jobnet.RemoteError{Text: cmp.Or(screen.Clean(w.StatusError), "it reported nothing")}
		}
		s.Workers = append(s.Workers, one)
	}
	return s, nil
}

// TellsMore tells whether a worker says more than the original and older versions do: what runs, and
// how the database is. They can't count what waits, either.
func TellsMore(s *api.WorkerStatus) bool { return s.Database != nil }

// errOlder says of a worker that it tells no more.
var errOlder = errors.New("it can't report what runs and waits, because it is an older jobd, or the original")

// Count asks how many rows wait for targets, whoever serves them.
func (s *Census) Count(ctx context.Context, targets []string) {
	s.Waiting, s.Why = make(map[string]api.WaitingTarget, len(targets)), nil
	var able []*Worker
	for _, w := range s.Workers {
		if w.Err == nil && TellsMore(w.Value) {
			able = append(able, w.From)
		}
	}
	if len(targets) == 0 || len(able) == 0 {
		s.lost = len(targets) > 0
		return
	}
	rows, by, err := first[api.WaitingRows](ctx, able, api.Waiting.Name, api.WaitingQuery{Targets: targets, Most: s.Most, Others: s.Others}, false)
	if err != nil {
		s.Why = []error{err}
	}
	seen := map[string]bool{}
	for _, target := range targets {
		switch counted, there := rows.Targets[target]; {
		case !there:
		case counted.Error == "":
			s.Waiting[target] = counted
		case !seen[counted.Error]:
			seen[counted.Error] = true
			said := &jobnet.RemoteError{Text: "rows of target " + screen.Clean(target) + ": " + screen.Clean(counted.Error)}
			s.Why = append(s.Why, by.Named(said))
		}
	}
	for i, err := range s.Why {
		s.Why[i] = exit.With(exit.Unknown, err)
	}
	s.lost = len(s.Waiting) < len(targets) && (len(s.Why) > 0 || len(s.Waiting) == 0)
	for target, counted := range rows.Targets {
		if s.Others && !slices.Contains(targets, target) && counted.Error == "" {
			s.Waiting[target] = counted
		}
	}
}

// Targets are those that the workers which have answered serve.
func (s *Census) Targets() []string {
	all := make(map[string]bool)
	for _, w := range s.Workers {
		if w.Err == nil {
			for target := range w.Value.Targets {
				all[target] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Unserved are the targets that nobody serves, as far as the master names them: those that were poked, and those
// of workers that are down.
func (s *Census) Unserved() (targets []string) {
	if s.Master == nil {
		return nil
	}
	for _, u := range s.Master.Unserved {
		targets = append(targets, u.Target)
	}
	served := map[string]bool{}
	for _, w := range s.Master.Workers {
		for _, name := range w.Targets {
			served[name] = true
		}
	}
	for _, w := range s.Master.Down {
		for _, name := range w.Targets {
			if !served[name] && !slices.Contains(targets, name) {
				targets = append(targets, name)
			}
		}
	}
	return targets
}

// Down names the workers that are down, as an error.
func (s *Census) Down() error {
	if s.Master == nil {
		return nil
	}
	return down(s.Master.Down)
}

func down(missed []api.DownWorker) error {
	var all []error
	for _, w := range missed {
		all = append(all, Named(w.Name, fmt.Errorf("it is down since %s", time.UnixMilli(w.Since).UTC().Format(time.RFC3339))))
	}
	return errors.Join(all...)
}

// Silent names the workers that did not answer their master.
func (s *Census) Silent() error { return Silent(s.Workers) }

// Older names the workers that can't tell what runs.
func (s *Census) Older() (errs []error) {
	for _, w := range s.Workers {
		if w.Err == nil && !TellsMore(w.Value) {
			errs = append(errs, w.From.Named(errOlder))
		}
	}
	return errs
}

// NextDue is when the next delayed row of a target is due, in unix seconds: as the table has it, or
// else as the workers' claims have learned; 0: none is known. now is what the clock says by which it
// is due; 0: nobody has told.
func (s *Census) NextDue(target string) (next, now int64) {
	if w, counted := s.Waiting[target]; counted && w.Error == "" {
		return w.NextDue, w.Now
	}
	for _, w := range s.Workers {
		if w.Err != nil {
			continue
		}
		if at := w.Value.Targets[target].NextDue; at > 0 && (next == 0 || at < next) {
			next = at
		}
	}
	return next, 0
}

// Delays tells whether any target has a delayed row, as far as is known.
func (s *Census) Delays() bool {
	return slices.ContainsFunc(s.Targets(), func(target string) bool {
		next, _ := s.NextDue(target)
		return next > 0
	})
}

// Tally is a target, added up over the workers that serve it and have answered.
type Tally struct {
	Target     string
	Workers    int // that serve it
	Untold     int // of those, how many can't tell what runs
	Paused     int // how many have it paused; see Stands
	Unable     int // how many others can start no job of it
	Slots      int
	Running    int // slots in use, of those that tell
	Prefetched int
	Started    int // within the last minute
	Ended      int
	Failed     int

	PausedAt time.Time // since when it is paused where it has been longest; zero: not known
	PausedBy string
	Why      []string // why workers claim nothing of it, with their names
}

// Tells tells whether any worker tells what runs.
func (t Tally) Tells() bool { return t.Workers > t.Untold }

// Add adds up another target.
func (t *Tally) Add(other Tally) {
	t.Workers += other.Workers
	t.Untold += other.Untold
	t.Paused += other.Paused
	t.Unable += other.Unable
	t.Slots += other.Slots
	t.Running += other.Running
	t.Prefetched += other.Prefetched
	t.Started += other.Started
	t.Ended += other.Ended
	t.Failed += other.Failed
	if t.PausedAt.IsZero() || !other.PausedAt.IsZero() && other.PausedAt.Before(t.PausedAt) {
		t.PausedAt, t.PausedBy = other.PausedAt, other.PausedBy
	}
	t.Why = append(t.Why, other.Why...)
}

// EmptyIn is in what time all that waits of a target will have ended, at the pace of the last minute;
// false where nothing ends, or nobody starts a job of it.
func (t Tally) EmptyIn(w api.WaitingTarget) (in time.Duration, known bool) {
	left, pace := w.Count+w.Due+t.Prefetched, t.Ended
	switch {
	case left == 0:
		return 0, true
	case pace == 0 || t.Stands():
		return 0, false
	}
	return time.Duration((left*60+pace-1)/pace) * time.Second, true
}

// EmptyText says that: - of nothing that waits, never where nothing ends, ? where it is not known.
func (t Tally) EmptyText(w api.WaitingTarget, counted bool) string {
	in, known := t.EmptyIn(w)
	switch {
	case t.Paused > 0 && t.Paused == t.Workers && (in > 0 || !known):
		return "paused"
	case !counted || w.Error != "" || t.Untold > 0:
		return "?"
	case !known:
		return "never"
	case in == 0:
		return "-"
	case w.More || w.DueMore:
		return ">" + screen.Length(in)
	}
	return screen.Length(in)
}

// Counted is how many rows were counted.
func Counted(rows int, more bool) string {
	if more {
		return fmt.Sprintf("%d+", rows)
	}
	return fmt.Sprint(rows)
}

// tallyOf is what one worker says of a target.
func tallyOf(w Answer[*api.WorkerStatus], name string) Tally {
	target := w.Value.Targets[name]
	t := Tally{
		Target: name, Workers: 1, Slots: target.Concurrency, Running: target.Running, Prefetched: target.Prefetched,
		Started: target.Started, Ended: target.Ended, Failed: target.Failed,
	}
	switch {
	case target.Paused:
		t.Paused = 1
	case w.Value.Stuck(name):
		t.Unable = 1
	}
	if target.Paused && target.PausedSince > 0 {
		t.PausedAt, t.PausedBy = time.UnixMilli(target.PausedSince), target.PausedBy
	}
	if !TellsMore(w.Value) {
		t.Untold = 1
	}
	if target.Why != "" {
		t.Why = []string{strings.TrimPrefix(w.From.Name+": "+target.Why, ": ")}
	}
	return t
}

// Tallies adds up all targets, by name. Those that were poked and are served by nobody are not
// among them.
func (s *Census) Tallies() []Tally {
	all := make(map[string]Tally)
	for _, w := range s.Workers {
		if w.Err != nil {
			continue
		}
		for name := range w.Value.Targets {
			t := all[name]
			t.Target = name
			t.Add(tallyOf(w, name))
			all[name] = t
		}
	}
	tallies := make([]Tally, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		tallies = append(tallies, all[name])
	}
	return tallies
}

// Stands tells whether nobody starts jobs of the target, since all who serve it have it paused, or
// can't.
func (t Tally) Stands() bool { return t.Paused+t.Unable > 0 && t.Paused+t.Unable == t.Workers }

// RunningJob is a running job, and the worker that runs it.
type RunningJob struct {
	api.RunningJob
	Worker string  `json:"worker,omitempty"` // "" where one worker was asked
	From   *Worker `json:"-"`
}

// Try is the number of its attempt, of how many where there may be several.
func (j RunningJob) Try() string {
	if j.MaxAttempts <= 1 {
		return fmt.Sprint(j.Attempt)
	}
	return fmt.Sprintf("%d/%d", j.Attempt, j.MaxAttempts)
}

// RunningJobs is what runs on all workers that were asked.
type RunningJobs struct {
	Jobs   []RunningJob      `json:"jobs"`
	Total  int               `json:"total"`            // how many run, listed or not
	Errors map[string]string `json:"errors,omitempty"` // of the workers that did not tell, by name
	Silent error             `json:"-"`                // the same
}

// Running asks for what runs, in the order that the query wants.
func Running(ctx context.Context, d *Daemon, query api.RunningQuery) (all RunningJobs, err error) {
	answers, err := All[api.RunningJobs](ctx, d, api.Running.Name, query)
	if err != nil {
		return all, err
	}
	all.Jobs, all.Errors, all.Silent = []RunningJob{}, errorsOf(answers), Silent(answers)
	for _, one := range answers {
		all.Total += one.Value.Total
		for _, job := range one.Value.Jobs {
			all.Jobs = append(all.Jobs, RunningJob{job, one.From.Name, one.From})
		}
	}
	all.Sort(query.Sort)
	return all, nil
}

// Sort puts the jobs into another order.
func (r RunningJobs) Sort(order string) {
	api.SortRunning(r.Jobs, order, func(j *RunningJob) *api.RunningJob { return &j.RunningJob })
}
