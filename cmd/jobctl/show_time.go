package main

import (
	"fmt"
	"time"

	"jobd/cmd/internal/screen"
	"jobd/journal"
	"jobd/net/api"
)

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
	case again == nil:
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
