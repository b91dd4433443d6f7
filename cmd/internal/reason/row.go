package reason

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"jobd/cmd/internal/screen"
	jobexec "jobd/exec"
	"jobd/exec/schedule"
	"jobd/journal"
	"jobd/net/api"
)

// verdict is the one switch over all that may be said of a job. What a worker has in its hands is told
// before what the row says.
func (v *view) verdict() *Verdict {
	for _, t := range v.told {
		if s := t.job.Here; s != nil && !v.isOther() {
			return v.here(t, s).by(t)
		}
	}
	switch {
	case v.isOther():
		return say(OtherTarget, "is one of target %s, not of %s", v.row.Target, v.Target)
	case v.row == nil:
		return v.rowless()
	}
	if changed := v.changed(); changed != nil {
		return changed
	}
	switch v.row.Status {
	case journal.RowDone:
		return v.ended()
	case journal.RowIgnored:
		return v.ignored()
	case journal.RowManual:
		return v.manual()
	case journal.RowAccepted, journal.RowRunning:
		return v.underWay()
	case journal.RowWaiting:
		return v.claimable().add("%s", v.comesBack())
	case journal.RowDelayed:
		if v.row.Plan != nil {
			return v.delayed(v.row.Plan)
		}
		who := v.serving()
		if len(who) == 0 {
			who = v.told
		}
		text := "is delayed, and delayed rows are not run by %s: the key use_columns there does not name run_at%s"
		return say(OddStatus, text, namesOf(who), v.nobodyServes())
	}
	return say(OddStatus, "has the status %q, which jobd does not know: it is left alone", v.row.Status)
}

// isOther tells whether the job is not of the target that was named. The table may take two names for
// the same.
func (v *view) isOther() bool {
	if v.Target == "" || v.row == nil || v.row.Target == v.Target {
		return false
	}
	for _, t := range v.serving() {
		if t.job.Target.Name == v.Target {
			return false
		}
	}
	return true
}

// here tells of a job that a worker has in its hands.
func (v *view) here(t teller, s *api.JobStanding) *Verdict {
	claimed := fmt.Sprintf("was claimed by %s%s", t.Name, v.at(s.Since))
	switch s.Phase {
	case api.StandsQueued:
		return say(Prefetched, "%s, and %s", claimed, v.queued(t, s))
	case api.StandsClaimed:
		return say(Claimed, "has a slot on %s, and starts as soon as its row says running%s", t.Name, v.aside(t, ", but "))
	case api.StandsStarting:
		return say(Starting, "is being started on %s%s", t.Name, behind(", and waits for ", s.Reason))
	case api.StandsRunning:
		return v.running(t, s)
	case api.StandsRenewing:
		return say(Renewing, "could not be started on %s, which tries again in a moment", t.Name)
	case api.StandsEnded:
		return say(Ended, "has ended on %s; its outcome follows soon", t.Name)
	case api.StandsLeaving:
		return say(Leaving, "is being given back by %s%s", t.Name, behind(", because ", s.Reason))
	case api.StandsInDoubt:
		if s.Reason != "" {
			return say(Leaving, "is being given up by %s, because %s", t.Name, s.Reason)
		}
		if s.Ignoring {
			claimed = "was marked as ignored by " + t.Name
		}
		away := ""
		if t.Table != "" {
			away = ", because it can't be read" + v.away(t)
		}
		return say(InDoubt, "%s, perhaps: it is not known yet whether that was committed%s", claimed, away)
	}
	return say(Claimed, "%s; there it is %q", claimed, s.Phase)
}

// queued tells what a claimed job waits for.
func (v *view) queued(t teller, s *api.JobStanding) string {
	place := "is the next there"
	if s.Before > 0 {
		place = "waits there behind " + screen.Count(s.Before, "job")
	}
	target := t.job.Target
	switch {
	case target == nil:
		return place + " for a slot"
	case target.Paused:
		return place + ": " + v.paused(target)
	case target.Hindered != "":
		return place + ": " + v.hindered(t)
	}
	return fmt.Sprintf("%s for a slot: %s", place, inUse(target.Concurrency, target.Name))
}

// running tells of a job that has a process.
func (v *view) running(t teller, s *api.JobStanding) *Verdict {
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
		text += ", until " + v.clock(s.Deadline) + time.UnixMilli(s.Deadline).Format(":05") + " at most"
	}
	h, changed := t.history(), ""
	if h.Lost {
		changed = "; somebody else has changed its row meanwhile"
		if v.row != nil {
			changed += ", which says " + v.row.Status
		}
	}
	switch {
	case h.Cancelled != 0:
		by := behind(" by ", whoOf(h.CancelledBy))
		return say(Cancelling, "was cancelled%s%s, and is ending: it runs %s%s", v.at(h.Cancelled), by, text, changed)
	case s.Adopted:
		return say(Orphaned, "runs %s, but its runner is gone: nobody will know how it ends%s", text, changed)
	}
	return say(Running, "runs %s%s%s", text, changed, v.comesBack())
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

// rowless tells of a job without a row, or whose row nobody could read, with what a journal has of it.
func (v *view) rowless() *Verdict {
	known, ended := "", false
	t := v.newestOf(func(teller) bool { return true })
	if t != nil {
		known = fmt.Sprintf("; the journal of %s has it as %s%s", t.Name, t.history().Status, v.at(t.history().At))
		if ended = t.history().Status == string(journal.StatusDone); ended {
			known += " (" + result(t.history()) + ")"
		}
	}
	cause := "no worker has answered"
	for i := len(v.told) - 1; i >= 0; i-- {
		switch of := v.told[i]; {
		case of.Table != "":
			cause = fmt.Sprintf("%s can't read the table%s: %s", of.Name, v.away(of), cut(of.Table))
		case t != nil:
			return say(NoSuchJob, "has no row any more%s", known)
		default:
			return say(NoSuchJob, NoRow)
		}
	}
	if ended {
		text := "ended%s on %s (%s), as the journal there says; its row's present state is unknown: %s"
		return say(Unreadable, text, v.at(t.history().At), t.Name, result(t.history()), cause)
	}
	return say(Unreadable, "may be anywhere: %s%s", cause, known)
}

// NoRow is what is said of a job that nobody knows, wherever one is met.
const NoRow = "the table has no such row"

// away says since when a worker can't reach the database.
func (v *view) away(t teller) string {
	if d := t.Database; d != nil && !d.Reachable && !d.Since.IsZero() {
		return v.since(d.Since.UnixMilli())
	}
	return ""
}

// manual tells of a job that runs by hand only.
func (v *view) manual() *Verdict {
	command := fmt.Sprintf("jobctl run-manual %d", v.Job)
	if v.Master {
		command = fmt.Sprintf("jobctl --master run-manual %s:%d", v.row.Target, v.Job)
	}
	verdict := say(Manual, "is manual: it runs when somebody asks for it (%s)", command)
	if len(v.serving()) == 0 {
		verdict.add("; %s", v.unserved())
	}
	return verdict.add("%s", v.lately())
}

// underWay tells of a row that a worker has claimed, and that is in no answering worker's hands.
func (v *view) underWay() *Verdict {
	is := "is accepted, as its row says"
	if v.row.Status == journal.RowRunning {
		is = "is running" + v.since(v.row.Started*1000) + ", as its row says"
	}
	mark := jobexec.WorkerIDIn(v.row.Owner)
	if mark == "" {
		return v.unclaimed(is)
	}
	for _, t := range v.told {
		if t.Mark == mark {
			return v.formerly(is, t).by(t)
		}
	}
	for _, a := range v.silent {
		if jobexec.IsWorkerIDOf(mark, a.Name) {
			text := "%s; its token has the worker id of %s (%s), which does not answer"
			return say(Silent, text, is, a.Name, v.row.Owner).by(teller{Answer: a})
		}
	}
	who := "claimed by no worker that is registered"
	switch {
	case len(v.silent) > 0:
		who = "claimed by a worker that is not registered, or is one of those that do not answer: " + namesOf(v.silent)
	case len(v.told) == 1:
		who = "not claimed by " + v.told[0].Name
	}
	return say(Unregistered, "%s; it was %s (token %s)", is, who, v.row.Owner)
}

// unclaimed tells of a row under way that bears no claim.
func (v *view) unclaimed(is string) *Verdict {
	bears := "but the row bears no claim of a worker, and no worker that answers has it"
	if v.row.Owner != "" {
		bears = fmt.Sprintf("but its owner column says %q, which is no claim of a worker, and none that answers has it", v.row.Owner)
	}
	var older []Answer
	for _, a := range v.silent {
		if a.cannotTell() {
			older = append(older, a)
		}
	}
	if len(older) > 0 {
		return say(Nobody, "%s, %s; %s may have it, but can't report it", is, bears, namesOf(older))
	}
	return say(Nobody, "%s, %s: it was left by something else, such as the original jobd", is, bears)
}

// formerly tells of a row that bears a worker's mark, and which the worker has not, or not any more.
func (v *view) formerly(is string, t teller) *Verdict {
	h, token := t.history(), v.row.Owner
	switch status := journal.Status(h.Status); {
	case t.job.Unread != "" && h.Status == "":
		return say(Lost, "%s; it was claimed by %s (token %s), whose journal can't be read: %s", is, t.Name, token, cut(t.job.Unread))
	case h.Token != token:
		text := "%s, and carries the worker id of %s, whose journal does not know this claim (token %s): that worker looks into it"
		return say(Lost, text, is, t.Name, token)
	case status == journal.StatusConflict:
		found := ""
		if h.Found != nil {
			found = ", which said " + h.Found.Status
		}
		text := "is not %s's any more, because somebody else changed its row%s%s; now it says %s"
		return say(Conflict, text, t.Name, v.at(h.At), found, v.row.Status)
	case !status.Ended():
		return say(Claimed, "was claimed by %s%s, whose journal has it as %s", t.Name, v.at(h.Claimed), h.Status)
	}
	outcome := fmt.Sprintf("was %s%s", h.Status, v.at(h.Ended))
	switch journal.Status(h.Status) {
	case journal.StatusDone:
		outcome = fmt.Sprintf("ended%s (%s)", v.at(h.Ended), result(h))
	case journal.StatusReleased:
		outcome = fmt.Sprintf("was given back%s%s,", v.at(h.Ended), behind(", because ", cut(h.Reason)))
	}
	owed := v.aside(t, ": ")
	if s := t.job.Target; owed == "" && s != nil && s.Hindered == string(jobexec.HinderedUnwritten) {
		owed = ": " + s.Why
	}
	return say(Behind, "%s on %s, which its row does not show yet%s", outcome, t.Name, owed)
}

// changed tells of a row that somebody else has made done or ignored while a worker had the job: how its run
// ended only the journal knows. nil: the row is as jobd left it.
func (v *view) changed() *Verdict {
	t := v.newestOf(func(teller) bool { return true })
	if t == nil || v.row.Status != journal.RowDone && v.row.Status != journal.RowIgnored {
		return nil
	}
	h := t.history()
	if h.Status != string(journal.StatusDone) || !h.Lost && h.Found == nil || v.row.Status == journal.RowDone && v.row.Result == h.Result {
		return nil
	}
	text := "has a row that was made %s by somebody else than jobd; its run ended%s on %s, as the journal there says: %s"
	verdict := say(Conflict, text, v.row.Status, v.at(cmp.Or(h.Ended, h.At)), t.Name, result(h)).by(*t)
	if h.Cancelled != 0 {
		verdict.add("; it was cancelled%s", behind(" by ", whoOf(h.CancelledBy)))
	}
	return verdict
}

// inStderr begins the stderr of a job of which nobody saw the end, as the reason does without the
// name of the program.
const inStderr = "jobd: " + journal.UnknownOutcome

// exDataErr is the exit code of a job whose data are wrong: it is not tried again.
const exDataErr = 65

// failedAnswer is the line by which a service answered that a request has failed: the first one of stderr.
var failedAnswer = regexp.MustCompile(`^(HTTP/1\.1|Status:) [13-9]`)

// ended tells of a job that is done.
func (v *view) ended() *Verdict {
	h, when := &api.JobHistory{}, v.at(v.row.Finished*1000)
	t := v.newestOf(func(t teller) bool { return t.history().Status == string(journal.StatusDone) })
	if t != nil {
		h = t.history()
		when += " on " + t.Name
	} else {
		t = &teller{}
	}
	ran := time.Duration(h.Ran) * time.Microsecond // as it was measured, or else to the second, as its row has it
	if ran == 0 && v.row.Started > 0 {
		ran = time.Duration(v.row.Finished-v.row.Started) * time.Second
	}
	took := ""
	if ran > 0 {
		took = ", after " + lengthy(ran)
	}
	last := cut(lastLine(v.row.Stderr.Tail))
	why, unknown := strings.CutPrefix(h.Reason, journal.UnknownOutcome)
	if !unknown {
		why, unknown = strings.CutPrefix(last, inStderr)
	}
	stopped := cut(cmp.Or(journal.StoppedIn(h.Reason), journal.StoppedIn(lastLine(v.row.Stderr.Tail))))
	var verdict *Verdict
	switch {
	case h.Cancelled != 0:
		verdict = say(Cancelled, "was cancelled%s, and ended%s: %s", behind(" by ", whoOf(h.CancelledBy)), when, v.rowResult())
	case unknown:
		why = strings.TrimSuffix(why, ": "+jobexec.ErrOutcomeUnknown.Error()) // which is the same once more
		verdict = say(Unknown, "ended%s, and its outcome is unknown: %s", when, why)
	case v.row.Result == "ok":
		return say(Done, "is done: ok%s%s", when, took).by(*t)
	case h.Timeout > 0:
		verdict = say(TimedOut, "failed%s%s: %s", when, took, timedOut(h))
	case stopped != "":
		verdict = say(Stopped, "failed%s%s: %s", when, took, stopped)
	case v.row.Sig != "" && v.row.Code == nil:
		verdict = say(Killed, "was killed by %s%s%s%s", v.row.Sig, when, took, behind(": ", last))
	case v.row.Code != nil:
		answer, _, _ := strings.Cut(v.row.Stderr.Tail, "\n")
		if failedAnswer.MatchString(answer) && int64(len(v.row.Stderr.Tail)) == v.row.Stderr.Size && cut(answer) != last {
			last = cut(answer) + ": " + last
		}
		verdict = say(Failed, "failed with exit code %d%s%s%s", *v.row.Code, when, took, behind(": ", last))
	default:
		verdict = say(Failed, "failed%s%s%s", when, took, behind(": ", cmp.Or(cut(h.Reason), last)))
	}
	switch p := v.row.Plan; {
	case p == nil || p.MaxAttempts <= 1:
	case p.Attempts >= p.MaxAttempts:
		verdict.add("; it was tried %d times, as often as allowed", p.Attempts)
	case verdict.Reason == Failed && v.row.Code != nil && *v.row.Code == exDataErr:
		verdict.add("; with exit code %d it is not tried again", exDataErr)
	}
	return verdict.by(*t)
}

// rowResult is how the row says that the job ended.
func (v *view) rowResult() string { return Outcome(v.row.Sig, v.row.Code, v.row.Result) }

// result is how a journal says that a job ended.
func result(h *api.JobHistory) string {
	if h.Signal == "" && h.Result == "ok" {
		return "ok"
	}
	return Outcome(h.Signal, h.Code, "failed"+behind(": ", cut(h.Reason)))
}

// timedOut says that a run was ended by its time limit.
func timedOut(h *api.JobHistory) string {
	return "its time limit of " + lengthy(time.Duration(h.Timeout)*time.Second) + " was over"
}

// ignored tells of a job that is not to be run.
func (v *view) ignored() *Verdict {
	t := v.newestOf(func(t teller) bool { return t.history().Status == string(journal.StatusIgnored) })
	if t == nil {
		why := cmp.Or(behind(": ", cut(lastLine(v.row.Stderr.Tail))), "; no journal says why")
		return say(Ignored, "was ignored, and does not run%s", why)
	}
	h, code := t.history(), Ignored
	if h.Cancelled != 0 || h.By != "" {
		code = Cancelled
	}
	return say(code, "was ignored%s on %s, and does not run: %s", v.at(h.At), t.Name, cut(h.Reason)).by(*t)
}

// delayed tells of a row that is not run before its time, and, where that has come, what it waits
// for.
func (v *view) delayed(p *api.RowPlan) *Verdict {
	for i := range v.told {
		if t := &v.told[i].job; t.Row != nil && t.Row.Plan == nil {
			t.Target = nil // such rows it does not run
		}
	}
	attempt := ""
	if p.Attempts > 0 {
		attempt = fmt.Sprintf(", attempt %s after %s", ofAll(p.Attempts+1, p.MaxAttempts), v.rowEnd())
	}
	recurs, paused := p.Schedule != "", p.RunAt == journal.PausedAt
	var verdict *Verdict
	switch {
	case p.Bad != "" && (p.RunAt == 0 || p.Due):
		return say(BadSchedule, "is delayed, and the next claim ignores it: %s%s", cut(p.Bad), v.nobodyServes())
	case p.Due && (p.RunAt != 0 || elapsed(p.Schedule)):
		due := v.claimable() // it waits as others do
		due.Sentence = fmt.Sprintf("is due%s%s, and %s", v.since(p.RunAt*1000), attempt, strings.TrimPrefix(due.Sentence, "waits, and "))
		return due
	case p.RunAt == 0:
		verdict = say(Recurring, "%s, and is not planned yet: the next claim plans it", v.recurs(p))
		if p.Next > 0 {
			verdict.add(", for %s", v.comes(p.Next))
		}
	case recurs && paused:
		command := "jobctl"
		if v.Master {
			command = "jobctl --master"
		}
		verdict = say(Recurring, "%s, and does not run: its schedule is paused; %s schedule continue %d goes on", v.recurs(p), command, v.Job)
	case attempt != "":
		verdict = say(Retrying, "is delayed until %s%s%s", v.comes(p.RunAt), attempt, v.comesBack())
	case recurs:
		verdict = say(Recurring, "%s, next run %s", v.recurs(p), v.comes(p.RunAt))
		if v.row.Finished > 0 {
			verdict.add("; the last one ended%s: %s", v.at(v.row.Finished*1000), v.rowEnd())
		}
	default:
		verdict = say(Delayed, "is delayed until %s", v.comes(p.RunAt))
	}
	if p.Bad != "" {
		verdict.Reason = BadSchedule
		verdict.add("; then it is ignored: %s", cut(p.Bad))
	}
	return verdict.add("%s%s", v.lately(), v.nobodyServes())
}

// nobodyServes says so, where no worker would run the row when its time has come.
func (v *view) nobodyServes() string {
	if len(v.serving()) > 0 || len(v.untold()) > 0 {
		return ""
	}
	return "; " + v.unserved()
}

// rowEnd is how the row says that its run, or its attempt, ended last: in a journal's words where that
// was its time limit, or a stop.
func (v *view) rowEnd() string {
	h := &api.JobHistory{}
	if t := v.newestOf(func(t teller) bool { return t.history().Status == string(journal.StatusDone) }); t != nil {
		h = t.history()
	}
	switch stopped := journal.StoppedIn(h.Reason); {
	case h.Timeout > 0:
		return timedOut(h)
	case v.row.Result == "ok":
		return "ok"
	case stopped != "":
		return strings.TrimPrefix(stopped, "ended because ")
	}
	return v.rowResult()
}

// recurs says when a row recurs.
func (v *view) recurs(p *api.RowPlan) string {
	text := "recurs " + cut(p.Schedule)
	if p.In != "" && (p.In != "UTC" || v.abroad()) && !elapsed(p.Schedule) {
		text += " (" + p.In + ")"
	}
	return text
}

// comesBack says that the run of a row is one of many.
func (v *view) comesBack() string {
	if v.row == nil || v.row.Plan == nil || v.row.Plan.Schedule == "" {
		return ""
	}
	return "; it " + v.recurs(v.row.Plan)
}

// abroad tells whether a row's schedule is read in a zone whose clocks show another time than the
// reader's: then both zones are named.
func (v *view) abroad() bool {
	p := v.row.Plan
	if p.Schedule == "" || p.In == "" || elapsed(p.Schedule) {
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

// comes is a moment to come, in unix seconds, and how far ahead it is by the clock of the table's
// server, by which rows are due.
func (v *view) comes(seconds int64) string {
	at, now := time.Unix(seconds, 0), v.Now
	if of := v.row.Plan.Now; of > 0 {
		now = time.Unix(of, 0)
	}
	text := v.clock(at.UnixMilli())
	if v.abroad() {
		text += at.In(v.Location).Format(" MST")
	}
	switch left := at.Sub(now); {
	case left <= 0:
		return text
	case left >= time.Hour:
		return fmt.Sprintf("%s (in %s)", text, screen.Length(left))
	default:
		return fmt.Sprintf("%s (in %s)", text, lengthy(left.Truncate(time.Second)))
	}
}

// ofAll is the number of an attempt, of how many where that is known.
func ofAll(attempt, most int64) string {
	if most == 0 {
		return fmt.Sprint(attempt)
	}
	return fmt.Sprintf("%d of %d", attempt, most)
}
