package reason

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/screen"
	"jobd/journal"
	"jobd/net/api"
)

// claimable tells of a row that a worker may claim: what keeps those from it who serve its target.
func (v *view) claimable() *Verdict {
	serving, untold := v.serving(), v.untold()
	if len(serving) == 0 {
		code := Unserved
		if len(untold) > 0 {
			code = Untold
		}
		return say(code, "waits, and %s%s", v.unserved(), v.lately())
	}
	var open, full, paused, hindered []teller
	for _, t := range v.told {
		switch s := t.job.Target; {
		case t.job.Quarantined != nil && t.job.Quarantined.Wanted == "":
			text := "is quarantined on %s%s: the table refuses its claim: %s"
			return say(Refused, text, t.Name, v.since(t.job.Quarantined.Since), cut(t.job.Quarantined.Reason)).by(t)
		case s == nil:
		case s.Paused:
			paused = append(paused, t)
		case s.Hindered != "":
			hindered = append(hindered, t)
		case s.Room <= 0:
			full = append(full, t)
		default:
			open = append(open, t)
		}
	}
	var verdict *Verdict
	switch {
	case len(open) > 0:
		verdict = v.open(open)
	case len(full) > 0:
		verdict = v.full(full)
	case len(hindered) > 0:
		return say(Code(hindered[0].job.Target.Hindered), "waits: %s%s%s", v.hindered(hindered[0]), v.untoldText(), v.lately())
	default:
		where := paused[0].Name
		if n := len(paused); n > 1 {
			where = fmt.Sprintf("all %d workers that serve it", n)
		}
		return say(Paused, "waits: %s (on %s)%s%s", v.paused(paused[0].job.Target), where, v.untoldText(), v.lately())
	}
	if len(paused) > 0 {
		verdict.add("; paused on %s%s", namesOf(paused), v.since(paused[0].job.Target.PausedSince))
	}
	if len(hindered) > 0 {
		verdict.add("; %s claims nothing: %s", namesOf(hindered), cut(hindered[0].job.Target.Why))
	}
	return verdict.add("%s%s", v.untoldText(), v.lately())
}

// serving are the workers that serve the row's target.
func (v *view) serving() []teller {
	return slices.DeleteFunc(slices.Clone(v.told), func(t teller) bool { return t.job.Target == nil })
}

// untold gives the workers without an answer that serve the row's target, or may serve it.
func (v *view) untold() []Answer {
	return slices.DeleteFunc(slices.Clone(v.silent), func(a Answer) bool {
		is := func(name string) bool { return strings.EqualFold(name, v.row.Target) }
		return a.Targets != nil && !slices.ContainsFunc(a.Targets, is)
	})
}

// untoldText names them.
func (v *view) untoldText() (text string) {
	for _, a := range v.untold() {
		what, why := "serves it too", "does not answer"
		if len(v.serving()) == 0 {
			what = "serves it"
		}
		if a.Targets == nil {
			what = "perhaps serves it"
		}
		if a.cannotTell() {
			why = "does not say"
		}
		text += fmt.Sprintf("; %s %s, and %s", a.Name, what, why)
	}
	return text
}

// unserved says that no worker that answers serves the row's target, and which others are served.
func (v *view) unserved() string {
	text := "no worker serves its target " + v.row.Target
	switch {
	case len(v.silent) > 0:
		text = "no worker that answers serves its target " + v.row.Target
	case len(v.told) == 1:
		text = fmt.Sprintf("%s does not serve its target %s", v.told[0].Name, v.row.Target)
	}
	var served []string
	for _, t := range v.told {
		served = append(served, t.Targets...)
	}
	slices.Sort(served)
	if like := conf.Nearest(v.row.Target, served); like != "" {
		text += fmt.Sprintf(" (did you mean %s?)", like)
	} else if len(served) > 0 {
		text += fmt.Sprintf(" (served are %s)", names(slices.Compact(served)))
	}
	return text + v.untoldText()
}

// open tells of a row of a target that some workers would claim more for.
func (v *view) open(who []teller) *Verdict {
	ahead := v.ahead()
	first, target := who[0].job.Target, v.row.Target
	verdict := &Verdict{}
	switch looks := func(t teller) bool { return t.job.Target.Looks }; {
	case !slices.ContainsFunc(who, looks):
		unasked := "never by itself (poll_interval = 0)"
		if first.Interval > 0 {
			unasked = fmt.Sprintf("every %s by itself", lengthy(time.Duration(first.Interval)*time.Millisecond))
		}
		verdict = say(Unseen, "waits until a worker looks for it: %s has room for target %s, and looks when poked "+
			"(jobctl poll, or poke of a master), and %s%s", who[0].Name, target, unasked, behind("; before it wait ", ahead))
	case ahead != "":
		verdict = say(Waiting, "waits behind %s of its target %s", ahead, target)
	default:
		verdict = say(Next, "is the next of its target %s, and %s is about to claim it", target, who[0].Name)
		if last := v.newest(); last != nil && last.gaveBack() {
			verdict = say(Released, "waits again, and %s", verdict.Sentence)
		}
	}
	return verdict
}

// full tells of a row of a target whose slots are all in use.
func (v *view) full(who []teller) *Verdict {
	slots := 0
	for _, t := range who {
		slots += t.job.Target.Concurrency
	}
	used := fmt.Sprintf("%s, on %s", inUse(slots, v.row.Target), namesOf(who))
	if ahead := v.ahead(); ahead != "" {
		return say(Waiting, "waits behind %s of its target: %s", ahead, used)
	}
	return say(Slots, "is the next of its target: %s", used)
}

// inUse says that all of some slots are in use.
func inUse(slots int, target string) string {
	if slots == 1 {
		return fmt.Sprintf("the one slot of target %s is in use", target)
	}
	return fmt.Sprintf("all %d slots of target %s are in use", slots, target)
}

// ahead is which jobs wait before this one; "" where none does.
func (v *view) ahead() string {
	for _, t := range v.told {
		if a := t.job.Ahead; a != nil && a.Rows == 0 {
			return ""
		} else if a != nil && a.More {
			return humanize.Comma(int64(a.Rows)) + "+ jobs"
		} else if a != nil {
			return screen.Count(a.Rows, "job")
		}
	}
	return "the others (the table did not say how many)"
}

// paused says that a target is paused, since when and by whom.
func (v *view) paused(t *api.TargetStanding) string {
	return fmt.Sprintf("its target %s is paused%s%s", t.Name, v.since(t.PausedSince), behind(" by ", whoOf(t.PausedBy)))
}

// hindered says why a worker claims nothing for the row's target, in that worker's words.
func (v *view) hindered(t teller) string {
	target, since := t.job.Target, v.since(t.job.Target.Since)
	if strings.Contains(target.Why, " since ") { // which tells it already
		since = ""
	}
	return fmt.Sprintf("%s claims nothing for target %s%s: %s", t.Name, target.Name, since, cut(target.Why))
}

// newest gives the worker whose journal has the newest event of the job, if lately tells of that event;
// nil: it does not.
func (v *view) newest() *teller {
	t := v.newestOf(func(teller) bool { return true })
	if t == nil || !t.gaveBack() && t.history().Status != string(journal.StatusPlanned) && t.history().Last != string(journal.KindRetried) {
		return nil
	}
	return t
}

// lately says what became last of a row that is nobody's now: a worker gave it back, or planned it
// anew, or somebody wants it to be run again.
func (v *view) lately() string {
	t := v.newest()
	if t == nil {
		return ""
	}
	h := t.history()
	by, why := behind(" by ", whoOf(h.By)), cut(h.Reason)
	switch {
	case t.gaveBack():
		return fmt.Sprintf("; %s gave it back%s%s", t.Name, v.at(cmp.Or(h.Ended, h.At)), behind(", because ", why))
	case h.Status != string(journal.StatusPlanned):
		return fmt.Sprintf("; %s%s%s", h.Last, v.at(h.At), by)
	case h.By == "" && h.WasDue == 0: // by its first claim
		return fmt.Sprintf("; planned%s on %s", v.at(h.At), t.Name)
	}
	was := ""
	if h.WasDue > 0 && h.WasDue != journal.PausedAt {
		was = fmt.Sprintf(" (it was due%s)", v.at(h.WasDue*1000))
	}
	return fmt.Sprintf("; planned anew%s on %s%s%s%s", v.at(h.At), t.Name, by, was, behind(": ", why))
}
