package operator

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"jobd/cmd/internal/history"
	"jobd/cmd/internal/reason"
	"jobd/journal"
	"jobd/net/api"
)

// Story is all that is known of one job: why it is where it is, its row, and what became of it.
type Story struct {
	Job     Job
	Verdict reason.Verdict
	Row     *api.JobRow // nil: there is none, or nobody could read it
	Read    bool        // somebody could read the table
	Runs    []*Run      // the newest ones, the oldest first; what is told from before a claim is one, too
	Earlier bool        // there are, or may be, others before these
	Unheard bool        // a journal could not be read, so some may lack
	Failed  []error     // why it could not

	clock Clock
}

// StoryEvent is an event of a job, and what it means.
type StoryEvent struct {
	From[journal.Event]
	Text string
}

// A row that recurs has ever more events: only the newest are asked for.
const (
	// UsualRuns is how many runs of a job are told where nobody says otherwise.
	UsualRuns = 10
	// eventsOfRun is how many events are asked for, for a run: most have four, and one that is given
	// back, signalled or planned anew some more.
	eventsOfRun = 8
)

// Tell tells the story of a job, with so many of its runs (0: all). note is told who did not answer; a
// journal that can't be read takes nothing from the rest.
func Tell(ctx context.Context, d *Daemon, job Job, runs int, clock Clock, note func(error)) (*Story, error) {
	e, err := explain(ctx, d, []Job{job}, clock, note)
	if err != nil {
		return nil, err
	}
	noteSilent(e.answers, note)
	j := journalsOf(answered(e.answers), note)
	s := &Story{Job: job, Verdict: e.verdicts[0], Row: e.row(), Read: e.read(), clock: clock}
	s.readRuns(ctx, j, runs)
	s.Failed = j.Failed
	s.Unheard = len(j.Sources) < len(e.answers) || len(j.Failed) > 0
	return s, nil
}

// readRuns reads what the journals know of the newest runs, so many at most (0: all).
func (s *Story) readRuns(ctx context.Context, j *Journals, runs int) {
	most := runs * eventsOfRun
	var events []From[journal.Event]
	for event, err := range j.Events(ctx, history.Query{Job: int64(s.Job.ID), Output: true, Last: most}) {
		if err != nil {
			j.Failed = append(j.Failed, err)
			break
		}
		events = append(events, event)
	}
	if runs > 0 {
		s.Earlier = len(events) >= most
		if begin := beginOfRuns(events, runs, s.Earlier); begin > 0 {
			s.Earlier, events = true, events[begin:]
		}
	}
	told := Narrator{Clock: s.clock}
	for _, e := range events {
		before := told.Run
		text, err := told.Tell(ctx, e)
		if err != nil {
			j.Failed = append(j.Failed, err)
		}
		if told.Run != before {
			s.Runs = append(s.Runs, told.Run)
		}
		told.Run.Events = append(told.Run.Events, StoryEvent{e, text})
	}
}

// beginOfRuns is the place of the first event of the newest runs, so many at most. Where there are
// others before the events, the first run that is whole begins with a claim.
func beginOfRuns(events []From[journal.Event], runs int, before bool) (begin int) {
	found := 0
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Item.Kind() != journal.KindAccepted {
			continue
		}
		if found++; found > runs {
			return begin
		}
		begin = i
	}
	if !before {
		return 0
	}
	return begin
}

// Newest is the newest run; an empty one where no journal knows the job.
func (s *Story) Newest() *Run {
	if len(s.Runs) == 0 {
		return &Run{}
	}
	return s.Runs[len(s.Runs)-1]
}

// Delay is how long the row waited until its newest claim, to the second, as the table has it. Of one
// that came at a time it is how late that was; of further attempts there is none.
func (s *Story) Delay() (delay Length, known bool) {
	r := s.Newest()
	if r.timed {
		return Length{"later than planned", r.late}, r.late != ""
	}
	if s.Row == nil || s.Row.Created == 0 || r.claimed.IsZero() {
		return Length{}, false
	}
	waited := r.claimed.Sub(time.Unix(s.Row.Created, 0)).Truncate(time.Second)
	return Length{"until it was claimed", waited.String()}, waited >= 0
}

// Output is the end of what a job wrote to a stream.
type Output struct {
	Name string
	Text string
	Size int64 // of all of it
}

// Outputs is what the job wrote: as the journal has it, which has it whole, or else the row. Streams
// without a byte are left out.
func (s *Story) Outputs() (all []Output) {
	if done := s.Newest().Done; done != nil {
		all = []Output{
			{"stdout", done.Stdout.Text(0, journal.CharsetFull), done.Stdout.Size},
			{"stderr", done.Stderr.Text(0, journal.CharsetFull), done.Stderr.Size},
		}
	} else if r := s.Row; r != nil {
		all = []Output{{"stdout", r.Stdout.Tail, r.Stdout.Size}, {"stderr", r.Stderr.Tail, r.Stderr.Size}}
	}
	return slices.DeleteFunc(all, func(o Output) bool { return o.Size == 0 })
}

// Column is a column of a row, as people are told of it.
type Column struct{ Name, Text string }

// Columns are those of the row, without what is empty.
func (s *Story) Columns() []Column {
	r := s.Row
	all := []Column{
		{"target", r.Target},
		{"status", r.Status},
		{"owner", ownerText(r)},
		{"created", s.clock.Seconds(r.Created)},
		{"started", s.clock.Seconds(r.Started)},
		{"finished", s.clock.Seconds(r.Finished)},
		{"result", r.Result},
		{"return code", codeText(r.Code)},
		{"signal", r.Sig},
		{"stdout", sizeText(r.Stdout)},
		{"stderr", sizeText(r.Stderr)},
	}
	if r.Plan != nil {
		all = append(all, s.timeColumns(r.Plan)...)
	}
	return slices.DeleteFunc(all, func(c Column) bool { return c.Text == "" })
}

// ownerText is what is told of the owner column. Where tokens stand in the column sig, that is one
// column with two meanings.
func ownerText(r *api.JobRow) string {
	if r.Owner == r.Sig {
		return ""
	}
	return r.Owner
}

func codeText(code *int64) string {
	if code == nil {
		return ""
	}
	return strconv.FormatInt(*code, 10)
}

// sizeText is how much a column of output holds.
func sizeText(text api.JobText) string {
	if text.Size == 0 {
		return ""
	}
	return fmt.Sprintf("%d bytes", text.Size)
}

// timeColumns are what a row says about time.
func (s *Story) timeColumns(p *api.RowPlan) []Column {
	next := s.clock.Seconds(p.Next)
	if p.Next == p.RunAt && s.Row.Status == journal.RowDelayed {
		next = ""
	}
	if p.Bad != "" {
		next = "never: " + p.Bad
	}
	zone := p.Zone
	if zone == "" && p.In != "UTC" {
		zone = p.In
	}
	return []Column{
		{"due", s.clock.Seconds(p.RunAt)},
		{"planned", s.clock.Seconds(p.PlannedAt)},
		{"attempts", attemptsText(p)},
		{"timeout", someSeconds(p.Timeout)},
		{"schedule", p.Schedule},
		{"time zone", zone},
		{"next run", next},
	}
}

// attemptsText is how often the present run was started, of how many times.
func attemptsText(p *api.RowPlan) string {
	switch {
	case p.MaxAttempts > 0:
		return fmt.Sprintf("%d of %d", p.Attempts, p.MaxAttempts)
	case p.Attempts > 0:
		return fmt.Sprint(p.Attempts)
	}
	return ""
}
