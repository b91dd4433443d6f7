package reason

import (
	"cmp"
	"fmt"
	"slices"

	"jobd/journal"
	"jobd/net/api"
)

// otherTarget tells that the job is not of the target that was named. The table may take two names
// for the same.
func (v *view) otherTarget() (Verdict, bool) {
	if v.Target == "" || v.row == nil || v.row.Target == v.Target {
		return Verdict{}, false
	}
	for _, t := range v.serving() {
		if t.job.Target.Name == v.Target {
			return Verdict{}, false
		}
	}
	return Verdict{Reason: OtherTarget, Sentence: fmt.Sprintf("is one of target %s, not of %s", v.row.Target, v.Target)}, true
}

// unreadable tells of a job whose row nobody could read.
func (v *view) unreadable() (Verdict, bool) {
	var cause string
	for _, t := range v.told {
		if t.Table == "" {
			return Verdict{}, false
		}
		if cause == "" {
			cause = fmt.Sprintf("%s can't read the table%s: %s", t.Name, v.away(t), cut(t.Table))
		}
	}
	if cause == "" {
		cause = "no worker has answered"
	}
	text := "may be anywhere: " + cause
	if t := v.history(func(teller) bool { return true }); t != nil {
		text += v.journalled(t)
	}
	return Verdict{Reason: Unreadable, Sentence: text}, true
}

// journalled says what a worker's journal has last of the job.
func (v *view) journalled(t *teller) string {
	h := t.job.Journal
	text := fmt.Sprintf("; the journal of %s has it as %s%s", t.Name, h.Status, v.at(h.At))
	if h.Status == string(journal.StatusDone) {
		text += " (" + result(h) + ")"
	}
	return text
}

// away says since when a worker can't reach the database.
func (v *view) away(t teller) string {
	if d := t.Database; d != nil && !d.Reachable && !d.Since.IsZero() {
		return v.since(d.Since.UnixMilli())
	}
	return ""
}

// noRow is what is said of a job that nobody knows, and what jobctl says wherever it meets one.
const noRow = "the table has no such row"

// missing tells of a job without a row.
func (v *view) missing() (Verdict, bool) {
	if v.row != nil {
		return Verdict{}, false
	}
	if t := v.history(func(teller) bool { return true }); t != nil {
		return Verdict{Reason: NoSuchJob, Sentence: "has no row any more" + v.journalled(t)}, true
	}
	return Verdict{Reason: NoSuchJob, Sentence: noRow}, true
}

// manual tells of a job that runs by hand only.
func (v *view) manual() (Verdict, bool) {
	if v.row.Status != journal.RowManual {
		return Verdict{}, false
	}
	command := fmt.Sprintf("jobctl run-manual %d", v.Job)
	if v.Master {
		command = fmt.Sprintf("jobctl --master run-manual %s:%d", v.row.Target, v.Job)
	}
	text := fmt.Sprintf("is manual: it runs when somebody asks for it (%s)", command)
	if len(v.serving()) == 0 {
		text += "; " + v.unserved() + v.untoldText(v.untold())
	}
	return Verdict{Reason: Manual, Sentence: text + v.before()}, true
}

// odd tells of a row whose status is none that jobd knows, or knows here.
func (v *view) odd() (Verdict, bool) {
	if v.row.Status == journal.RowDelayed {
		text := "is delayed, and rows are not delayed here: the key use_columns does not name run_at"
		return Verdict{Reason: OddStatus, Sentence: text}, true
	}
	text := fmt.Sprintf("has the status %q, which jobd does not know: it is left alone", v.row.Status)
	return Verdict{Reason: OddStatus, Sentence: text}, true
}

// underWay tells of a row that a worker has claimed, and that is in no answering worker's hands.
func (v *view) underWay() (Verdict, bool) {
	if v.row.Status != journal.RowAccepted && v.row.Status != journal.RowRunning {
		return Verdict{}, false
	}
	mark := markOf(v.row.Owner)
	if mark == "" {
		return v.nobody(), true
	}
	for _, t := range v.told {
		if t.Mark == mark {
			return v.formerly(t), true
		}
	}
	return v.elsewhere(mark), true
}

// is says what a row under way says of its job.
func (v *view) is() string {
	if v.row.Status == journal.RowRunning {
		return "is running" + v.since(v.row.Started*1000) + ", as its row says"
	}
	return "is accepted, as its row says"
}

// nobody tells of a row that bears no claim.
func (v *view) nobody() Verdict {
	text := v.is() + ", but the row bears no claim of a worker, and no worker that answers has it"
	if v.row.Owner != "" {
		text = fmt.Sprintf("%s, but its owner column says %q, which is no claim of a worker, and none that answers has it", v.is(), v.row.Owner)
	}
	var cannot []string
	for _, a := range v.silent {
		if a.cannotTell() {
			cannot = append(cannot, a.Name)
		}
	}
	if len(cannot) > 0 {
		text += fmt.Sprintf("; perhaps %s has, which can't tell", names(cannot))
	} else {
		text += ": it was left by something else, such as the original jobd"
	}
	return Verdict{Reason: Nobody, Sentence: text}
}

// formerly tells of a row that bears a worker's mark, and which the worker has not, or not any more.
func (v *view) formerly(t teller) Verdict {
	h := t.job.Journal
	token := v.row.Owner
	verdict := Verdict{Worker: t.Name}
	switch {
	case t.job.Unread != "" && h == nil:
		verdict.Reason = Lost
		verdict.Sentence = fmt.Sprintf("%s; it was claimed by %s (token %s), whose journal can't be read: %s", v.is(), t.Name, token, cut(t.job.Unread))
	case h == nil || h.Token != token:
		verdict.Reason = Lost
		verdict.Sentence = fmt.Sprintf("%s, and bears the mark of %s, whose journal does not know this claim (token %s): that worker looks into it", v.is(), t.Name, token)
	case h.Status == string(journal.StatusConflict):
		verdict.Reason, verdict.Sentence = Conflict, v.conflict(t)
	case journal.Status(h.Status).Ended():
		verdict.Reason = Behind
		verdict.Sentence = fmt.Sprintf("%s on %s, which its row does not show yet%s", v.outcome(t), t.Name, v.owed(t))
	default:
		verdict.Reason = Claimed
		verdict.Sentence = fmt.Sprintf("was claimed by %s%s, whose journal has it as %s", t.Name, v.at(h.Claimed), h.Status)
	}
	return verdict
}

// owed says why a row is not up to date.
func (v *view) owed(t teller) string {
	if t.job.Quarantined != nil {
		return v.aside(t, ": ")
	}
	if s := t.job.Target; s != nil && s.Hindered == api.HinderedUnwritten {
		return ": " + s.Why
	}
	return ""
}

// outcome says how a worker's journal has a job end.
func (v *view) outcome(t teller) string {
	h := t.job.Journal
	switch journal.Status(h.Status) {
	case journal.StatusDone:
		return "ended" + v.at(h.Ended) + " (" + result(h) + ")"
	case journal.StatusReleased:
		return "was given back" + v.at(h.Ended) + behind(", because ", cut(h.Reason)) + ","
	}
	return "was " + h.Status + v.at(h.Ended)
}

// conflict tells of a row that somebody else changed while it was a worker's.
func (v *view) conflict(t teller) string {
	text := fmt.Sprintf("is not %s's any more, because somebody else changed its row%s", t.Name, v.at(t.job.Journal.At))
	if f := t.job.Journal.Found; f != nil {
		text += ", which said " + f.Status
	}
	return text + "; now it says " + v.row.Status
}

// elsewhere tells of a row that bears a mark which no worker that answers has.
func (v *view) elsewhere(mark string) Verdict {
	token := fmt.Sprintf("token %s", v.row.Owner)
	for _, a := range v.silent {
		if a.hasMark(mark) {
			text := fmt.Sprintf("%s; it was claimed by %s, to go by the mark in it (%s), which does not answer", v.is(), a.Name, token)
			return Verdict{Reason: Silent, Sentence: text, Worker: a.Name}
		}
	}
	probe := v.probe(func(p *api.JobProbe) bool { return p.Marked })
	if len(v.silent) > 0 {
		var who []string
		for _, a := range v.silent {
			who = append(who, a.Name)
		}
		text := fmt.Sprintf("%s; it was claimed by a worker that is not registered, or is one of those that do not answer: %s (%s)", v.is(), names(who), token)
		return Verdict{Reason: Unregistered, Sentence: text + v.connected(probe), Probe: probe == nil}
	}
	who := "claimed by no worker that is registered"
	if len(v.told) == 1 {
		who = "not claimed by " + v.told[0].Name
	}
	text := fmt.Sprintf("%s; it was %s (%s)", v.is(), who, token)
	return Verdict{Reason: Unregistered, Sentence: text + v.connected(probe), Probe: probe == nil}
}

// connected says whether the worker of a claim is connected to the database.
func (v *view) connected(p *api.JobProbe) string {
	switch {
	case p == nil:
		return ""
	case p.Holder != "":
		return "; the worker with that mark is connected to the database: " + p.Holder
	}
	return "; no worker with that mark is connected to the database"
}

// probe is what a probe has told, of those that pass.
func (v *view) probe(pass func(*api.JobProbe) bool) *api.JobProbe {
	for _, t := range v.told {
		if p := t.job.Probe; p != nil && pass(p) {
			return p
		}
	}
	return nil
}

// markOf is the mark that a claim's token tells of; "" where it is no token.
func markOf(owner string) string {
	const token, mark = 10, 4
	if len(owner) != token || owner[0] != '@' {
		return ""
	}
	return owner[1 : 1+mark]
}

// before says what became last of a row that is nobody's now: a worker gave it back, or somebody
// wants it to be run again.
func (v *view) before() string {
	t := v.latest()
	if t == nil {
		return ""
	}
	h := t.job.Journal
	if !t.gaveBack() {
		return fmt.Sprintf("; %s%s%s", h.Last, v.at(h.At), behind(" by ", whoOf(h.By)))
	}
	return fmt.Sprintf("; %s gave it back%s%s", t.Name, v.at(cmp.Or(h.Ended, h.At)), behind(", because ", cut(h.Reason)))
}

// latest is who knows that.
func (v *view) latest() *teller {
	return v.history(func(t teller) bool { return t.gaveBack() || !slices.Contains(knownLast, t.job.Journal.Last) })
}

// gaveBack tells whether a worker has had the job, and gave it back.
func (t teller) gaveBack() bool { return t.job.Journal.Status == string(journal.StatusReleased) }

// knownLast are the kinds of event after which a row that waits is not told of further.
var knownLast = []string{"accepted", "ignored", "running", "started", "signal", "done", "conflict", "set-aside", "requeued", "cancelled", "planned", "replanned"}
