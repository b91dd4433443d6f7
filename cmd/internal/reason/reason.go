package reason

import (
	"fmt"
	"time"

	jobexec "jobd/exec"
	jobnet "jobd/net"
	"jobd/net/api"
)

// Question is which job is asked about, and by whom.
type Question struct {
	Job      int64
	Target   string // that it must be of; "" whichever
	Master   bool   // a master was asked, which runs a job only with its target
	Now      time.Time
	Location *time.Location // in which times are told
}

// Answer is what one worker said.
type Answer struct {
	Name          string // the worker's
	api.Explained        // where there is no answer: the targets that its master knows of, nil where they are not known
	Err           error  // why there is no answer
}

// Code is a word for why a job is where it is. Scripts rely on it.
type Code string

// The reasons. docs/jobctl.md says what each means.
const (
	NoSuchJob   Code = "no-such-job"
	OtherTarget Code = "other-target"
	Unreadable  Code = "unreadable"

	Running    Code = "running"
	Orphaned   Code = "orphaned"
	Cancelling Code = "cancelling"
	Starting   Code = "starting"
	Claimed    Code = "claimed"
	Parked     Code = "parked"
	Prefetched Code = "prefetched"
	Renewing   Code = "renewing"
	Ended      Code = "ended"
	Leaving    Code = "leaving"
	InDoubt    Code = "in-doubt"

	Unserved Code = "unserved"
	Untold   Code = "untold"
	Refused  Code = "refused"
	Locked   Code = "locked"
	Paused   Code = "paused"
	Waiting  Code = "waiting"
	Slots    Code = "slots"
	Next     Code = "next"
	Unseen   Code = "unseen"
	Released Code = "released"

	Delayed     Code = "delayed"
	Retrying    Code = "retrying"
	Recurring   Code = "recurring"
	BadSchedule Code = "bad-schedule"

	Silent       Code = "silent"
	Unregistered Code = "unregistered"
	Nobody       Code = "nobody"
	Lost         Code = "lost"
	Behind       Code = "behind"
	Conflict     Code = "conflict"

	Done      Code = "done"
	Failed    Code = "failed"
	Killed    Code = "killed"
	TimedOut  Code = "timed-out"
	Unknown   Code = "unknown-outcome"
	Cancelled Code = "cancelled"
	Ignored   Code = "ignored"
	Manual    Code = "manual"
	OddStatus Code = "odd-status"
)

// Verdict is why a job is where it is.
type Verdict struct {
	Reason   Code
	Sentence string
	Worker   string // who has it, or had it; "" where that is nobody, or not known

	// Probe tells that only a probe would explain it (api.ExplainQuery): the verdict is what
	// can be said without.
	Probe bool
}

// Explained tells whether it is known where the job is.
func (v Verdict) Explained() bool {
	return v.Reason != NoSuchJob && v.Reason != OtherTarget && v.Reason != Unreadable
}

// Of is the verdict on a job.
func Of(q Question, answers []Answer) Verdict {
	v := &view{Question: q}
	for _, a := range answers {
		if a.Err != nil {
			v.silent = append(v.silent, a)
			continue
		}
		if a.Name == "" {
			a.Name = a.Explained.Name
		}
		v.add(a)
	}
	for _, rule := range rules {
		if verdict, found := rule(v); found {
			verdict.Sentence = fmt.Sprintf("job %d %s", q.Job, verdict.Sentence)
			return verdict
		}
	}
	panic("the last rule fits everything")
}

// rules are what may be said of a job, the most specific first.
var rules = []func(*view) (Verdict, bool){
	(*view).otherTarget,
	(*view).here,
	(*view).unreadable,
	(*view).missing,
	(*view).ended,
	(*view).ignored,
	(*view).manual,
	(*view).delayed,
	(*view).underWay,
	(*view).waiting,
	(*view).odd,
}

// view is what all workers have answered about one job.
type view struct {
	Question
	told   []teller
	silent []Answer
	row    *api.JobRow // as the table has it; nil: there is none, or nobody could read it
}

// teller is a worker that has answered, and what it said of the job.
type teller struct {
	*Answer
	job api.ExplainedJob
}

// add takes in a worker's answer.
func (v *view) add(a Answer) {
	t := teller{Answer: &a}
	for _, job := range a.Jobs {
		if int64(job.Job) == v.Job {
			t.job = job
		}
	}
	if v.row == nil {
		v.row = t.job.Row
	}
	v.told = append(v.told, t)
}

// history is the newest that a journal says of the job, among those that pass; nil: none does.
func (v *view) history(pass func(teller) bool) (found *teller) {
	for i := range v.told {
		t := &v.told[i]
		if t.job.Journal != nil && pass(*t) && (found == nil || t.job.Journal.At > found.job.Journal.At) {
			found = t
		}
	}
	return found
}

// cannotTell tells whether a worker has not answered because it does not know the question.
func (a Answer) cannotTell() bool { return a.Err != nil && jobnet.CodeOf(a.Err) == jobnet.CodeUnknown }

// hasMark tells whether a mark is one that a worker of this name takes.
func (a Answer) hasMark(mark string) bool { return jobexec.IsMarkOf(mark, a.Name) }
