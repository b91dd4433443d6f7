package page

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	jobnet "jobd/net"
	"jobd/net/api"
)

// spans are how much of the time one sees at once.
var spans = []struct {
	Name string
	Long time.Duration
}{{"5m", 5 * time.Minute}, {"15m", 15 * time.Minute}, {"1h", time.Hour}, {"6h", 6 * time.Hour}, {"24h", 24 * time.Hour}, {"7d", 7 * 24 * time.Hour}}

// The picture's measures, and how many jobs are in it.
const (
	wide     = 1000 // units
	laneHigh = 12
	ticks    = 6
	mostBars = 500
)

// drawn is a job in the picture.
type drawn struct {
	Job   jobnet.Whole
	X, W  string // units
	Y     int
	Class string
	Title string
}

// lanes are the jobs of one target: one lane for each that ran beside others.
type lanes struct {
	Target string
	High   int
	Bars   []drawn

	ends []time.Time // of the last job of each lane
}

// timelinePage is /timeline.
type timelinePage struct {
	Target  string
	Targets []string
	Span    string
	Spans   []string
	From    time.Time
	Until   time.Time
	Ticks   []time.Time
	Lanes   []*lanes
	Jobs    int
	More    bool
	Earlier string // addresses
	Later   string // "": it shows what is now
}

// timelineView is /timeline.
func timelineView(l *look) (any, error) {
	p := &timelinePage{Target: l.value("target"), Span: cmp.Or(l.value("span"), "15m"), Until: l.now}
	var long time.Duration
	for _, span := range spans {
		p.Spans = append(p.Spans, span.Name)
		if span.Name == p.Span {
			long = span.Long
		}
	}
	if long == 0 {
		return nil, badQuery("span %s is not allowed; allowed: %v", screen.Clean(p.Span), p.Spans)
	}
	if text := l.value("until"); text != "" {
		at, err := l.moment("until", text)
		if err != nil {
			return nil, err
		}
		if p.Until = at; at.After(l.now) {
			p.Until = l.now
		}
		if later := p.Until.Add(long); later.Before(l.now) {
			p.Later = l.With("until", later.UTC().Format(time.RFC3339))
		} else if p.Until.Before(l.now) {
			p.Later = l.With("until", "")
		}
	}
	p.From = p.Until.Add(-long)
	p.Earlier = l.With("until", p.From.UTC().Format(time.RFC3339))
	for i := range ticks {
		p.Ticks = append(p.Ticks, p.From.Add(long*time.Duration(i)/ticks))
	}
	var err error
	if p.Targets, _, err = l.choices(p.Target); err != nil {
		return nil, err
	}
	jobs, err := l.jobsBetween(p)
	if err != nil {
		return nil, err
	}
	p.draw(jobs, l.now)
	return p, nil
}

// jobsBetween asks for the jobs of the picture, those that were started first first.
func (l *look) jobsBetween(p *timelinePage) (all []operator.FoundJob, err error) {
	// What still runs, or ended later than the picture, is in it where it was started before its end.
	query := api.JobsQuery{Since: p.From.UnixMilli(), Most: api.MostFound}
	if p.Target != "" {
		query.Targets = []string{p.Target}
	}
	all, p.More, err = l.found(query, mostBars)
	slices.SortFunc(all, func(a, b operator.FoundJob) int {
		return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Started, b.Started), cmp.Compare(a.Job, b.Job))
	})
	return all, err
}

// draw lays the jobs out: each in the first lane of its target in which none is running then.
func (p *timelinePage) draw(jobs []operator.FoundJob, now time.Time) {
	long := p.Until.Sub(p.From)
	unit := func(at time.Time) float64 { return wide * float64(at.Sub(p.From)) / float64(long) }
	for _, job := range jobs {
		begin, end := unixTime(job.Started, time.Millisecond), unixTime(job.Ended, time.Millisecond)
		class := "ok"
		switch {
		case job.Started == 0:
			continue
		case job.Status == "running" || job.Status == "starting":
			class, end = "runs", now
		case job.Status != "done" || job.Result != "ok":
			class = "failed"
		}
		if job.Ended == 0 && class != "runs" || begin.After(p.Until) || end.Before(p.From) {
			continue
		}
		if len(p.Lanes) == 0 || p.Lanes[len(p.Lanes)-1].Target != job.Target {
			p.Lanes = append(p.Lanes, &lanes{Target: job.Target})
		}
		of := p.Lanes[len(p.Lanes)-1]
		lane := slices.IndexFunc(of.ends, func(last time.Time) bool { return !last.After(begin) })
		if lane < 0 {
			lane = len(of.ends)
			of.ends = append(of.ends, time.Time{})
		}
		of.ends[lane] = end
		x, to := max(0, unit(begin)), min(wide, unit(end))
		of.High = len(of.ends) * laneHigh
		of.Bars = append(of.Bars, drawn{
			Job: job.Job, X: fmt.Sprintf("%.2f", x), W: fmt.Sprintf("%.2f", max(1.5, to-x)), Y: lane * laneHigh, Class: class,
			Title: fmt.Sprintf("job %d, %s, %s%s", job.Job, class, screen.ShortLength(end.Sub(begin)), ifNamed(job.Worker)),
		})
		p.Jobs++
	}
}

func ifNamed(worker string) string {
	if worker == "" {
		return ""
	}
	return ", on " + screen.Clean(worker)
}
