package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/history"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/reason"
	"jobd/cmd/internal/screen"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
)

func (p *program) show() *cmd {
	all, runs := false, usualTold
	c := command("show [-n RUNS | --all] ID | T:ID", "one job: its row, where it is, and its story from all journals", func(ctx context.Context, args []string) error {
		if err := oneJob("show", "ID or TARGET:ID", args); err != nil {
			return err
		}
		if all {
			runs = 0
		}
		jobs, err := jobRefs("show", args, 1)
		if err != nil {
			return err
		}
		return p.showJob(ctx, p.daemon(), jobs[0], runs)
	})
	c.FlagSet.Var(countFlag{&runs, 1, mostRuns}, "n", "only the newest runs, so many; each claim of the row begins one")
	c.FlagSet.BoolVar(&all, "all", false, "all runs, however many")
	return c
}

// sheet is all that is shown of one job.
type sheet struct {
	*program
	job     operator.Job
	verdict reason.Verdict
	row     *api.JobRow
	read    bool // somebody could read the table
	unheard bool // a journal could not be read, so the story may lack events
	story   *story
	events  []operator.From[journal.Event]
	earlier bool // there are, or may be, events before them
}

// showJob shows one job, with so many of its runs (0: all). A journal that can't be read takes
// nothing from the rest.
func (p *program) showJob(ctx context.Context, d *operator.Daemon, job operator.Job, runs int) error {
	e, err := p.explain(ctx, d, []operator.Job{job})
	if err != nil {
		return err
	}
	noteSilent(p, e.Answers)
	j := operator.JournalsOf(operator.Answered(e.Answers), p.note)
	shown := &sheet{program: p, job: job, verdict: e.Verdicts[0], row: e.Row(), read: e.Read(), story: &story{program: p, journals: j}}
	shown.readStory(ctx, j, runs)
	shown.unheard = len(j.Sources) < len(e.Answers) || len(j.Failed) > 0
	if err := shown.print(ctx); err != nil {
		return err
	}
	return exit.Join(exit.Why(ctx, errors.Join(j.Failed...)), unexplained(shown.verdict))
}

// print prints the page.
func (s *sheet) print(ctx context.Context) error {
	if s.json() {
		return s.printAsJSON()
	}
	return s.buffered(func() error {
		fmt.Fprintln(s.out, s.paint(clean(s.verdict.Sentence), toneOfReason(s.verdict.Reason)))
		s.printRow()
		if err := s.printStory(ctx); err != nil {
			return err
		}
		s.printOutputs()
		return nil
	})
}

// printAsJSON prints the page as one object.
func (s *sheet) printAsJSON() error {
	events := make([]any, len(s.events))
	for i, e := range s.events {
		events[i] = eventJSON(e.Source.Worker(), e.Item)
	}
	return s.printJSON(struct {
		verdictForm
		Row    *api.JobRow `json:"row"`
		Events []any       `json:"events"`

		Earlier bool `json:"earlier,omitempty"` // there are others before them
	}{formOf(s.job, s.verdict), s.row, events, s.earlier})
}

// printRow prints the row as it is, without what is empty.
func (s *sheet) printRow() {
	fmt.Fprintln(s.out)
	if s.row == nil {
		if s.read {
			fmt.Fprintln(s.out, "row: none")
		} else {
			fmt.Fprintln(s.out, "row: not known, as nobody who was asked could read the table")
		}
		return
	}
	r := s.row
	lines := [][2]string{
		{"target", r.Target},
		{"status", r.Status},
		{"owner", ownerText(r)},
		{"created", s.seconds(r.Created)},
		{"started", s.seconds(r.Started)},
		{"finished", s.seconds(r.Finished)},
		{"result", r.Result},
		{"return code", codeText(r.Code)},
		{"signal", r.Sig},
		{"stdout", shownSize(r.Stdout)},
		{"stderr", shownSize(r.Stderr)},
	}
	lines = append(lines, s.timeLines(r.Plan)...)
	for _, line := range lines {
		if line[1] != "" {
			fmt.Fprintf(s.out, "%-12s %s\n", line[0]+":", clean(line[1]))
		}
	}
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

// shownSize is how much a column of output holds.
func shownSize(text api.JobText) string {
	if text.Size == 0 {
		return ""
	}
	return fmt.Sprintf("%d bytes", text.Size)
}

// seconds is a moment of the table, which has whole seconds: on a terminal as clock has it. When a row
// is due may be never, while its schedule is paused.
func (p *program) seconds(unix int64) string {
	switch unix {
	case 0:
		return ""
	case journal.PausedAt:
		return "paused"
	}
	at := time.Unix(unix, 0)
	if p.brief() {
		return p.clock(at)
	}
	return at.In(p.location).Format(time.DateTime)
}

// printStory prints what the journals tell, and how long things took.
func (s *sheet) printStory(ctx context.Context) error {
	fmt.Fprintln(s.out)
	switch {
	case len(s.events) == 0 && s.unheard:
		fmt.Fprintln(s.out, "history: not known, as not all journals could be read")
		return nil
	case len(s.events) == 0:
		fmt.Fprintln(s.out, "history: none; no journal knows this job")
		return nil
	}
	if s.earlier {
		fmt.Fprintf(s.out, "earlier runs: jobctl show %d --all\n", s.job.ID)
	}
	for _, e := range s.events {
		text, err := s.story.words(ctx, e)
		if err != nil {
			return err
		}
		name := ""
		if e.Source.Worker() != "" {
			name = clean(e.Source.Worker()) + "  "
		}
		s.story.last = e.Source
		fmt.Fprintln(s.out, s.paint(fmt.Sprintf("%s  %s%s", s.story.clocks.of(s.program, e.Item.Time), name, text), toneOf(e.Item.Payload)))
	}
	s.untilClaimed()
	s.story.durations()
	return nil
}

// untilClaimed prints how long the row waited until its newest claim, to the second, as the table
// has it. Of one that came at a time it is how late that was; of further attempts it is nothing.
func (s *sheet) untilClaimed() {
	if s.story.timed {
		if s.story.late != "" {
			fmt.Fprintf(s.out, "\nlater than planned: %s\n", s.story.late)
		}
		return
	}
	if s.row == nil || s.row.Created == 0 || s.story.claimed.IsZero() {
		return
	}
	if waited := s.story.claimed.Sub(time.Unix(s.row.Created, 0)).Truncate(time.Second); waited >= 0 {
		fmt.Fprintf(s.out, "\nuntil it was claimed: %v\n", waited)
	}
}

// mostShown is how many lines of a job's output are shown, the last ones.
const mostShown = 20

// printOutputs prints the end of what the job wrote: as the journal has it, which has it whole, or
// else the row.
func (s *sheet) printOutputs() {
	if done := s.story.done; done != nil {
		s.printEnd("stdout", done.Stdout.Text(0, journal.CharsetFull), done.Stdout.Size)
		s.printEnd("stderr", done.Stderr.Text(0, journal.CharsetFull), done.Stderr.Size)
	} else if r := s.row; r != nil {
		s.printEnd("stdout", r.Stdout.Tail, r.Stdout.Size)
		s.printEnd("stderr", r.Stderr.Tail, r.Stderr.Size)
	}
}

// printEnd prints the last lines of a text that has so many bytes in all.
func (s *sheet) printEnd(name, text string, size int64) {
	if size == 0 {
		return
	}
	lines := strings.SplitAfter(withNewline(text), "\n")
	lines = lines[:len(lines)-1] // which is empty
	head := fmt.Sprintf("%s: %d bytes", name, size)
	if len(lines) > mostShown || int64(len(text)) < size {
		lines = lines[max(0, len(lines)-mostShown):]
		head += fmt.Sprintf("; the last %d lines, all of it: jobctl tail %d", len(lines), s.job.ID)
	}
	fmt.Fprintf(s.out, "\n%s\n%s", head, strings.Join(lines, ""))
}

// A row that recurs has ever more events: only the newest are asked for.
const (
	// usualTold is how many runs of a job are shown where nobody says otherwise.
	usualTold = 10
	// eventsOfRun is how many events are asked for, for a run: most have four, and one that is given
	// back, signalled or planned anew some more.
	eventsOfRun = 8
)

// readStory reads what the journals know of the newest runs of a job, so many at most (0: all).
func (s *sheet) readStory(ctx context.Context, j *operator.Journals, runs int) {
	most := runs * eventsOfRun
	for event, err := range j.Events(ctx, history.Query{Job: int64(s.job.ID), Output: true, Last: most}) {
		if err != nil {
			j.Failed = append(j.Failed, err)
			break
		}
		s.events = append(s.events, event)
	}
	if runs == 0 {
		return
	}
	s.earlier = len(s.events) >= most
	if begin := beginOfRuns(s.events, runs, s.earlier); begin > 0 {
		s.earlier, s.events = true, s.events[begin:]
	}
}

// beginOfRuns is the place of the first event of the newest runs, so many at most. Where there are
// others before the events, the first run that is whole begins with a claim.
func beginOfRuns(events []operator.From[journal.Event], runs int, before bool) (begin int) {
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

// timeLines are what a row says about time, without what is empty.
func (s *sheet) timeLines(p *api.RowPlan) [][2]string {
	if p == nil {
		return nil
	}
	next := s.seconds(p.Next)
	if p.Next == p.RunAt && s.row.Status == journal.RowDelayed {
		next = ""
	}
	if p.Bad != "" {
		next = "never: " + p.Bad
	}
	zone := p.Zone
	if zone == "" && p.In != "UTC" {
		zone = p.In
	}
	return [][2]string{
		{"due", s.seconds(p.RunAt)},
		{"planned", s.seconds(p.PlannedAt)},
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

// lateness is how much later than planned a run was started; false where it was not planned, or is
// another attempt of it.
func lateness(plannedAt int64, attempt int, running time.Time) (late time.Duration, known bool) {
	if plannedAt == 0 || attempt != 1 || running.IsZero() {
		return 0, false
	}
	return max(0, running.Sub(time.Unix(plannedAt, 0))), true
}

// plannedText says when the run of a claim was planned, where its row said something about time.
func (s *story) plannedText(e journal.Accepted) (text string) {
	if e.PlannedAt == 0 || e.Plan == nil {
		return ""
	}
	if e.From == journal.RowDelayed || e.Plan.Schedule != "" {
		text = ", planned for " + s.seconds(e.PlannedAt)
	}
	if e.Plan.Schedule != "" {
		text += " by its schedule " + clean(e.Plan.Schedule)
		if e.Plan.Zone != "" {
			text += " (" + clean(e.Plan.Zone) + ")"
		}
	}
	return text
}

// early is how far a clock may be behind for a start to count as one in time.
const early = 10 * time.Second

// lateText says how much later than planned a run is started.
func (s *story) lateText(attempt int, at time.Time) string {
	if late, known := lateness(s.planned, attempt, at); known && s.timed {
		if at.Before(time.Unix(s.planned, 0).Add(-early)) {
			return ", before its planned time"
		}
		s.late = screen.ShortLength(late)
		return fmt.Sprintf(", %s later than planned", screen.ShortLength(late))
	}
	return ""
}

// againText says when a row comes back, and why.
func (s *story) againText(again *journal.Again) string {
	switch {
	case again == nil || again.RunAt == 0:
		return ""
	case again.Why == journal.AgainRetry:
		return fmt.Sprintf("; it is tried again at %s", s.seconds(again.RunAt))
	}
	return fmt.Sprintf("; its next run is at %s", s.seconds(again.RunAt))
}

// plannedAnew says when a row is due from now on, and why: its schedule was read for the first time,
// somebody wants it to run now, or it was not run in time.
func (s *story) plannedAnew(e journal.Planned) string {
	switch {
	case e.To.RunAt == journal.PausedAt:
		return "its schedule was paused by " + clean(e.By)
	case e.From.RunAt == journal.PausedAt:
		return fmt.Sprintf("its schedule was continued by %s%s", clean(e.By), s.againText(&e.To))
	case e.By != "" && e.From.RunAt != 0:
		return fmt.Sprintf("made due now by %s; it was due at %s", clean(e.By), s.seconds(e.From.RunAt))
	case e.By != "":
		return "made due now by " + clean(e.By)
	case e.From.RunAt == 0:
		return fmt.Sprintf("planned for %s, by its schedule %s", s.seconds(e.To.RunAt), clean(e.From.Schedule))
	}
	return fmt.Sprintf("not run, though it was due at %s: planned for %s, because %s",
		s.seconds(e.From.RunAt), s.seconds(e.To.RunAt), clean(e.Reason))
}

// editedAnew says what follows a run whose schedule was edited meanwhile.
func (s *story) editedAnew(e journal.Replanned) string {
	text := "its schedule was edited while it ran"
	if e.Schedule != "" {
		text += ", to " + clean(e.Schedule)
	}
	if e.Again == nil {
		text += ": it does not come back"
	} else {
		text += s.againText(e.Again)
	}
	if e.Note != "" {
		text += ", because " + clean(e.Note)
	}
	return text
}

// notKnown is printed where it can't be told how long something took. A 0 would be a claim.
const notKnown = "not known"

// unknownOutcome begins the reason of a job of which nobody saw the end: the event tells when that
// was noticed.
const unknownOutcome = "outcome unknown"

// measured is how long a job ran, by a clock that nobody sets; false where the journal does not
// hold it, as in events of older versions.
func measured(done journal.Done) (ran time.Duration, known bool) {
	return time.Duration(done.Elapsed) * time.Microsecond, done.Elapsed > 0
}

// ranFor is how long a job ran: as measured, or else the time between its events, where nothing
// speaks against that. A clock that was set back lets events bear the same time.
func ranFor(done journal.Done, running, ended time.Time) (ran time.Duration, known bool) {
	if ran, known := measured(done); known {
		return ran, true
	}
	if running.IsZero() || strings.HasPrefix(done.Reason, unknownOutcome) {
		return 0, false
	}
	ran = ended.Sub(running)
	return ran, ran > 0
}

// duration prints a duration that may not be known.
func duration(d time.Duration, known bool) string {
	if !known {
		return notKnown
	}
	return d.String()
}

// explain asks all workers about jobs, which one request may be about. What could not be probed is told.
func (p *program) explain(ctx context.Context, d *operator.Daemon, jobs []operator.Job) (*operator.Explanation, error) {
	e, err := operator.Explain(ctx, d, jobs, operator.Clock{Now: p.now(), Location: p.location})
	if err == nil && e.Unprobed != nil {
		p.note(e.Unprobed)
	}
	return e, err
}

// noteSilent tells of the workers that did not answer: the others' answers count.
func noteSilent[A any](p *program, answers []operator.Answer[A]) {
	if err := operator.Silent(answers); err != nil {
		for _, one := range unjoined(err) {
			p.note(one)
		}
	}
}

// unjoined takes errors apart that errors.Join has put together.
func unjoined(err error) []error {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}

func (p *program) why() *cmd {
	c := command("why ID… | T:ID…", "one sentence: where a job is, and what it waits for", func(ctx context.Context, args []string) error {
		jobs, err := jobRefs("why", args, api.MostJobs)
		if err != nil {
			return err
		}
		return p.sayWhy(ctx, p.daemon(), jobs)
	})
	return c
}

// sayWhy prints a sentence about each job. Where one is not explained, that is the exit code.
func (p *program) sayWhy(ctx context.Context, d *operator.Daemon, jobs []operator.Job) error {
	var unknown []error
	for some := range slices.Chunk(jobs, api.MostExplained) {
		e, err := p.explain(ctx, d, some)
		if err != nil {
			return err
		}
		if some[0] == jobs[0] {
			noteSilent(p, e.Answers)
		}
		for i, verdict := range e.Verdicts {
			unknown = append(unknown, unexplained(verdict))
			if err := p.sayVerdict(some[i], verdict); err != nil {
				return err
			}
		}
	}
	return exit.Join(unknown...)
}

// unexplained is the exit code of a verdict that does not say where a job is, without a text: the
// sentence says why. Of all others it is nil.
func unexplained(v reason.Verdict) error {
	switch v.Reason {
	case reason.NoSuchJob, reason.OtherTarget:
		return exit.With(exit.NoJob, errTold)
	case reason.Unreadable:
		return exit.With(exit.Unknown, errTold)
	}
	return nil
}

// verdictForm is a verdict as jobctl prints it for programs.
type verdictForm struct {
	Job      jobnet.Whole `json:"job"`
	Reason   reason.Code  `json:"reason"`
	Sentence string       `json:"sentence"`
	Worker   string       `json:"worker,omitempty"`
}

func formOf(job operator.Job, v reason.Verdict) verdictForm {
	return verdictForm{job.ID, v.Reason, v.Sentence, v.Worker}
}

// sayVerdict prints one verdict.
func (p *program) sayVerdict(job operator.Job, v reason.Verdict) error {
	if p.json() {
		return p.printJSON(formOf(job, v))
	}
	_, err := fmt.Fprintln(p.out, p.paint(clean(v.Sentence), toneOfReason(v.Reason)))
	return err
}

// toneOfReason is the tone of a verdict.
func toneOfReason(r reason.Code) tone {
	switch r {
	case reason.Done:
		return good
	case reason.Failed, reason.Killed, reason.TimedOut, reason.Stopped, reason.BadSchedule, reason.Unknown, reason.NoSuchJob, reason.Unreadable:
		return bad
	case reason.Running, reason.Waiting, reason.Slots, reason.Next, reason.Prefetched, reason.Starting, reason.Claimed, reason.Manual, reason.Ended,
		reason.Delayed, reason.Recurring:
		return plain
	}
	return odd
}

// why says of a target that stands why it does, as an aside within a sentence; of another one nothing.
func whyStands(t operator.Tally) string {
	switch {
	case !t.Stands():
		return ""
	case t.Unable == 0:
		return ", which is paused,"
	}
	return ", whose jobs can't be started,"
}

// noteUnserved says on stderr that a target, for which nothing was found, is served by nobody who
// can be asked: perhaps it is misspelt. Where the daemon does not tell, nothing is said.
func (p *program) noteUnserved(ctx context.Context, target string) {
	ctx, cancel := context.WithTimeout(ctx, completeLimit)
	defer cancel()
	if target == "" {
		return
	}
	served := p.served(ctx)
	if len(served) == 0 || slices.Contains(served, target) {
		return
	}
	who, near := "the worker does not serve it", ""
	if p.config.master {
		who = "no worker serves it"
	}
	if name := conf.Nearest(target, served); name != "" {
		near = "; the nearest known one is " + clean(name)
	}
	fmt.Fprintf(p.err, "jobctl: target '%s': %s%s\n", clean(target), who, near)
}
