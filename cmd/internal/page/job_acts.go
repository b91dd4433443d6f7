package page

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	jobnet "jobd/net"
	"jobd/net/api"
)

// signals are those that one may send from a page.
var signals = []string{"SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGKILL"}

// jobToRetry finds the job of the address, where it is to be run once more.
func (l *look) jobToRetry() (list []operator.Again, r *operator.Retrying, err error) {
	job, err := l.theJob()
	if err != nil {
		return nil, nil, err
	}
	return l.named([]operator.Job{job})
}

// named finds which of the jobs are to be run once more.
func (l *look) named(jobs []operator.Job) (list []operator.Again, r *operator.Retrying, err error) {
	j, err := operator.FindJournals(l.ctx, l.Daemon(), l.note)
	if err != nil {
		return nil, nil, err
	}
	r = retryingOf(j)
	list, err = r.Named(l.ctx, jobs)
	return list, r, err
}

// grace is how long a job that is cancelled has to end by itself.
var grace = field{Name: "grace", Label: "Time to end by itself", Value: "10s", Hint: "after that it is killed; such as 30s, 5m"}

func (l *look) grace() (time.Duration, error) {
	text := l.value("grace")
	if text == "" {
		return api.DefaultGrace * time.Millisecond, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > api.LongestGrace*time.Millisecond {
		return 0, badQuery("%q is not allowed; allowed: a length of time up to 24h, such as 30s", screen.Clean(text))
	}
	return d, nil
}

func askCancel(l *look) (will intent, err error) {
	job, err := l.theJob()
	if err != nil {
		return will, err
	}
	story, err := operator.Tell(l.ctx, l.Daemon(), job, 1, false, l.clock(), l.note)
	if err != nil {
		return will, err
	}
	return intent{
		Title: fmt.Sprintf("Cancel job %d", job.ID),
		Will: []string{
			"If it has not started it will not run, and its row becomes ignored. If it runs it gets SIGTERM, and SIGKILL when its time is over.",
			"If the row recurs, only this run ends; its schedule goes on.",
			"Now: " + screen.Clean(story.Verdict.Sentence) + ".",
		},
		Fields: []field{grace},
	}, nil
}

func cancel(l *look) ([]string, error) {
	job, err := l.theJob()
	if err != nil {
		return nil, err
	}
	return l.cancelJobs([]operator.Job{job})
}

// cancelJobs cancels jobs, and says what became of them.
func (l *look) cancelJobs(jobs []operator.Job) (said []string, err error) {
	grace, err := l.grace()
	if err != nil {
		return nil, err
	}
	c := &operator.Cancelling{Daemon: l.Daemon(), Grace: grace}
	err = operator.MayBeDone(c.Run(l.ctx, jobs), api.Cancel.Name)
	states := map[string]int{}
	for _, done := range c.Done {
		states[done.State]++
	}
	for _, state := range []struct{ state, text string }{
		{api.CancelIgnored, "%s will not run."},
		{api.CancelDone, "%s ran before, and will not run again."},
		{api.CancelCancelling, "%s got SIGTERM, and ends within " + grace.String() + "."},
	} {
		if n := states[state.state]; n > 0 {
			said = append(said, fmt.Sprintf(state.text, countOf(n, "job")))
		}
	}
	told := 0
	for _, job := range jobs {
		if why, failed := c.Failed[job.ID]; failed {
			if told++; told <= mostAffected {
				said = append(said, screen.Clean(operator.JobError(job.ID, why).Error()))
			}
		}
	}
	if more := told - mostAffected; more > 0 {
		said = append(said, fmt.Sprintf("and %s more", comma(more)))
	}
	if len(said) == 0 && err == nil {
		return nil, notFound("there is no job to cancel")
	}
	return said, err
}

func askSignal(l *look) (will intent, err error) {
	job, err := l.theJob()
	return intent{
		Title:  fmt.Sprintf("Send a signal to job %d", job.ID),
		Will:   []string{"The signal goes to the job's process and all that it has started. They may ignore it: to end a job, cancel it."},
		Fields: []field{{Name: "signal", Label: "Signal", Value: signals[0], Options: signals}},
	}, err
}

func signal(l *look) ([]string, error) {
	job, err := l.theJob()
	if err != nil {
		return nil, err
	}
	name := l.value("signal")
	if !slices.Contains(signals, name) {
		return nil, badQuery("signal %s is not allowed; allowed: %s", screen.Clean(name), strings.Join(signals, ", "))
	}
	number := int(unix.SignalNum(name))
	answers, err := operator.All[api.RunningJobs](l.ctx, l.Daemon(), api.Running.Name, api.RunningQuery{})
	if err != nil {
		return nil, err
	}
	for _, one := range answers {
		at := slices.IndexFunc(one.Value.Jobs, func(r api.RunningJob) bool { return r.Job == job.ID })
		if one.Err != nil || at < 0 {
			continue
		}
		var done api.Delivered
		if err := l.signalled(job.ID, one.Value.Jobs[at].Target, number, &done); err != nil {
			return nil, operator.MayBeDone(err, api.SendSignal.Name)
		}
		if !done.Jobs[fmt.Sprint(job.ID)] {
			return nil, refuse(409, "job %d does not run any more: nothing was sent", job.ID)
		}
		return []string{fmt.Sprintf("%s was sent to job %d.", operator.SignalName(number), job.ID)}, nil
	}
	l.note(operator.Silent(answers))
	return nil, refuse(409, "job %d does not run: nothing was sent", job.ID)
}

// signalled asks for a signal: of a master in its own form.
func (l *look) signalled(id jobnet.Whole, target string, number int, done *api.Delivered) error {
	if l.page.Master {
		return l.Daemon().AskInto(l.ctx, api.SendSignal.Name, api.SignalJobs{Jobs: []api.SignalJob{{ID: id, Signal: int64(number), Target: target}}}, done)
	}
	return l.Daemon().AskInto(l.ctx, api.SendSignal.Name, api.Signals{Jobs: map[jobnet.Whole]int{id: number}}, done)
}

// mostAtOnce is how many jobs an act on all that match is about at most.
const mostAtOnce = 1000

// matching finds the jobs that the address looks for, the newest first.
func (l *look) matching() (jobs []operator.Job, shown []affected, more bool, err error) {
	f, err := l.filter()
	if err == nil && f.At != "" {
		err = badQuery("jobs are retried and cancelled in their present state: leave out at")
	}
	if err == nil && f.Unclaimed() {
		if ignored := f.beside("worker", "result", "code", "since", "until", "text"); len(ignored) > 0 { // more would be meant than somebody thinks
			err = badQuery("rows that nobody has claimed are found by status and target alone: leave out %s", strings.Join(ignored, ", "))
		}
	}
	if err != nil {
		return nil, nil, false, err
	}
	add := func(one listed) {
		jobs = append(jobs, operator.Job{ID: one.Job, Target: one.Target})
		if len(shown) < mostAffected {
			shown = append(shown, affected{one.Job, one.Target, strings.TrimSpace(one.Status + " " + one.How)})
		}
	}
	if f.Unclaimed() {
		query := api.RowsQuery{Status: f.Status, Targets: f.targets()}
		for len(jobs) < mostAtOnce {
			found, err := operator.Unclaimed(l.ctx, l.Daemon(), query)
			if err != nil {
				return nil, nil, false, err
			}
			for _, row := range found.Rows {
				add(listedRow(row))
			}
			if more = found.More; !more || len(found.Rows) == 0 {
				break
			}
			query.Before = &found.Rows[len(found.Rows)-1].Job
		}
		return jobs[:min(len(jobs), mostAtOnce)], shown, more || len(jobs) > mostAtOnce, nil
	}
	found, more, err := l.found(f.query("", 0), mostAtOnce)
	for _, job := range found {
		add(listedOf(job))
	}
	return jobs[:min(len(jobs), mostAtOnce)], shown, more || len(jobs) > mostAtOnce, err
}

// found are so many jobs that a query finds in the index, or some more, and whether there are others.
func (l *look) found(query api.JobsQuery, most int) (all []operator.FoundJob, more bool, err error) {
	for more = true; more && len(all) < most; more = query.Before != "" {
		found, err := operator.Jobs(l.ctx, l.Daemon(), query)
		if err != nil {
			return nil, false, err
		}
		l.note(found.Silent)
		all, query.Before = append(all, found.Jobs...), found.Next
	}
	return all, more, nil
}

// askAll says what an act on all that match will do, and which those are.
func askAll(l *look, verb string, sentences ...string) (will intent, jobs []operator.Job, err error) {
	jobs, shown, more, err := l.matching()
	if err != nil {
		return will, nil, err
	}
	if len(jobs) == 0 {
		return will, nil, notFound("no job matches")
	}
	count := countOf(len(jobs), "job")
	if more {
		count = "more than " + comma(mostAtOnce) + " jobs"
		sentences = append(sentences, "The newest "+comma(mostAtOnce)+" of them are chosen: do it again for the others.")
	}
	return intent{Title: verb + " " + count, Will: sentences, Jobs: shown, More: len(jobs) - len(shown)}, jobs, nil
}

func askRetryAll(l *look) (intent, error) {
	will, jobs, err := askAll(l, "Retry", "Of these, done or ignored jobs are set back and run once more; the others stay as they are.")
	if err != nil {
		return will, err
	}
	list, _, err := l.named(jobs)
	will.Meant = keysOf(list)
	return will, err
}

// allToRetry finds which of those that match are to be run once more.
func (l *look) allToRetry() (list []operator.Again, r *operator.Retrying, err error) {
	jobs, _, _, err := l.matching()
	if err != nil {
		return nil, nil, err
	}
	return l.named(jobs)
}

func askCancelAll(l *look) (intent, error) {
	will, jobs, err := askAll(l, "Cancel", "Jobs not started will not run, and become ignored. Running jobs get SIGTERM, and SIGKILL when their time is over.")
	will.Fields = []field{grace}
	for _, job := range jobs {
		will.Meant = append(will.Meant, fmt.Sprint(job.ID))
	}
	return will, err
}

func cancelAll(l *look) ([]string, error) {
	jobs, _, _, err := l.matching()
	if err != nil {
		return nil, err
	}
	meant := l.meant()
	return l.cancelJobs(slices.DeleteFunc(jobs, func(job operator.Job) bool { return !meant(fmt.Sprint(job.ID)) }))
}
