package reason

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/conf"
	"jobd/journal"
	"jobd/net/api"
)

// servers are the workers that serve a row's target, by what they could do with it.
type servers struct {
	open     []teller // would claim more
	full     []teller // nothing is wrong, but all their slots are in use
	paused   []teller
	hindered []teller
}

// waiting tells of a row that waits.
func (v *view) waiting() (Verdict, bool) {
	if v.row.Status != journal.RowWaiting {
		return Verdict{}, false
	}
	verdict := v.claimable()
	verdict.Sentence += v.comesBack()
	return verdict, true
}

// claimable tells of a row that a worker may claim.
func (v *view) claimable() Verdict {
	all := v.serving()
	if who := v.untold(); len(all) == 0 && len(who) > 0 {
		text := "waits, and " + v.unserved()
		return Verdict{Reason: Untold, Sentence: text + v.untoldText(who) + v.before()}
	}
	if len(all) == 0 {
		return Verdict{Reason: Unserved, Sentence: "waits, and " + v.unserved() + v.before()}
	}
	for _, t := range v.told {
		if a := t.job.Quarantined; a != nil && a.Wanted == "" {
			text := fmt.Sprintf("is quarantined on %s%s: the table refuses that it is claimed: %s", t.Name, v.since(a.Since), cut(a.Reason))
			return Verdict{Reason: Refused, Sentence: text, Worker: t.Name}
		}
	}
	s := sorted(all)
	var verdict Verdict
	switch {
	case len(s.open) > 0:
		verdict = v.open(s)
	case len(s.full) > 0:
		verdict = v.full(s)
	case len(s.hindered) > 0:
		t := s.hindered[0]
		verdict = Verdict{Reason: Code(t.job.Target.Hindered), Sentence: "waits: " + v.hindered(t)}
	default:
		verdict = v.allPaused(s)
	}
	if len(s.open)+len(s.full) > 0 {
		verdict.Sentence += v.others(s)
	}
	verdict.Sentence += v.untoldText(v.untold()) + v.before()
	return verdict
}

// untold are the workers that serve the row's target, or may, and that told nothing.
func (v *view) untold() (who []Answer) {
	for _, a := range v.silent {
		if a.Targets == nil || slices.ContainsFunc(a.Targets, func(name string) bool { return strings.EqualFold(name, v.row.Target) }) {
			who = append(who, a)
		}
	}
	return who
}

// untoldText names them.
func (v *view) untoldText(who []Answer) (text string) {
	for _, a := range who {
		what, why := "serves it too", "does not answer"
		if len(v.serving()) == 0 {
			what = "serves it"
		}
		if a.Targets == nil {
			what = "perhaps serves it"
		}
		if a.cannotTell() {
			why = "can't tell"
		}
		text += fmt.Sprintf("; %s %s, and %s", a.Name, what, why)
	}
	return text
}

// serving are the workers that serve the row's target.
func (v *view) serving() (all []teller) {
	for _, t := range v.told {
		if t.job.Target != nil {
			all = append(all, t)
		}
	}
	return all
}

func sorted(all []teller) (s servers) {
	for _, t := range all {
		target := t.job.Target
		switch {
		case target.Hindered == api.HinderedLocked:
			s.open = append(s.open, t)
		case target.Paused:
			s.paused = append(s.paused, t)
		case target.Hindered != "":
			s.hindered = append(s.hindered, t)
		case target.Room <= 0:
			s.full = append(s.full, t)
		default:
			s.open = append(s.open, t)
		}
	}
	return s
}

// unserved says that no worker serves the row's target, and which others are served.
func (v *view) unserved() string {
	var served []string
	for _, t := range v.told {
		served = append(served, t.Targets...)
	}
	slices.Sort(served)
	served = slices.Compact(served)
	text := fmt.Sprintf("no worker serves its target %s", v.row.Target)
	if len(v.silent) > 0 {
		text = fmt.Sprintf("no worker that answers serves its target %s", v.row.Target)
	}
	if len(v.told) == 1 && len(v.silent) == 0 {
		text = fmt.Sprintf("%s does not serve its target %s", v.told[0].Name, v.row.Target)
	}
	if like := conf.Nearest(v.row.Target, served); like != "" {
		return fmt.Sprintf("%s (did you mean %s?)", text, like)
	}
	if len(served) == 0 {
		return text
	}
	return fmt.Sprintf("%s (served are %s)", text, names(served))
}

// open tells of a row of a target that somebody would claim more for.
func (v *view) open(s servers) Verdict {
	probe := v.probe(func(p *api.JobProbe) bool { return !p.Marked && p.Error == "" })
	ahead, counted := v.ahead()
	target := v.row.Target
	switch first := s.open[0]; {
	case probe != nil && probe.Held:
		return Verdict{Reason: Locked, Sentence: "waits: somebody else has locked its row" + v.lockedSince(s.open)}
	case slices.ContainsFunc(s.open, func(t teller) bool { return t.job.Target.Looks }):
		if ahead != "" || !counted {
			return Verdict{Reason: Waiting, Sentence: fmt.Sprintf("waits behind %s of its target %s", cmp.Or(ahead, uncounted), target), Probe: probe == nil}
		}
		text := fmt.Sprintf("is the next of its target %s, and %s is about to claim it", target, first.Name)
		if last := v.latest(); last != nil && last.gaveBack() {
			return Verdict{Reason: Released, Sentence: "waits again, and " + text, Probe: probe == nil}
		}
		return Verdict{Reason: Next, Sentence: text, Probe: probe == nil}
	default:
		text := fmt.Sprintf("waits, and no worker looks for it: %s has room for target %s, and looks again when it is told (jobctl poll, or poke of a master)%s",
			first.Name, target, unasked(first.job.Target.Interval))
		if ahead != "" {
			text += fmt.Sprintf("; before it wait %s", ahead)
		}
		return Verdict{Reason: Unseen, Sentence: text, Probe: probe == nil}
	}
}

// unasked says when a worker looks for jobs without being told.
func unasked(millis int64) string {
	if millis == 0 {
		return ", and never by itself (poll_interval = 0)"
	}
	return fmt.Sprintf(", and every %s by itself", lengthy(time.Duration(millis)*time.Millisecond))
}

// lockedSince says since when a worker has found nothing but locked rows.
func (v *view) lockedSince(open []teller) string {
	for _, t := range open {
		if t.job.Target.Hindered == api.HinderedLocked {
			return v.since(t.job.Target.Since)
		}
	}
	return ""
}

// full tells of a row of a target whose slots are all in use.
func (v *view) full(s servers) Verdict {
	slots := 0
	var who []string
	for _, t := range s.full {
		slots += t.job.Target.Concurrency
		who = append(who, t.Name)
	}
	used := fmt.Sprintf("%s, on %s", inUse(slots, v.row.Target), names(who))
	if ahead, counted := v.ahead(); ahead != "" || !counted {
		return Verdict{Reason: Waiting, Sentence: fmt.Sprintf("waits behind %s of its target: %s", cmp.Or(ahead, uncounted), used)}
	}
	return Verdict{Reason: Slots, Sentence: "is the next of its target: " + used}
}

// inUse says that all of some slots are in use.
func inUse(slots int, target string) string {
	if slots == 1 {
		return fmt.Sprintf("the one slot of target %s is in use", target)
	}
	return fmt.Sprintf("all %d slots of target %s are in use", slots, target)
}

// allPaused tells of a row whose target is paused wherever it is served.
func (v *view) allPaused(s servers) Verdict {
	text := "waits: " + v.paused(s.paused[0].job.Target)
	switch n := len(s.paused); {
	case n > 1:
		text += fmt.Sprintf(" (on all %d workers that serve it)", n)
	default:
		text += " (on " + s.paused[0].Name + ")"
	}
	return Verdict{Reason: Paused, Sentence: text}
}

// paused says that a target is paused, since when and by whom.
func (v *view) paused(t *api.TargetStanding) string {
	return fmt.Sprintf("its target %s is paused%s%s", t.Name, v.since(t.PausedSince), behind(" by ", whoOf(t.PausedBy)))
}

// others says what keeps other workers from the row.
func (v *view) others(s servers) string {
	text := ""
	if len(s.paused) > 0 {
		text += fmt.Sprintf("; paused on %s%s", names(namesOf(s.paused)), v.since(s.paused[0].job.Target.PausedSince))
	}
	if len(s.hindered) > 0 {
		text += fmt.Sprintf("; %s claims nothing: %s", names(namesOf(s.hindered)), cut(s.hindered[0].job.Target.Why))
	}
	return text
}

func namesOf(all []teller) (list []string) {
	for _, t := range all {
		list = append(list, t.Name)
	}
	return list
}

// uncounted stands for a number of jobs that the table did not tell.
const uncounted = "the others (the table did not tell how many)"

// ahead is how many rows wait before this one; "" where none does, or, where counted is false,
// nobody could count.
func (v *view) ahead() (jobs string, counted bool) {
	for _, t := range v.told {
		if a := t.job.Ahead; a != nil && a.Rows > 0 {
			return number(a.Rows, a.More), true
		} else if a != nil {
			return "", true
		}
	}
	return "", false
}

// hindered says why a worker claims nothing for the row's target.
func (v *view) hindered(t teller) string {
	target, why := t.job.Target, cut(t.job.Target.Why)
	switch since := v.since(target.Since); target.Hindered {
	case api.HinderedStopping:
		return t.Name + " is stopping"
	case api.HinderedName:
		return fmt.Sprintf("%s can't serve target %s: %s", t.Name, target.Name, why)
	case api.HinderedDisk:
		return fmt.Sprintf("%s claims nothing%s, because the disk of its journal is full: %s", t.Name, since, why)
	case api.HinderedDatabase:
		return fmt.Sprintf("the claims of %s fail%s: %s", t.Name, since, why)
	case api.HinderedStuck:
		return fmt.Sprintf("a claim of %s waits for the database%s", t.Name, since)
	case api.HinderedUnwritten:
		return fmt.Sprintf("%s claims nothing, because it can't write the table%s", t.Name, since)
	case api.HinderedIdentity:
		return fmt.Sprintf("%s claims nothing%s: %s", t.Name, since, why)
	case api.HinderedLauncher:
		return fmt.Sprintf("%s starts nothing%s: %s", t.Name, since, why)
	case api.HinderedRetirement:
		return fmt.Sprintf("%s is about to serve target %s no more: %s", t.Name, target.Name, why)
	case api.HinderedCrowded:
		return fmt.Sprintf("%s claims no more for target %s: %s", t.Name, target.Name, why)
	default:
		return fmt.Sprintf("%s claims nothing for target %s%s: %s", t.Name, target.Name, since, why)
	}
}
