package reason

import (
	"fmt"
	"strings"

	"jobd/net/api"
)

// here tells of a job that a worker has in its hands.
func (v *view) here() (Verdict, bool) {
	for _, t := range v.told {
		if s := t.job.Here; s != nil {
			verdict := v.standing(t, s)
			verdict.Worker = t.Name
			return verdict, true
		}
	}
	return Verdict{}, false
}

// standing tells where a job stands on a worker.
func (v *view) standing(t teller, s *api.JobStanding) Verdict {
	claimed := fmt.Sprintf("was claimed by %s%s", t.Name, v.at(s.Since))
	switch s.Phase {
	case api.StandsQueued:
		return Verdict{Reason: Prefetched, Sentence: claimed + ", and " + v.queued(t, s)}
	case api.StandsClaimed:
		text := fmt.Sprintf("has a slot on %s, and starts as soon as its row says running", t.Name)
		return Verdict{Reason: Claimed, Sentence: text + v.aside(t, ", but ")}
	case api.StandsParked:
		text := fmt.Sprintf("is about to start on %s, and has lent its slot to others", t.Name)
		return Verdict{Reason: Parked, Sentence: text + v.aside(t, " meanwhile: ")}
	case api.StandsStarting:
		return Verdict{Reason: Starting, Sentence: "is being started on " + t.Name}
	case api.StandsRunning:
		return v.running(t, s)
	case api.StandsRenewing:
		return Verdict{Reason: Renewing, Sentence: fmt.Sprintf("could not be started on %s, which tries again in a moment", t.Name)}
	case api.StandsEnded:
		return Verdict{Reason: Ended, Sentence: fmt.Sprintf("has ended on %s, which is about to journal how", t.Name)}
	case api.StandsLeaving:
		return Verdict{Reason: Leaving, Sentence: fmt.Sprintf("is being given back by %s%s", t.Name, behind(", because ", s.Reason))}
	case api.StandsInDoubt:
		return v.inDoubt(t, s, claimed)
	}
	return Verdict{Reason: Claimed, Sentence: fmt.Sprintf("%s; there it is %q", claimed, s.Phase)}
}

// queued tells what a claimed job waits for.
func (v *view) queued(t teller, s *api.JobStanding) string {
	place := "is the next there"
	if s.Before > 0 {
		place = fmt.Sprintf("waits there behind %s", number(s.Before, false))
	}
	target := t.job.Target
	switch {
	case target == nil:
	case target.Paused:
		return place + ": " + v.paused(target)
	case target.Hindered != "":
		return place + ": " + v.hindered(t)
	default:
		return fmt.Sprintf("%s for a slot: %s", place, inUse(target.Concurrency, target.Name))
	}
	return place + " for a slot"
}

// running tells of a job that has a process.
func (v *view) running(t teller, s *api.JobStanding) Verdict {
	var process []string
	if s.PID != 0 {
		process = append(process, fmt.Sprintf("pid %d", s.PID))
	}
	if s.Attempt > 1 || s.MaxAttempts > 1 {
		process = append(process, "attempt "+ofAll(int64(s.Attempt), int64(s.MaxAttempts)))
	}
	text := "on " + t.Name + v.since(s.Since)
	if len(process) > 0 {
		text += " (" + strings.Join(process, ", ") + ")"
	}
	if s.Deadline > 0 {
		text += ", until " + v.clock(s.Deadline) + " at most"
	}
	changed := ""
	if h := t.job.Journal; h != nil && h.Lost {
		changed = "; somebody else has changed its row meanwhile"
		if v.row != nil {
			changed += ", which says " + v.row.Status
		}
	}
	if h := t.job.Journal; h != nil && h.Cancelled != 0 {
		by := behind(" by ", whoOf(h.CancelledBy))
		return Verdict{Reason: Cancelling, Sentence: fmt.Sprintf("was cancelled%s%s, and is ending: it runs %s%s", v.at(h.Cancelled), by, text, changed)}
	}
	if s.Adopted {
		return Verdict{Reason: Orphaned, Sentence: fmt.Sprintf("runs %s, but its runner is gone: nobody will know how it ends%s", text, changed)}
	}
	return Verdict{Reason: Running, Sentence: "runs " + text + changed + v.comesBack()}
}

// inDoubt tells of a claim of which it is not known whether it was won.
func (v *view) inDoubt(t teller, s *api.JobStanding, claimed string) Verdict {
	if s.Reason != "" {
		return Verdict{Reason: Leaving, Sentence: fmt.Sprintf("is being given up by %s, because %s", t.Name, s.Reason)}
	}
	text := claimed
	if s.Ignoring {
		text = "was marked as ignored by " + t.Name
	}
	text += ", perhaps: the table has not told yet whether that was committed"
	if t.Table != "" {
		text += ", because it can't be read" + v.away(t)
	}
	return Verdict{Reason: InDoubt, Sentence: text}
}

// aside says why a row can't be brought up to date; "" where nothing is against that.
func (v *view) aside(t teller, before string) string {
	a := t.job.Quarantined
	if a == nil {
		return ""
	}
	what := "it can't be claimed"
	if a.Wanted != "" {
		what = "its row can't be made " + a.Wanted
	}
	return fmt.Sprintf("%s%s%s: %s", before, what, v.since(a.Since), cut(a.Reason))
}
