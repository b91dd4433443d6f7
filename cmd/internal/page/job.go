package page

import (
	"context"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/reason"
	"jobd/cmd/internal/screen"
	"jobd/cmd/internal/web"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
)

// mostShown is how much of an output a job's page shows, and how much of it where all is wanted; what is more
// can be downloaded.
const (
	mostShown = 64 << 10
	mostWhole = 1 << 20
)

// jobPage is one job.
type jobPage struct {
	*operator.Story
	ID      jobnet.Whole
	Tone    string
	Outputs []output
	Told    []run
	Picture picture
	Process *operator.RunningJob // nil: it does not run, or nobody tells
	Ran     string               // "": it runs, or nobody knows
	CPU     time.Duration        // what it used, where it has ended; 0: nobody knows
	Memory  int64
	Usual   operator.Usually // what others of its target need

	Rests                                bool // it has ended: this page stays as it is
	Runs, MayRetry, MayCancel, MayRunNow bool
}

// output is what a job wrote to a stream.
type output struct {
	Name string
	Text template.HTML
	Size int64
	Cut  bool // there is more before
	All  bool // all of it was asked for
}

// run is what became of a job from one claim to the next.
type run struct {
	Events  []event
	Lengths []operator.Length
}

// picture is the time from a job's first event to its last, or until now, with a bar for each attempt. It is
// empty where one attempt fills it.
type picture struct {
	Bars     []drawn
	From, To time.Time
}

// event is one step of it.
type event struct {
	At     time.Time
	After  string // the run began; "": it is the first step
	Tone   string
	Worker string
	Text   string
}

// theJob is the job of the address.
func (l *look) theJob() (operator.Job, error) {
	id, err := l.id()
	return operator.Job{ID: id}, err
}

// clock is by what times in sentences are told.
func (l *look) clock() operator.Clock {
	return operator.Clock{Now: l.now, Location: time.Local, Brief: true}
}

// jobView is /jobs/ID.
func jobView(l *look) (any, error) {
	job, err := l.theJob()
	if err != nil {
		return nil, err
	}
	runs := operator.UsualRuns
	if l.Query("runs") == "all" {
		runs = 0
	}
	story, err := operator.Tell(l.ctx, l.Daemon(), job, runs, false, l.clock(), l.note)
	if err != nil {
		return nil, err
	}
	l.noteAll(story.Failed)
	if story.Verdict.Reason == reason.NoSuchJob && len(story.Runs) == 0 {
		return nil, notFound("%s", story.Verdict.Sentence)
	}
	l.title = fmt.Sprintf("Job %d", job.ID)
	p := &jobPage{Story: story, ID: job.ID, Tone: toneOfReason(story.Verdict.Reason)}
	for _, r := range story.Runs {
		p.Told = append(p.Told, runOf(r))
	}
	p.Picture = pictureOf(story.Runs, l.now)
	if story.Row != nil {
		switch story.Row.Status {
		case journal.RowDone, journal.RowIgnored:
			p.MayRetry = true
		case journal.RowDelayed:
			p.MayRunNow, p.MayCancel = true, true
		default:
			p.MayCancel = true
			p.Runs = story.Row.Status == journal.RowRunning
		}
	}
	ran, ended := story.Newest().Ran()
	if ended {
		p.Ran = screen.ShortLength(ran)
		if done := story.Newest().Done; done != nil {
			p.CPU, p.Memory = time.Duration(done.CPU)*time.Microsecond, done.Memory
		}
	}
	if p.Runs {
		l.note(l.process(p))
	}
	if ended || p.Process != nil {
		p.Usual = l.usual(p.Row)
	}
	l.note(l.outputs(p))
	p.Rests = p.MayRetry && len(l.notes) == 0
	return p, nil
}

// usuals are what is usual for targets, as it was last found.
type usuals struct {
	sync.Mutex
	since time.Time
	known map[string]operator.Usually
}

// longestAside is how long a page waits for what stands beside what it is about.
const longestAside = 200 * time.Millisecond

// usual is what is usual for the target of a row. The last jobs are looked at once a minute, for all who look.
func (l *look) usual(row *api.JobRow) (usual operator.Usually) {
	if row == nil {
		return usual
	}
	u := &l.page.usual
	u.Lock()
	if l.now.Sub(u.since) > time.Minute {
		u.since, u.known = l.now, map[string]operator.Usually{}
	}
	usual, known := u.known[row.Target]
	u.Unlock()
	if !known {
		ctx, cancel := context.WithTimeout(l.ctx, longestAside)
		defer cancel()
		usual = operator.Usual(ctx, l.Daemon(), row.Target)
		u.Lock()
		defer u.Unlock()
		if l.ctx.Err() == nil { // whoever looks waits for it
			u.known[row.Target] = usual
		}
	}
	return usual
}

// process asks for what the job uses while it runs.
func (l *look) process(p *jobPage) error {
	running, err := operator.Running(l.ctx, l.Daemon(), api.RunningQuery{Targets: []string{p.Row.Target}})
	if err != nil {
		return err
	}
	for i := range running.Jobs {
		if running.Jobs[i].Job == p.ID {
			p.Process = &running.Jobs[i]
		}
	}
	return nil
}

// ToJobs is the address of the jobs of a target.
func (*look) ToJobs(target string) string { return "/jobs?" + url.Values{"target": {target}}.Encode() }

// toneOfReason is how bad it is where a job is.
func toneOfReason(code reason.Code) string {
	switch code {
	case reason.Done:
		return "good"
	case reason.Failed, reason.Killed, reason.TimedOut, reason.Stopped, reason.Unknown, reason.Lost, reason.Conflict, reason.Unserved,
		reason.Refused, reason.BadSchedule, reason.OddStatus, reason.Orphaned:
		return "bad"
	case reason.Running, reason.Starting, reason.Claimed, reason.Prefetched, reason.Waiting, reason.Slots, reason.Next, reason.Delayed,
		reason.Retrying, reason.Recurring, reason.Manual:
		return ""
	}
	return "warn"
}

func runOf(of *operator.Run) (r run) {
	r.Lengths = of.Lengths()
	for i, e := range of.Events {
		one := event{At: e.Item.Time, Tone: toneOfEvent(e.Item.Payload), Worker: e.Source.Worker(), Text: e.Text}
		if i > 0 {
			one.After = offset(e.Item.Time.Sub(of.Events[0].Item.Time))
			if of.Events[i-1].Source.Worker() == one.Worker {
				one.Worker = ""
			}
		}
		r.Events = append(r.Events, one)
	}
	return r
}

// pictureOf draws what runs were: how long the job waited for its start, and each attempt to its end.
func pictureOf(runs []*operator.Run, now time.Time) (p picture) {
	if len(runs) == 0 {
		return p
	}
	p.From = runs[0].Events[0].Item.Time
	last := runs[len(runs)-1]
	if p.To = last.Events[len(last.Events)-1].Item.Time; last.Done == nil {
		p.To = now
	}
	draw := func(class string, from, to time.Time) {
		long := float64(max(1, p.To.Sub(p.From)))
		x, end := wide*float64(from.Sub(p.From))/long, wide*float64(to.Sub(p.From))/long
		if class == "waits" && end-x < 5 {
			return
		}
		p.Bars = append(p.Bars, drawn{
			X: fmt.Sprintf("%.2f", x), W: fmt.Sprintf("%.2f", max(1.5, end-x)), Class: class,
			Title: class + " " + screen.ShortLength(to.Sub(from)),
		})
	}
	for i, r := range runs {
		from, class := r.Events[0].Item.Time, "waits"
		for _, e := range r.Events {
			switch done := e.Item.Payload.(type) {
			case journal.Running:
				draw(class, from, e.Item.Time)
				from, class = e.Item.Time, "runs"
			case journal.Done:
				if class = "failed"; done.Result == "ok" {
					class = "ok"
				}
				draw(class, from, e.Item.Time)
			}
		}
		if r.Done == nil && i == len(runs)-1 {
			draw(class, from, p.To)
		}
	}
	if len(p.Bars) == 1 {
		p.Bars = nil
	}
	return p
}

// offset is how long after the run's begin something was.
func offset(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return screen.ShortLength(d)
}

func toneOfEvent(payload journal.Payload) string {
	switch e := payload.(type) {
	case journal.Done:
		if e.Result == "ok" {
			return "good"
		}
		return "bad"
	case journal.Signal, journal.Cancelled, journal.Ignored, journal.Released, journal.SetAside:
		return "warn"
	case journal.Conflict:
		return "bad"
	}
	return ""
}

// outputs are what the job wrote: of one that runs as it comes.
func (l *look) outputs(p *jobPage) error {
	most := int64(mostShown)
	if l.Query("output") == "all" {
		most = mostWhole
	}
	add := func(all []operator.Output) {
		for _, o := range all {
			p.Outputs = append(p.Outputs, outputOf(o.Name, o.Text, o.Size, int(most)))
		}
	}
	if shown, whole := p.Shown(); whole {
		add(shown)
		return nil
	}
	told, err := l.output(p.ID, most)
	if err != nil || told == nil {
		add(p.Story.Outputs())
		return err
	}
	for _, part := range []struct {
		name string
		api.OutputPart
	}{{"stdout", told.Stdout}, {"stderr", told.Stderr}} {
		if part.Size > 0 {
			p.Outputs = append(p.Outputs, outputOf(part.name, string(part.Bytes), part.Size, int(most)))
		}
	}
	return nil
}

func outputOf(name, text string, size int64, most int) output {
	text, cut := tail(text, most)
	return output{Name: name, Text: coloured(text), Size: size, Cut: cut || int64(len(text)) < size, All: most == mostWhole}
}

// output asks for the end of what a job has written, so much of each stream; nil: nobody who answered knows it.
func (l *look) output(id jobnet.Whole, most int64) (all *api.JobOutput, err error) {
	w, all, err := l.writer(id, api.OutputQuery{Job: id, Stdout: -most, Stderr: -most})
	for err == nil && all != nil && all.Stdout.Size+all.Stderr.Size > 0 {
		query := api.OutputQuery{Job: id, Attempt: all.Attempt, Stdout: behind(all.Stdout), Stderr: behind(all.Stderr)}
		if query.Stdout >= all.Stdout.Size && query.Stderr >= all.Stderr.Size {
			break
		}
		var more api.JobOutput
		err = w.Ask(l.ctx, api.Output.Name, query, &more)
		if len(more.Stdout.Bytes)+len(more.Stderr.Bytes) == 0 || more.Stdout.Skipped+more.Stderr.Skipped > 0 {
			break
		}
		for _, s := range []struct{ to, from *api.OutputPart }{{&all.Stdout, &more.Stdout}, {&all.Stderr, &more.Stderr}} {
			s.to.Bytes, s.to.Size = append(s.to.Bytes, s.from.Bytes...), s.from.Size
		}
		if int64(max(len(all.Stdout.Bytes), len(all.Stderr.Bytes))) >= most+mostShown {
			break // it writes faster than it can be read
		}
	}
	return all, err
}

// behind is where a part of a stream ends.
func behind(part api.OutputPart) int64 { return part.At + int64(len(part.Bytes)) }

// writer is the worker that runs a job, or ran it last, and what it tells of the job's output; nil where nobody
// who answered knows it.
func (l *look) writer(id jobnet.Whole, query api.OutputQuery) (*operator.Worker, *api.JobOutput, error) {
	answers, err := operator.All[api.JobOutput](l.ctx, l.Daemon(), api.Output.Name, query)
	if err != nil {
		return nil, nil, err
	}
	l.note(operator.Silent(answers))
	var best *operator.Answer[api.JobOutput]
	for i := range answers {
		one := &answers[i]
		if one.Err != nil || one.Value.State == api.OutputUnknown {
			continue
		}
		if best == nil || one.Value.Running || !best.Value.Running && endOf(one.Value) > endOf(best.Value) {
			best = one
		}
	}
	if best == nil {
		return nil, nil, nil
	}
	return best.From, &best.Value, nil
}

func endOf(o api.JobOutput) int64 {
	if o.Done == nil {
		return 0
	}
	return o.Done.Ended
}

// download sends all that is kept of a stream, as the job wrote it.
func (p *Page) download(w http.ResponseWriter, l *look) error {
	id, err := l.id()
	stream := l.PathValue("stream")
	if err == nil && stream != "stdout" && stream != "stderr" {
		err = notFound("a job has no stream %s; it has stdout and stderr", screen.Clean(stream))
	}
	if err != nil {
		return err
	}
	worker, part, err := l.writer(id, api.OutputQuery{Job: id})
	switch {
	case err != nil:
		return err
	case part == nil:
		return notFound("no journal has an output of job %d", id)
	}
	attempt := part.Attempt
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=job-%d.%s.txt", id, stream))
	out, err := web.OpenStream(w, l.Request)
	if err != nil {
		return refuse(http.StatusTooManyRequests, "%v", err)
	}
	defer out.Close()
	at := int64(0)
	for {
		of := part.Stdout
		query := api.OutputQuery{Job: id, Attempt: attempt, Stderr: part.Stderr.Size}
		if stream == "stderr" {
			of, query = part.Stderr, api.OutputQuery{Job: id, Attempt: attempt, Stdout: part.Stdout.Size}
		}
		if of.Skipped > 0 {
			fmt.Fprintf(out, "[%s bytes were not kept]\n", strconv.FormatInt(of.Skipped, 10))
		}
		if _, err := out.Write(of.Bytes); err != nil || len(of.Bytes) == 0 {
			return nil
		}
		if at = behind(of); at >= of.Size {
			return nil
		}
		if query.Stdout = at; stream == "stderr" {
			query.Stdout, query.Stderr = part.Stdout.Size, at
		}
		part = &api.JobOutput{}
		if err := worker.Ask(out, api.Output.Name, query, part); err != nil {
			_, _ = io.WriteString(out, "\n[the rest could not be read: "+screen.Clean(err.Error())+"]\n")
			return nil
		}
	}
}
