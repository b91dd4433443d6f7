package main

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

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
	if d.count == 0 {
		return nil
	}
	return &spread{d.quantile(.5).Seconds(), d.quantile(.9).Seconds(), d.quantile(.99).Seconds(), d.longest.Seconds()}
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
func timesOf(d *durations) []any {
	if d.count == 0 {
		return []any{"", "", "", ""}
	}
	return []any{brief(d.quantile(.5)), brief(d.quantile(.9)), brief(d.quantile(.99)), brief(d.longest)}
}

// growth is how much wider each bucket of durations is than the one before it, and so the greatest
// error of a percentile.
const growth = 1.02

// durations counts durations in buckets that grow by growth, so that any number of them takes
// little memory. The zero value is ready.
type durations struct {
	buckets map[int]int
	count   int
	longest time.Duration
}

func (d *durations) add(duration time.Duration) {
	if d.buckets == nil {
		d.buckets = make(map[int]int)
	}
	d.buckets[bucketOf(duration)]++
	d.count++
	d.longest = max(d.longest, duration)
}

// bucketOf is the bucket of a duration: those of a microsecond and less share one.
func bucketOf(duration time.Duration) int {
	if duration <= time.Microsecond {
		return 0
	}
	return int(math.Ceil(math.Log(float64(duration)/float64(time.Microsecond)) / math.Log(growth)))
}

// quantile is a duration that the share q of all does not exceed, by nearest rank; 0 of none.
func (d *durations) quantile(q float64) time.Duration {
	rank := int(math.Ceil(q * float64(d.count)))
	highest := bucketOf(d.longest)
	for bucket, seen := 0, 0; bucket <= highest && d.count > 0; bucket++ {
		if seen += d.buckets[bucket]; seen >= rank {
			upper := time.Duration(math.Pow(growth, float64(bucket)) * float64(time.Microsecond))
			return min(upper, d.longest)
		}
	}
	return d.longest
}

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
