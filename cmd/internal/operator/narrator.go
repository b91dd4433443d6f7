package operator

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"jobd/cmd/internal/reason"
	"jobd/cmd/internal/screen"
	"jobd/journal"
	"jobd/net/api"
)

// Run is what became of a job from one claim to the next.
type Run struct {
	Events []StoryEvent
	Done   *journal.Done // how it ended; nil: not yet, or not known

	claimed, running, ended time.Time // zero: not yet, or not known; running is the newest attempt's
	atOnce                  bool      // it was announced with the claim

	planned int64  // the planned start, unix seconds
	timed   bool   // that was a time to come, not the moment of the claim
	late    string // how much later than that its first attempt was started; "": it was not, or nobody knows
}

// Length is how long a part of a run took.
type Length struct {
	Name string
	Text string
}

// Lengths are how long its parts took, and what it used. Only how long the job ran is measured; the rest is between events,
// whose times tell little where the clock was set back.
func (r *Run) Lengths() (all []Length) {
	add := func(name string, d time.Duration, known bool) {
		text := "not known" // a 0 would be a claim
		if known {
			text = d.String()
		}
		all = append(all, Length{name, text})
	}
	if !r.claimed.IsZero() && !r.running.IsZero() {
		add("waited", r.running.Sub(r.claimed), r.atOnce || r.running.After(r.claimed))
	}
	if r.ended.IsZero() {
		return all
	}
	ran, known := r.Ran()
	if !r.running.IsZero() || known {
		add("ran", ran, known)
	}
	if !r.claimed.IsZero() {
		whole := r.ended.Sub(r.claimed)
		add("in all", whole, whole > 0 && whole >= ran)
	}
	if r.Done != nil && r.Done.CPU > 0 {
		used := fmt.Sprint(time.Duration(r.Done.CPU)*time.Microsecond, " of processors")
		if r.Done.Memory > 0 {
			used += ", at most " + humanize.IBytes(uint64(r.Done.Memory)) + " of memory"
		}
		all = append(all, Length{"used", used})
	}
	return all
}

// Ran is how long the job ran; false where it has not ended, or nobody knows.
func (r *Run) Ran() (ran time.Duration, known bool) {
	var done journal.Done
	if r.Done != nil {
		done = *r.Done
	}
	return RanFor(done, r.running, r.ended)
}

// measured is how long a job ran, by a clock that nobody sets; false where the journal does not
// hold it, as in events of older versions.
func measured(done journal.Done) (ran time.Duration, known bool) {
	return time.Duration(done.Elapsed) * time.Microsecond, done.Elapsed > 0
}

// RanFor is how long a job ran: as measured, or else the time between its events, where nothing
// speaks against that. A clock that was set back lets events bear the same time.
func RanFor(done journal.Done, running, ended time.Time) (ran time.Duration, known bool) {
	if ran, known := measured(done); known {
		return ran, true
	}
	if running.IsZero() || strings.HasPrefix(done.Reason, journal.UnknownOutcome) {
		return 0, false
	}
	ran = ended.Sub(running)
	return ran, ran > 0
}

// narrator puts the events of a job into words, the oldest first, and keeps the run that they tell of.
type narrator struct {
	clock Clock
	run   *Run // the newest; nil before the first event
}

// tell says what an event means.
func (n *narrator) tell(ctx context.Context, e From[journal.Event]) (string, error) {
	if claim, is := e.Item.Payload.(journal.Accepted); is {
		n.run = &Run{
			claimed: e.Item.Time, planned: claim.PlannedAt,
			timed: claim.From == journal.RowDelayed || claim.Plan != nil && claim.Plan.PlannedAt != 0,
		}
		name, err := claimant(ctx, e)
		how := "from the table"
		if claim.Manual {
			how = "because a client asked to run it"
		}
		return fmt.Sprintf("claimed by %s %s, for target %s, with token %s%s",
			name, how, screen.Clean(claim.Target), screen.Clean(claim.Token), n.plannedText(claim)), err
	}
	if n.run == nil {
		n.run = &Run{}
	}
	return n.words(e.Item.Payload, e.Item.Time), nil
}

// words says what an event behind a claim means, and keeps what the run's lengths need.
func (n *narrator) words(payload journal.Payload, at time.Time) string {
	r := n.run
	switch e := payload.(type) {
	case journal.Running:
		waited := ""
		if r.running.IsZero() && !r.claimed.IsZero() {
			if r.atOnce = e.Claimed; r.atOnce || at.After(r.claimed) {
				waited = fmt.Sprintf(", after it waited %v", at.Sub(r.claimed))
			}
		}
		r.running = at
		limit := ""
		if e.Timeout > 0 {
			limit = ", for " + someSeconds(e.Timeout) + " at most"
		}
		return fmt.Sprintf("attempt %d starts%s%s%s%s", e.Attempt, executorText(e.Executor), waited, r.lateText(e.Attempt, at), limit)
	case journal.Started:
		if e.Address != "" {
			return "its request may be sent to " + screen.Clean(e.Address)
		}
		return fmt.Sprintf("started as process %d", e.Pid)
	case journal.Signal:
		return fmt.Sprintf("%s sent by %s", SignalName(e.Signo), screen.Clean(e.By))
	case journal.Done:
		r.ended, r.Done = at, &e
		text := "ended: " + Outcome(api.Outcome{Result: e.Result, Code: e.Code, Signal: &e.Signal})
		if e.Timeout > 0 {
			text += ", because its time limit of " + someSeconds(e.Timeout) + " was over"
		}
		if e.Reason != "" {
			text += ", because " + strings.TrimPrefix(screen.Clean(e.Reason), "ended because ")
		}
		return text + n.againText(e.Again)
	case journal.Released:
		r.ended = at
		return "given back, because " + screen.Clean(e.Reason)
	case journal.Ignored:
		return "marked as ignored, because " + screen.Clean(e.Reason)
	case journal.Cancelled:
		if e.Runs {
			grace := time.Duration(e.Grace) * time.Microsecond
			return fmt.Sprintf("cancelled by %s: it has %v to end, then it is killed", screen.Clean(e.By), grace)
		}
		r.ended = at
		return fmt.Sprintf("cancelled by %s before it was started: marked as ignored", screen.Clean(e.By))
	case journal.Retried:
		return fmt.Sprintf("set back to %s by %s, to run once more", screen.Clean(e.To), screen.Clean(e.By))
	case journal.Planned:
		return n.plannedAnew(e)
	case journal.Replanned:
		return n.editedAnew(e)
	case journal.Requested:
		text := fmt.Sprintf("%s was asked for by %s", screen.Clean(e.Request), screen.Clean(e.By))
		if len(e.Workers) > 0 {
			text += ", of " + screen.Clean(listed(e.Workers, e.Others))
		}
		if e.About != "" {
			text += ", with " + screen.Clean(e.About)
		}
		return text
	case journal.Refused:
		text := fmt.Sprintf("%s was refused to %s, because %s", screen.Clean(e.Request), screen.Clean(e.By), screen.Clean(e.Reason))
		if e.Times > 0 {
			text += fmt.Sprintf("; so were %d more requests", e.Times)
		}
		return text
	case journal.SetAside:
		return fmt.Sprintf("its row can't be made %s for now, because %s", screen.Clean(e.Wanted), screen.Clean(e.Reason))
	case journal.Conflict:
		if e.Wanted == journal.WantedRetried {
			return "its row was not set back, because " + screen.Clean(e.Reason)
		}
		return "the row was changed by somebody else: " + Describe(e)
	}
	return Describe(payload)
}

// claimant names who claimed the job: the worker through which it is read, or whose journal it is.
func claimant(ctx context.Context, e From[journal.Event]) (string, error) {
	name := e.Source.Worker()
	if link := e.Source.Link(); link != nil && name == "" {
		name = link.ownName(ctx)
	}
	if name != "" {
		return screen.Clean(name), nil
	}
	own, err := e.Source.JournalName(ctx)
	return screen.Clean(cmp.Or(own, "the worker")), err
}

// executorText says what runs a job, where that is no process of its own.
func executorText(executor string) string {
	switch executor {
	case "":
		return ""
	case "gearman":
		return " by a Gearman worker"
	case "http", "fastcgi":
		return " as a request (" + executor + ")"
	}
	return " in a kept process (" + screen.Clean(executor) + ")"
}

// Outcome is how a job ended.
func Outcome(o api.Outcome) string {
	signal, code := "", o.Code
	if o.Signal != nil {
		signal = *o.Signal
	}
	if code != nil && *code == 0 {
		code = nil
	}
	return screen.Clean(reason.Outcome(signal, code, o.Result))
}

// plannedText says when the run of a claim was planned, where its row said something about time.
func (n *narrator) plannedText(e journal.Accepted) (text string) {
	if e.PlannedAt == 0 || e.Plan == nil {
		return ""
	}
	if e.From == journal.RowDelayed || e.Plan.Schedule != "" {
		text = ", planned for " + n.clock.Seconds(e.PlannedAt)
	}
	if e.Plan.Schedule != "" {
		text += " by its schedule " + screen.Clean(e.Plan.Schedule)
		if e.Plan.Zone != "" {
			text += " (" + screen.Clean(e.Plan.Zone) + ")"
		}
	}
	return text
}

// early is how far a clock may be behind for a start to count as one in time.
const early = 10 * time.Second

// lateText says how much later than planned a run is started.
func (r *Run) lateText(attempt int, at time.Time) string {
	late := at.Sub(time.Unix(r.planned, 0))
	switch {
	case r.planned == 0 || attempt != 1 || !r.timed:
		return ""
	case late < -early:
		return ", before its planned time"
	}
	r.late = screen.ShortLength(max(0, late))
	return fmt.Sprintf(", %s later than planned", r.late)
}

// againText says when a row comes back, and why.
func (n *narrator) againText(again *journal.Again) string {
	switch {
	case again == nil || again.RunAt == 0:
		return ""
	case again.Why == journal.AgainRetry:
		return fmt.Sprintf("; it is tried again at %s", n.clock.Seconds(again.RunAt))
	}
	return fmt.Sprintf("; its next run is at %s", n.clock.Seconds(again.RunAt))
}

// plannedAnew says when a row is due from now on, and why: its schedule was read for the first time,
// somebody wants it to run now, or it was not run in time.
func (n *narrator) plannedAnew(e journal.Planned) string {
	by, seconds := screen.Clean(e.By), n.clock.Seconds
	switch {
	case e.To.RunAt == journal.PausedAt:
		return "its schedule was paused by " + by
	case e.From.RunAt == journal.PausedAt:
		return fmt.Sprintf("its schedule was continued by %s%s", by, n.againText(&e.To))
	case e.By != "" && e.From.RunAt != 0:
		return fmt.Sprintf("made due now by %s; it was due at %s", by, seconds(e.From.RunAt))
	case e.By != "":
		return "made due now by " + by
	case e.From.RunAt == 0:
		return fmt.Sprintf("planned for %s, by its schedule %s", seconds(e.To.RunAt), screen.Clean(e.From.Schedule))
	}
	return fmt.Sprintf("not run, though it was due at %s: planned for %s, because %s",
		seconds(e.From.RunAt), seconds(e.To.RunAt), screen.Clean(e.Reason))
}

// editedAnew says what follows a run whose schedule was edited meanwhile.
func (n *narrator) editedAnew(e journal.Replanned) string {
	text := "its schedule was edited while it ran"
	if e.Schedule != "" {
		text += ", to " + screen.Clean(e.Schedule)
	}
	if e.Again == nil {
		text += ": it does not come back"
	} else {
		text += n.againText(e.Again)
	}
	if e.Note != "" {
		text += ", because " + screen.Clean(e.Note)
	}
	return text
}
