package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/history"
	"jobd/journal"
)

func (p *program) journalStats() *ffcli.Command {
	var span *window
	by := byFlag(byTarget)
	c := p.journalCommand("stats", "", "counts, failures, waiting and running times", func(ctx context.Context, j *journals, _ []string) error {
		s := statistics{program: p, by: by, groups: make(map[string]*group), jobs: make(map[workerJob]*underWay), names: make(map[source]string)}
		q := history.Query{
			Since: span.since.at, Until: span.until.at,
			Kinds: []journal.Kind{journal.KindAccepted, journal.KindRunning, journal.KindDone, journal.KindReleased, journal.KindConflict, journal.KindCancelled},
		}
		if err := s.begin(ctx, j, q.Since); err != nil {
			return err
		}
		count, progress := uint64(0), p.progress("events counted")
		defer progress.end()
		for e, err := range j.events(ctx, q) {
			if err == nil {
				err = s.add(ctx, e)
			}
			if err != nil {
				return err
			}
			count++
			progress.at(count)
		}
		progress.end()
		return s.print()
	})
	span = p.windowFlags(c)
	c.FlagSet.Var(&by, "by", "target, hour or worker")
	return c
}

// What statistics are grouped by.
const (
	byTarget = "target"
	byHour   = "hour"
	byWorker = "worker"
)

// byFlag is a flag.Value for what statistics are grouped by.
type byFlag string

// String implements flag.Value.
func (f *byFlag) String() string { return string(*f) }

// Set implements flag.Value.
func (f *byFlag) Set(text string) error {
	if text != byTarget && text != byHour && text != byWorker {
		return fmt.Errorf("%q is not allowed; allowed are: target, hour, worker", text)
	}
	*f = byFlag(text)
	return nil
}

// statistics counts what happened. Its memory is bounded by the jobs under way and the groups.
type statistics struct {
	*program
	by     byFlag
	groups map[string]*group
	jobs   map[workerJob]*underWay
	names  map[source]string // of the workers
}

// workerJob names a job of a worker: two may have the same one, one after the other.
type workerJob struct {
	source source
	job    int64
}

// group is the counts of a target, or of an hour.
type group struct {
	claimed, begun, starts, done, failed, released, conflicts int
	untimed                                                   int // of those done: nobody knows how long they ran

	waited, ran durations

	again int       // of those failed: that are tried again by themselves
	late  durations // of first starts of runs that were planned for a time
}

// add counts an event. A claim counts where it was made, what follows where it happened.
func (s *statistics) add(ctx context.Context, e from[journal.Event]) error {
	key := workerJob{e.source, e.item.Job}
	job, at := s.jobs[key], e.item.Time
	if accepted, ok := e.item.Payload.(journal.Accepted); ok {
		job = &underWay{target: accepted.Target, accepted: at, claim: &accepted}
		s.jobs[key] = job
	}
	if job == nil {
		var err error
		if job, err = s.ended(ctx, e); err != nil {
			return err
		}
	}
	g := s.group(e.source, job.target, at)
	switch payload := e.item.Payload.(type) {
	case journal.Accepted:
		g.claimed++
	case journal.Running:
		g.starts++
		if payload.Attempt == 1 {
			g.begun++
		}
		if job.running.IsZero() {
			if err := s.waited(ctx, e, job, g); err != nil {
				return err
			}
			g.addLate(job.claim, payload.Attempt, at)
		}
		job.running = at
	case journal.Done:
		g.done++
		if payload.Result != "ok" {
			g.failed++
		}
		if payload.Again != nil && payload.Again.Why == journal.AgainRetry {
			g.again++
		}
		if ran, known := ranFor(payload, job.running, at); known {
			g.ran.add(ran)
		} else if !job.running.IsZero() {
			g.untimed++
		}
		delete(s.jobs, key)
	case journal.Released:
		g.released++
		delete(s.jobs, key)
	case journal.Cancelled:
		if !payload.Runs {
			delete(s.jobs, key)
		}
	case journal.Conflict:
		g.conflicts++
	}
	return nil
}

// noteUntimed says on stderr how many jobs are not among the running times.
func (s *statistics) noteUntimed() {
	untimed := 0
	for _, g := range s.groups {
		untimed += g.untimed
	}
	if untimed > 0 {
		fmt.Fprintf(s.err, "jobctl: how long %d of the jobs ran is not known; they are not among the running times\n", untimed)
	}
}

func (s *statistics) group(worker source, target string, at time.Time) *group {
	name := target
	switch s.by {
	case byHour:
		name = at.In(s.location).Format("2006-01-02 15:00")
	case byWorker:
		name = s.names[worker]
	}
	g := s.groups[name]
	if g == nil {
		g = &group{}
		s.groups[name] = g
	}
	return g
}

// statisticsForm is a group as JSON; times are in seconds.
type statisticsForm struct {
	Group     string  `json:"group"`
	Claimed   int     `json:"claimed"`
	Starts    int     `json:"starts"`
	Done      int     `json:"done"`
	Failed    int     `json:"failed"`
	Released  int     `json:"released"`
	Conflicts int     `json:"conflicts"`
	PerJob    float64 `json:"starts_per_job"`
	Waited    spread  `json:"waited"`
	Ran       *spread `json:"ran"`                     // null: of none it is known
	Untimed   int     `json:"ran_not_known,omitempty"` // how many are not in it

	Again int     `json:"tried_again,omitempty"` // of those failed
	Late  *spread `json:"late,omitempty"`        // how much later than planned runs began; none was planned for a time
}

// spread is percentiles in seconds.
type spread struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func (d *durations) spread() spread {
	return spread{d.quantile(.5).Seconds(), d.quantile(.9).Seconds(), d.quantile(.99).Seconds(), d.longest.Seconds()}
}

// spreadOfSome is the percentiles of durations; nil of none.
func (d *durations) spreadOfSome() *spread {
	if d.count == 0 {
		return nil
	}
	s := d.spread()
	return &s
}

// perJob is how many starts a job took, of those that were begun.
func (g *group) perJob() float64 {
	if g.begun == 0 {
		return 0
	}
	return float64(g.starts) / float64(g.begun)
}

func (s *statistics) print() error {
	counts, times, late := s.tables()
	for _, name := range slices.SortedFunc(maps.Keys(s.groups), cmp.Compare[string]) {
		g := s.groups[name]
		form := statisticsForm{
			name, g.claimed, g.starts, g.done, g.failed, g.released, g.conflicts, g.perJob(), g.waited.spread(), g.ran.spreadOfSome(), g.untimed,
			g.again, g.late.spreadOfSome(),
		}
		tone := plain
		if g.failed > 0 {
			tone = bad
		}
		if err := s.addGroup(counts, times, late, name, form, tone); err != nil {
			return err
		}
	}
	if !s.json() {
		s.noteUntimed()
	}
	err := counts.end(nil)
	if err == nil && times != counts && counts.count > 0 && !s.json() {
		fmt.Fprintln(s.out)
		err = times.end(nil)
		if err == nil && late != nil {
			fmt.Fprintln(s.out)
			err = late.end(nil)
		}
	}
	return err
}
