package reason

import (
	"fmt"
	"strings"
	"time"

	"jobd/exec/schedule"
	"jobd/journal"
	"jobd/net/api"
)

// delayed tells of a row that is not run before its time, and, where that has come, what it waits
// for. Where nobody uses such rows it says nothing.
func (v *view) delayed() (Verdict, bool) {
	p := v.plan()
	if p == nil || v.row.Status != journal.RowDelayed {
		return Verdict{}, false
	}
	if p.Bad != "" && p.RunAt == 0 || p.Bad != "" && p.Due {
		text := "is delayed, and is ignored by the next claim: " + cut(p.Bad)
		return Verdict{Reason: BadSchedule, Sentence: text + v.nobodyServes()}, true
	}
	if p.Due && (p.RunAt != 0 || elapsed(p.Schedule)) {
		return v.due(p), true
	}
	verdict := Verdict{Reason: Delayed}
	switch {
	case p.RunAt == 0:
		verdict.Reason, verdict.Sentence = Recurring, v.recurs(p)+", and is not planned yet: the next claim does that"
		if p.Next > 0 {
			verdict.Sentence += ", for " + v.comes(p.Next)
		}
	case p.Schedule != "" && p.RunAt == journal.PausedAt:
		verdict.Reason, verdict.Sentence = Recurring, v.recurs(p)+", and does not run: its schedule "+v.stands()
	case p.Attempts > 0:
		verdict.Reason = Retrying
		verdict.Sentence = fmt.Sprintf("is delayed until %s, attempt %s after %s", v.comes(p.RunAt), ofAll(p.Attempts+1, p.MaxAttempts), v.rowEnd())
		if p.Schedule != "" {
			verdict.Sentence += "; it " + v.recurs(p)
		}
	case p.Schedule != "":
		verdict.Reason, verdict.Sentence = Recurring, v.recurs(p)+", next run "+v.comes(p.RunAt)
		if v.row.Finished > 0 {
			verdict.Sentence += fmt.Sprintf("; the last one ended%s: %s", v.at(v.row.Finished*1000), v.rowEnd())
		}
	default:
		verdict.Sentence = "is delayed until " + v.comes(p.RunAt)
	}
	if p.Bad != "" {
		verdict.Reason = BadSchedule
		verdict.Sentence += "; then it is ignored: " + cut(p.Bad)
	}
	if p.Schedule == "" || p.RunAt != journal.PausedAt {
		verdict.Sentence += v.replanned()
	}
	verdict.Sentence += v.nobodyServes()
	return verdict, true
}

// plan is what the row says about time; nil where nobody uses that.
func (v *view) plan() *api.RowPlan {
	if v.row == nil {
		return nil
	}
	return v.row.Plan
}

// due tells of a row whose time has come: it waits as others do.
func (v *view) due(p *api.RowPlan) Verdict {
	verdict := v.claimable()
	since := "is due"
	if p.RunAt != 0 {
		since = "is due" + v.since(p.RunAt*1000)
	}
	if p.Attempts > 0 {
		since += fmt.Sprintf(", attempt %s after %s", ofAll(p.Attempts+1, p.MaxAttempts), v.rowEnd())
	}
	verdict.Sentence = since + ", and " + strings.TrimPrefix(verdict.Sentence, "waits, and ") + v.replanned()
	return verdict
}

// recurs says when a row recurs.
func (v *view) recurs(p *api.RowPlan) string {
	text := "recurs " + cut(p.Schedule)
	if p.In != "" && (p.In != "UTC" || v.abroad()) && !elapsed(p.Schedule) {
		text += " (" + p.In + ")"
	}
	return text
}

// abroad tells whether a row's schedule is read in a zone whose clocks show another time than the
// reader's: then both zones are named.
func (v *view) abroad() bool {
	p := v.plan()
	if p == nil || p.Schedule == "" || p.In == "" || elapsed(p.Schedule) {
		return false
	}
	zone, err := schedule.Zone(p.In)
	if err != nil {
		return false
	}
	_, theirs := v.Now.In(zone).Zone()
	_, ours := v.Now.In(v.Location).Zone()
	return theirs != ours
}

// elapsed tells whether a schedule is elapsed time, for which a zone means nothing.
func elapsed(text string) bool {
	s, err := schedule.Parse(text)
	if err != nil {
		return false
	}
	_, every := s.Every()
	return every
}

// comes is a moment to come, and how far ahead it is. It is in unix seconds.
func (v *view) comes(seconds int64) string {
	at := time.Unix(seconds, 0)
	left := at.Sub(v.Now)
	if p := v.plan(); p != nil && p.Now > 0 { // rows are due by the clock of the table's server
		left = at.Sub(time.Unix(p.Now, 0))
	}
	text := v.clock(at.UnixMilli())
	if v.abroad() {
		text += at.In(v.Location).Format(" MST")
	}
	if left <= 0 {
		return text
	}
	return fmt.Sprintf("%s (in %s)", text, howFar(left))
}

// howFar is how far ahead a moment is: days and hours, hours and minutes, or to the second.
func howFar(left time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case left >= day:
		return fmt.Sprintf("%dd%dh", left/day, left%day/time.Hour)
	case left >= time.Hour:
		return lengthy(left.Truncate(time.Minute))
	}
	return lengthy(left.Truncate(time.Second))
}

// ofAll is the number of an attempt, of how many where that is known.
func ofAll(attempt, most int64) string {
	if most == 0 {
		return fmt.Sprint(attempt)
	}
	return fmt.Sprintf("%d of %d", attempt, most)
}

// rowEnd is how the row says that its run, or its attempt, ended last: in a journal's words where that
// was its time limit.
func (v *view) rowEnd() string {
	if t := v.history(func(t teller) bool { return t.job.Journal.Status == string(journal.StatusDone) }); t != nil && t.job.Journal.Timeout > 0 {
		return timedOut(t.job.Journal)
	} else if v.row.Result == "ok" {
		return "ok"
	} else if t != nil && journal.StoppedIn(t.job.Journal.Reason) != "" {
		return strings.TrimPrefix(journal.StoppedIn(t.job.Journal.Reason), "ended because ")
	}
	return v.rowResult()
}

// timedOut says that a run was ended by its time limit.
func timedOut(h *api.JobHistory) string {
	return "its time limit of " + lengthy(time.Duration(h.Timeout)*time.Second) + " was over"
}

// stands says since when a schedule is paused, and what ends that.
func (v *view) stands() string {
	text := "is paused"
	if t := v.planned(); t != nil {
		text = "was paused" + v.at(t.job.Journal.At) + behind(" by ", whoOf(t.job.Journal.By))
	}
	command := "jobctl"
	if v.Master {
		command += " --master"
	}
	return fmt.Sprintf("%s; %s schedule continue %d goes on", text, command, v.Job)
}

// planned is who knows that a row was planned last, without having been run; nil where that is not the
// last that is known of it.
func (v *view) planned() *teller {
	t := v.history(func(teller) bool { return true })
	if t == nil || t.job.Journal.Status != string(journal.StatusPlanned) {
		return nil
	}
	return t
}

// replanned says that a row was planned, or planned anew, without having been run, where that is the
// last that is known of it.
func (v *view) replanned() string {
	t := v.planned()
	if t == nil {
		return ""
	}
	h := t.job.Journal
	switch {
	case h.WasDue == journal.PausedAt:
		return fmt.Sprintf("; its schedule was continued%s%s", v.at(h.At), behind(" by ", whoOf(h.By)))
	case h.By == "" && h.WasDue == 0:
		return fmt.Sprintf("; planned%s on %s", v.at(h.At), t.Name)
	}
	text := fmt.Sprintf("; planned anew%s on %s%s", v.at(h.At), t.Name, behind(" by ", whoOf(h.By)))
	if h.WasDue > 0 {
		text += fmt.Sprintf(" (it was due%s)", v.at(h.WasDue*1000))
	}
	return text + behind(": ", cut(h.Reason))
}

// nobodyServes says so, where no worker would run the row when its time has come.
func (v *view) nobodyServes() string {
	if len(v.serving()) > 0 || len(v.untold()) > 0 {
		return ""
	}
	return "; " + v.unserved()
}

// comesBack says that the run of a row that waits or runs is one of many.
func (v *view) comesBack() string {
	if p := v.plan(); p != nil && p.Schedule != "" {
		return "; it " + v.recurs(p)
	}
	return ""
}
