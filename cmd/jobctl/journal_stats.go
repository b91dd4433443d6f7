package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/beorn7/perks/quantile"

	"jobd/cmd/internal/history"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	"jobd/journal"
)

func (p *program) journalStats() *cmd {
	q := history.Query{
		Kinds: []journal.Kind{journal.KindAccepted, journal.KindRunning, journal.KindDone, journal.KindReleased, journal.KindConflict, journal.KindCancelled, journal.KindRetried},
	}
	c := p.journalCommand("stats", "", "counts, failures, waiting and running times of each target", func(ctx context.Context, j *operator.Journals, _ []string) error {
		s := statistics{program: p, groups: make(map[string]*group), jobs: make(map[workerJob]*underWay), back: make(map[int64]time.Time)}
		if err := s.begin(ctx, j, q.Since); err != nil {
			return err
		}
		for e, err := range j.Events(ctx, q) {
			if err != nil {
				return err
			}
			s.add(e)
		}
		s.print()
		return nil
	})
	p.windowFlags(c, &q.Since, &q.Until)
	return c
}

// statistics counts what happened. Its memory is bounded by the jobs under way and the groups.
type statistics struct {
	*program
	groups map[string]*group
	jobs   map[workerJob]*underWay
	back   map[int64]time.Time // when jobs that wait were set back by retry
}

// workerJob names a job of a worker: two may have the same one, one after the other.
type workerJob struct {
	source operator.Source
	job    int64
}

// underWay is what is known of a job that has not ended. Most events don't say what they are about: the
// job's claim does, which may lie before the time that is looked at.
type underWay struct {
	target            string
	accepted, running time.Time
	claim             *journal.Accepted // nil: it lies before the time that is looked at
	back              time.Time         // when the row was set back by retry; zero: it was not
}

// group is the counts of a target.
type group struct {
	claimed, starts, done, failed, released, conflicts int

	waited, ran durations
}

// notTold stands for what the history does not tell any more.
const notTold = "?"

// begin notes the jobs that were under way when the time that is looked at begins.
func (s *statistics) begin(ctx context.Context, j *operator.Journals, since time.Time) error {
	return j.Each(func(worker operator.Source) error {
		for job, err := range worker.Jobs(ctx, history.AtQuery{At: since, UnderWay: true}) {
			if err != nil {
				return err
			}
			s.jobs[workerJob{worker, int64(job.Job)}] = &underWay{target: job.Target, accepted: job.Accepted, running: job.Running}
		}
		return nil
	})
}

// add counts an event. A claim counts where it was made, what follows where it happened.
func (s *statistics) add(e operator.From[journal.Event]) {
	key := workerJob{e.Source, e.Item.Job}
	job, at := s.jobs[key], e.Item.Time
	switch payload := e.Item.Payload.(type) {
	case journal.Retried:
		s.back[e.Item.Job] = at
		return
	case journal.Accepted:
		job = &underWay{target: payload.Target, accepted: at, claim: &payload, back: s.back[e.Item.Job]}
		s.jobs[key] = job
		delete(s.back, e.Item.Job)
	}
	if job == nil {
		job = &underWay{target: notTold}
	}
	conflict, met := e.Item.Payload.(journal.Conflict)
	if met && job.target == notTold && conflict.Found != nil && conflict.Found.Target != "" { // noticed behind the job's end
		job.target = conflict.Found.Target
	}
	g := s.group(job.target)
	switch payload := e.Item.Payload.(type) {
	case journal.Accepted:
		g.claimed++
	case journal.Running:
		g.starts++
		if waited, known := job.waited(at); known && job.running.IsZero() {
			g.waited.add(waited)
		}
		job.running = at
	case journal.Done:
		g.done++
		if payload.Result != "ok" {
			g.failed++
		}
		if ran, known := operator.RanFor(payload, job.running, at); known {
			g.ran.add(ran)
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
}

func (s *statistics) group(target string) *group {
	g := s.groups[target]
	if g == nil {
		g = &group{}
		s.groups[target] = g
	}
	return g
}

// waited is how long the row of a job waited until it was started, from when it could run: it was
// made, was due, or was set back by retry. time_created has whole seconds, so it was up to a second longer. A manual row waits
// for its client, and counts from its claim, as do all in journals of older versions, which do not tell
// when rows were made. False where nobody knows since when a row could run: its claim lies before the
// time that is looked at, or it says a time before 2001.
func (job *underWay) waited(running time.Time) (waited time.Duration, known bool) {
	if job.claim == nil {
		return 0, false
	}
	claimed, since := running.Sub(job.accepted), job.claim.Created+1
	switch {
	case job.claim.From == journal.RowDelayed && job.claim.Plan != nil:
		since = job.claim.Plan.RunAt
	case !job.back.IsZero() && !job.claim.Manual:
		return max(claimed, running.Sub(job.back)), true
	case job.claim.Manual || job.claim.Created == 0:
		return claimed, true
	}
	return max(claimed, running.Sub(time.Unix(since, 0))), since >= operator.FirstUnix
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
	Waited    *spread `json:"waited"` // null: of none it is known
	Ran       *spread `json:"ran"`    // likewise
}

// spread is percentiles in seconds.
type spread struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// spread is the percentiles of durations; nil of none.
func (d *durations) spread() *spread {
	if d.stream == nil {
		return nil
	}
	return &spread{d.seconds(.5), d.seconds(.9), d.seconds(.99), d.longest.Seconds()}
}

// print prints the groups: a table of counts, and one of times.
func (s *statistics) print() {
	counts := s.table("no events", "TARGET", "TARGET", "CLAIMED", "STARTS", "DONE", "FAILED", "RELEASED", "CONFLICTS")
	times := s.table("", "TARGET", "TARGET", "WAIT P50", "P90", "P99", "MAX", "RUN P50", "P90", "P99", "MAX")
	names := slices.Sorted(maps.Keys(s.groups))
	for _, name := range names {
		g := s.groups[name]
		tone := plain
		if g.failed > 0 {
			tone = bad
		}
		form := statisticsForm{name, g.claimed, g.starts, g.done, g.failed, g.released, g.conflicts, g.waited.spread(), g.ran.spread()}
		counts.put(form, tone, name, g.claimed, g.starts, g.done, g.failed, g.released, g.conflicts)
	}
	counts.print()
	if s.json() || counts.count == 0 {
		return
	}
	s.say("\n")
	for _, name := range names {
		g := s.groups[name]
		times.add(slices.Concat([]any{name}, timesOf(&g.waited), timesOf(&g.ran))...)
	}
	times.print()
}

// timesOf is what is told of some durations; nothing where there are none.
func timesOf(d *durations) (texts []any) {
	told := d.spread()
	if told == nil {
		return []any{"", "", "", ""}
	}
	for _, seconds := range []float64{told.P50, told.P90, told.P99, told.Max} {
		texts = append(texts, brief(time.Duration(seconds*float64(time.Second))))
	}
	return texts
}

// durations are how long something took, any number of times, in little memory. The zero value is ready.
type durations struct {
	stream  *quantile.Stream // nil: it has not happened
	longest time.Duration
}

func (d *durations) add(duration time.Duration) {
	if d.stream == nil {
		d.stream = quantile.NewTargeted(map[float64]float64{.5: .005, .9: .001, .99: .0005}) // with how far they may be off
	}
	d.stream.Insert(duration.Seconds())
	d.longest = max(d.longest, duration)
}

// seconds is a duration that the share q of all does not exceed.
func (d *durations) seconds(q float64) float64 { return d.stream.Query(q) }

// brief writes a duration so that eight of them stand in a line of a terminal.
func brief(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return screen.Length(d)
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Microsecond).String()
}
