package reason

import (
	"cmp"
	"fmt"
	"net"
	"strings"
	"time"

	"jobd/journal"
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

// The reasons. docs/stuck.md says what to do about each.
const (
	NoSuchJob   Code = "no-such-job"
	OtherTarget Code = "other-target"
	Unreadable  Code = "unreadable"

	Running    Code = "running"
	Orphaned   Code = "orphaned"
	Cancelling Code = "cancelling"
	Starting   Code = "starting"
	Claimed    Code = "claimed"
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
	Stopped   Code = "stopped"
	Unknown   Code = "unknown-outcome"
	Cancelled Code = "cancelled"
	Ignored   Code = "ignored"
	Manual    Code = "manual"
	OddStatus Code = "odd-status"
)

// Look is how much a reason is worth a look.
type Look int

// The looks.
const (
	Odd   Look = iota // somebody should look at it
	Usual             // it goes on by itself, or waits for its turn
	Good              // it is done
	Bad               // it failed, or nobody knows it
)

// Look tells how much a reason is worth one. One that is new is odd.
func (c Code) Look() Look {
	switch c {
	case Done:
		return Good
	case Failed, Killed, TimedOut, Stopped, BadSchedule, Unknown, NoSuchJob, Unreadable:
		return Bad
	case Running, Waiting, Slots, Next, Prefetched, Starting, Claimed, Manual, Ended, Delayed, Recurring:
		return Usual
	}
	return Odd
}

// Outcome is how a job ended: by a signal, with an exit code, or as is said otherwise.
func Outcome[N int | int64](signal string, code *N, otherwise string) string {
	switch {
	case signal != "":
		return "killed by " + signal
	case code != nil:
		return fmt.Sprintf("exit code %d", *code)
	}
	return otherwise
}

// Verdict is why a job is where it is.
type Verdict struct {
	Job      jobnet.Whole `json:"job"`
	Reason   Code         `json:"reason"`
	Sentence string       `json:"sentence"`
	Worker   string       `json:"worker,omitempty"` // who has it, or had it; "" where that is nobody, or not known
	Row      *api.JobRow  `json:"-"`                // as it counts; nil: there is none, or nobody could read it
}

// say gives a verdict in words.
func say(code Code, format string, args ...any) *Verdict {
	return &Verdict{Reason: code, Sentence: fmt.Sprintf(format, args...)}
}

// add says more.
func (d *Verdict) add(format string, args ...any) *Verdict {
	d.Sentence += fmt.Sprintf(format, args...)
	return d
}

// by notes who has the job, or had it.
func (d *Verdict) by(t teller) *Verdict {
	d.Worker = t.Name
	return d
}

// Of is the verdict on a job.
func Of(q Question, answers []Answer) Verdict {
	v, counts := &view{Question: q}, 0
	for _, a := range answers {
		if a.Err != nil {
			v.silent = append(v.silent, a)
			continue
		}
		a.Name = cmp.Or(a.Name, a.Explained.Name)
		t := teller{Answer: a}
		for _, job := range a.Jobs {
			if int64(job.Job) == v.Job {
				t.job = job
			}
		}
		if n := weight(t.job); n > counts {
			v.row, counts = t.job.Row, n
		}
		v.told = append(v.told, t)
	}
	verdict := v.verdict()
	verdict.Job, verdict.Row = jobnet.Whole(q.Job), v.row
	between := " "
	if verdict.Sentence == NoRow {
		between = ": "
	}
	verdict.Sentence = fmt.Sprintf("job %d%s%s", q.Job, between, verdict.Sentence)
	return *verdict
}

// weight is how much it counts what a worker says of a row: more where it serves the target, whose terms it
// knows then, and where it uses the columns that say when a row is due. 0: it says nothing.
func weight(job api.ExplainedJob) int {
	n := 0
	if job.Row == nil {
		return n
	}
	if n++; job.Row.Plan != nil {
		n++
	}
	if job.Target != nil {
		n += 2
	}
	return n
}

// view is what all workers have answered about one job.
type view struct {
	Question
	told   []teller
	silent []Answer
	row    *api.JobRow // as the worker has it whose word counts most; nil: there is none, or nobody could read it
}

// teller is a worker that has answered, and what it said of the job.
type teller struct {
	Answer
	job api.ExplainedJob
}

// history is what the worker's journal says of the job; empty where that is nothing.
func (t teller) history() *api.JobHistory {
	if t.job.Journal == nil {
		return &api.JobHistory{}
	}
	return t.job.Journal
}

// gaveBack tells whether the worker has had the job, and gave it back.
func (t teller) gaveBack() bool { return t.history().Status == string(journal.StatusReleased) }

// newestOf is who knows the newest of the job, among those that pass; nil: nobody knows of it.
func (v *view) newestOf(pass func(teller) bool) (found *teller) {
	for i := range v.told {
		t := &v.told[i]
		if t.job.Journal != nil && pass(*t) && (found == nil || t.history().At > found.history().At) {
			found = t
		}
	}
	return found
}

// cannotTell tells whether a worker has not answered because it does not know the question.
func (a Answer) cannotTell() bool { return a.Err != nil && jobnet.CodeOf(a.Err) == jobnet.CodeUnknown }

// clock is a moment to the minute, with the date where it is not today. It is in unix milliseconds.
func (v *view) clock(millis int64) string {
	at := time.UnixMilli(millis).In(v.Location)
	if now := v.Now.In(v.Location); at.Format(time.DateOnly) != now.Format(time.DateOnly) {
		return at.Format("2006-01-02 15:04")
	}
	return at.Format("15:04")
}

// since says since when something is so; "" where that is not known.
func (v *view) since(millis int64) string {
	if millis == 0 {
		return ""
	}
	return " since " + v.clock(millis)
}

// at says when something was; "" where that is not known.
func (v *view) at(millis int64) string {
	if millis == 0 {
		return ""
	}
	return " at " + v.clock(millis)
}

// behind puts something behind a word, where there is something.
func behind(word, what string) string {
	if what == "" {
		return ""
	}
	return word + what
}

// lengthy is how long something took, to what matters of it.
func lengthy(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	text := d.Round(time.Second).String()
	if whole, ok := strings.CutSuffix(text, "m0s"); ok {
		return whole + "m"
	}
	return text
}

// namesOf joins the names of workers.
func namesOf[T interface{ name() string }](all []T) string {
	var list []string
	for _, one := range all {
		list = append(list, one.name())
	}
	return names(list)
}

func (a Answer) name() string { return a.Name }

// names joins names.
func names(all []string) string {
	const most = 5
	if len(all) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
	}
	return strings.Join(all, ", ")
}

// lastLine is the last line of a text that has something in it.
func lastLine(text string) string { return string(journal.Output{Kept: []byte(text)}.LastLine()) }

// cut cuts a text of somebody else's to what a sentence bears, which is one line.
func cut(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// whoOf is who wanted something: a principal's name, or an address without the port, which tells a reader
// nothing; without the master that has handed it on.
func whoOf(by string) string {
	first, _, _ := strings.Cut(by, " via ")
	if name, _, named := strings.Cut(first, " ("); named {
		return name
	}
	if name, _, err := net.SplitHostPort(first); err == nil {
		return name
	}
	return first
}
