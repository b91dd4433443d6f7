package page

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"jobd/cmd/internal/history"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	"jobd/cmd/internal/web"
	"jobd/journal"
)

// Some screens show how it was at a time: the state of jobs that the journals are replayed to, as jobctl journal
// state --at has it. That may take a while, of which whoever waits is told.

// then answers with a screen as it was. What takes longer than others are made anew is sent as it comes: what
// stands around it first, then that it goes on, and it when it is there.
func (p *Page) then(w http.ResponseWriter, l *look, s *aScreen) (err error) {
	if l.at, err = l.moment("at", l.value("at")); err != nil {
		return err
	}
	begin := p.framed(p.look(l.Request), s, "")
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	l.ctx = ctx
	var main template.HTML
	made := make(chan struct{}) // until then the look is that of the one who makes it
	go func() {
		defer close(made)
		main, err = p.shown(l, s)
	}()
	select {
	case <-made:
		if err == nil {
			p.frame(w, l, s, http.StatusOK, main)
		}
		return err
	case <-time.After(soon):
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	out, full := web.OpenStream(w, l.Request)
	if full != nil {
		cancel()
		<-made
		return refuse(http.StatusTooManyRequests, "%v", full)
	}
	defer out.Close()
	defer context.AfterFunc(out, cancel)()
	failed := templates().ExecuteTemplate(out, "begin", begin)
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for waits := true; waits; {
		select {
		case <-made:
			waits = false
		case <-second.C:
			if failed == nil {
				_, failed = fmt.Fprintf(out, "<p class=\"quiet step\">The journals are read: %s.</p>\n", screen.Length(time.Since(l.now)))
			}
			if failed != nil { // whoever asked is gone
				cancel()
			}
		}
	}
	if err != nil {
		main, _ = p.render(l, "fail.html", lines(err))
	}
	_, _ = out.Write([]byte(main))
	_ = templates().ExecuteTemplate(out, "end", begin)
	return nil
}

// At is when what is shown was so.
func (l *look) At() time.Time { return l.at }

// Keep is an address, at the time that this one is about.
func (l *look) Keep(address string) string {
	at := l.Query("at")
	if at == "" {
		return address
	}
	return withQuery(address, "at", at)
}

// jobsThen gives the selected jobs of all journals as they stood, in the order of history.Job.Before.
func (l *look) jobsThen(q history.AtQuery, worker string) (*operator.Journals, iter.Seq2[operator.From[history.Job], error], error) {
	j, err := operator.FindJournals(l.ctx, l.Daemon(), l.note)
	if err != nil {
		return nil, nil, err
	}
	if worker != "" {
		j.Sources = slices.DeleteFunc(j.Sources, func(s operator.Source) bool { return s.Worker() != worker })
	}
	if l.at.After(l.now) {
		l.note(badQuery("%s is in the future: this is the state now", screen.Clean(l.Query("at"))))
	}
	if q.UnderWay { // where the history begins later, it tells of then
		q.At = history.Behind(l.at)
		before := func(s operator.Source) error {
			removed, err := s.Kept(l.ctx)
			if err == nil && removed != nil && l.at.Before(removed.Since) {
				return removed
			}
			return err
		}
		for _, s := range slices.Clone(j.Sources) {
			if err := before(s); err != nil {
				j.Failed = append(j.Failed, operator.Named(s.Worker(), err))
				j.Sources = slices.DeleteFunc(j.Sources, func(other operator.Source) bool { return other == s })
			}
		}
	} else {
		q.At = l.at
	}
	return j, operator.Merge(j, func(s operator.Source) iter.Seq2[history.Job, error] { return s.Jobs(l.ctx, q) }, history.Job.Before), nil
}

// underWay is what was under way of a target on a worker.
type underWay struct {
	Target, Worker              string
	Accepted, Starting, Running int
}

// targetsAt is /targets at a time.
func targetsAt(l *look) (any, error) {
	j, jobs, err := l.jobsThen(history.AtQuery{UnderWay: true}, "")
	if err != nil {
		return nil, err
	}
	counts := map[[2]string]*underWay{}
	var all []*underWay
	for job, err := range jobs {
		if err != nil {
			return nil, err
		}
		key := [2]string{job.Item.Target, job.Source.Worker()}
		one := counts[key]
		if one == nil {
			one = &underWay{Target: key[0], Worker: key[1]}
			counts[key], all = one, append(all, one)
		}
		switch job.Item.Status {
		case journal.StatusAccepted:
			one.Accepted++
		case journal.StatusStarting:
			one.Starting++
		default:
			one.Running++
		}
	}
	l.noteAll(j.Failed)
	slices.SortFunc(all, func(a, b *underWay) int {
		return cmp.Or(strings.Compare(a.Target, b.Target), strings.Compare(a.Worker, b.Worker))
	})
	return all, nil
}

// mostBefore is how many jobs may stand before those of a page.
const mostBefore = 9_900

// jobsAt is /jobs at a time: first those under way, then those at their end, the newest first. What was does
// not change, so a page is found by how many jobs are before it.
func jobsAt(l *look) (any, error) {
	f, err := l.filter()
	if err != nil {
		return nil, err
	}
	before, err := strconv.Atoi(cmp.Or(l.Query("before"), "0"))
	if err != nil || before < 0 || before > mostBefore {
		return nil, badQuery("before = %s is not allowed; allowed: a whole number up to %d", screen.Clean(l.Query("before")), mostBefore)
	}
	p := &jobsPage{filter: f, First: before == 0}
	if p.Targets, p.Workers, err = l.choices(f.Target); err != nil {
		return nil, err
	}
	p.Ignored = p.beside("result", "code", "since", "until", "text")
	wanted := before + mostListed + 1
	q := history.AtQuery{Status: journal.Status(f.Status), Target: f.Target, Last: min(wanted, mostBefore+mostListed)}
	j, jobs, err := l.jobsThen(q, f.Worker)
	if err != nil {
		return nil, err
	}
	for job, err := range history.Newest(jobs, q.Last) {
		if err != nil {
			return nil, err
		}
		p.Jobs = append(p.Jobs, l.listedThen(job))
	}
	l.noteAll(j.Failed)
	slices.Reverse(p.Jobs)
	p.Jobs = p.Jobs[min(before, len(p.Jobs)):]
	if len(p.Jobs) > mostListed {
		p.Jobs, p.Next = p.Jobs[:mostListed], fmt.Sprint(before+mostListed)
	} else if wanted > q.Last && len(p.Jobs) == mostListed {
		l.note(badQuery("there may be others before these: choose a status or a target"))
	}
	return p, nil
}

// listedThen is a job as it stood.
func (l *look) listedThen(of operator.From[history.Job]) listed {
	job := of.Item
	told := operator.FoundJob{}
	told.Job, told.Target, told.Status, told.Result, told.Code, told.Signal = job.Job, job.Target, string(job.Status), job.Result, job.Code, job.Signal
	one := listedOf(told)
	one.Worker, one.At, one.Note = of.Source.Worker(), job.Changed(), job.Reason
	switch {
	case job.Status == journal.StatusRunning:
		one.Ran = screen.ShortLength(l.at.Sub(job.Running))
	case !job.Running.IsZero() && !job.Ended.IsZero():
		one.Ran = screen.ShortLength(job.Ended.Sub(job.Running))
	}
	if job.Again != nil {
		one.Note = strings.TrimSpace(one.Note + " again " + l.clock().Seconds(job.Again.RunAt))
	}
	return one
}

// jobAt is /jobs/ID at a time.
func jobAt(l *look) (any, error) {
	job, err := l.theJob()
	if err != nil {
		return nil, err
	}
	l.title = fmt.Sprintf("Job %d", job.ID)
	j, jobs, err := l.jobsThen(history.AtQuery{Job: job.ID}, "")
	if err != nil {
		return nil, err
	}
	shown := struct {
		Then    []listed
		Told    []run
		Unheard bool
	}{}
	for one, err := range jobs {
		if err != nil {
			return nil, err
		}
		shown.Then = append(shown.Then, l.listedThen(one))
	}
	story := operator.TellUntil(l.ctx, j, job, l.at, l.clock())
	for _, r := range story.Runs {
		shown.Told = append(shown.Told, runOf(r))
	}
	l.noteAll(story.Failed)
	shown.Unheard = story.Unheard
	return shown, nil
}
