package reason

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
	"jobd/net/api"
)

// unknownOutcome begins the reason of a job of which nobody saw the end. Its stderr has the same
// words behind the name of the program.
const (
	unknownOutcome = "outcome unknown: "
	inStderr       = "jobd: " + unknownOutcome
)

// ended tells of a job that is done.
func (v *view) ended() (Verdict, bool) {
	if v.row.Status != journal.RowDone {
		return Verdict{}, false
	}
	t := v.history(func(t teller) bool { return t.job.Journal.Status == string(journal.StatusDone) })
	h := &api.JobHistory{}
	when := v.at(v.row.Finished * 1000)
	verdict := Verdict{Reason: Failed}
	if t != nil {
		h, verdict.Worker = t.job.Journal, t.Name
		when += " on " + t.Name
	}
	last := cut(lastLine(v.row.Stderr.Tail))
	why, unknown := strings.CutPrefix(h.Reason, unknownOutcome)
	if !unknown {
		why, unknown = strings.CutPrefix(last, inStderr)
	}
	why = strings.TrimSuffix(why, ": "+jobexec.ErrOutcomeUnknown.Error()) // which is the same once more
	switch {
	case h.Cancelled != 0:
		verdict.Reason = Cancelled
		verdict.Sentence = fmt.Sprintf("was cancelled%s, and ended%s: %s", behind(" by ", whoOf(h.CancelledBy)), when, v.rowResult())
	case unknown:
		verdict.Reason = Unknown
		verdict.Sentence = fmt.Sprintf("ended%s, and its outcome is unknown: %s", when, why)
	case h.Timeout > 0 && v.row.Result != "ok":
		verdict.Reason = TimedOut
		verdict.Sentence = "failed" + when + v.took(h) + ": " + timedOut(h)
	case v.row.Result != "ok" && v.stopped(h) != "":
		verdict.Reason = Stopped
		verdict.Sentence = "failed" + when + v.took(h) + ": " + v.stopped(h)
	case v.row.Result == "ok":
		verdict.Reason = Done
		verdict.Sentence = "is done: ok" + when + v.took(h)
	case v.row.Sig != "" && v.row.Code == nil:
		verdict.Reason = Killed
		verdict.Sentence = "was killed by " + v.row.Sig + when + v.took(h) + behind(": ", last)
	case v.row.Code != nil:
		said, status := serviceSaid(v.row.Stderr)
		if said != "" && last == cut(said) {
			last = ""
		}
		verdict.Sentence = fmt.Sprintf("failed with exit code %d", *v.row.Code) + when + v.took(h) + behind(": ", status) + behind(": ", last)
	default:
		reason := cut(h.Reason)
		if reason == "" {
			reason = last
		}
		verdict.Sentence = "failed" + when + v.took(h) + behind(": ", reason)
	}
	if p := v.plan(); p != nil && p.MaxAttempts > 1 && verdict.Reason != Done {
		switch {
		case p.Attempts >= p.MaxAttempts:
			verdict.Sentence += fmt.Sprintf("; it has been tried %d times, which is all it has", p.Attempts)
		case verdict.Reason == Failed && v.row.Code != nil && *v.row.Code == exDataErr:
			verdict.Sentence += fmt.Sprintf("; with exit code %d it is not tried again", exDataErr)
		}
	}
	return verdict, true
}

// stopped says that a worker has ended the job by its own stop, as its journal tells or else the row;
// "" where it has not.
func (v *view) stopped(h *api.JobHistory) string {
	return cut(cmp.Or(journal.StoppedIn(h.Reason), journal.StoppedIn(lastLine(v.row.Stderr.Tail))))
}

// serviceSaid is the line by which a service answered, which is the first one of stderr, and what is told
// of it. That the service says that all went well is not told of a job that has failed.
func serviceSaid(stderr api.JobText) (line, told string) {
	line, _, whole := strings.Cut(stderr.Tail, "\n")
	number, isHTTP := strings.CutPrefix(line, "HTTP/1.1 ")
	if !isHTTP {
		number, isHTTP = strings.CutPrefix(line, "Status: ")
	}
	switch {
	case !whole || !isHTTP || int64(len(stderr.Tail)) < stderr.Size:
		return "", ""
	case strings.HasPrefix(number, "2"):
		return line, ""
	}
	return line, cut(line)
}

// exDataErr is the exit code of a job whose data are wrong: it is not tried again.
const exDataErr = 65

// rowResult is how the row says that the job ended.
func (v *view) rowResult() string {
	switch {
	case v.row.Sig != "":
		return "killed by " + v.row.Sig
	case v.row.Code != nil:
		return fmt.Sprintf("exit code %d", *v.row.Code)
	}
	return v.row.Result
}

// result is how a journal says that a job ended.
func result(h *api.JobHistory) string {
	switch {
	case h.Signal != "":
		return "killed by " + h.Signal
	case h.Result == "ok":
		return "ok"
	case h.Code != nil:
		return fmt.Sprintf("exit code %d", *h.Code)
	}
	return "failed" + behind(": ", cut(h.Reason))
}

// took says how long a job ran: as it was measured, or else to the second, as its row has it.
func (v *view) took(h *api.JobHistory) string {
	ran := time.Duration(h.Ran) * time.Microsecond
	if ran == 0 && v.row.Started > 0 && v.row.Finished > v.row.Started {
		ran = time.Duration(v.row.Finished-v.row.Started) * time.Second
	}
	if ran <= 0 {
		return ""
	}
	return ", after " + lengthy(ran)
}

// ignored tells of a job that is not to be run.
func (v *view) ignored() (Verdict, bool) {
	if v.row.Status != journal.RowIgnored {
		return Verdict{}, false
	}
	verdict := Verdict{Reason: Ignored, Sentence: "was ignored, and does not run; no journal says why"}
	t := v.history(func(t teller) bool { return t.job.Journal.Status == string(journal.StatusIgnored) })
	if t == nil {
		if errs := cut(lastLine(v.row.Stderr.Tail)); errs != "" {
			verdict.Sentence = "was ignored, and does not run: " + errs
		}
		return verdict, true
	}
	h := t.job.Journal
	verdict.Worker = t.Name
	verdict.Sentence = fmt.Sprintf("was ignored%s on %s, and does not run: %s", v.at(h.At), t.Name, cut(h.Reason))
	if h.Cancelled != 0 || h.By != "" {
		verdict.Reason = Cancelled
	}
	return verdict, true
}
