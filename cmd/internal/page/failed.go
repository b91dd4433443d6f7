package page

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"jobd/cmd/internal/operator"
	jobnet "jobd/net"
)

// mostFailed is how many failures are grouped, and mostLooked how many events of each journal are looked at for them.
const (
	mostFailed = 200
	mostLooked = 2_500
)

// failedPage is /failed.
type failedPage struct {
	Target, Since, By, Group string

	Targets []string
	Groups  []*operator.FailureGroup
	All     []*operator.Failure
	More    bool
	Back    time.Time // how far back was looked; zero: as far as was wanted
}

// failedQuery is what the address looks for: of a day, where it does not say.
func (l *look) failedQuery(p *failedPage) (q operator.FailedQuery, err error) {
	q = operator.FailedQuery{Target: p.Target, Most: mostFailed}
	if p.By == "time" {
		q.Most = mostListed
	}
	q.Since, err = l.moment("since", cmp.Or(p.Since, "24h"))
	return q, err
}

// failures finds what failed, as the address wants it.
func (l *look) failures(p *failedPage) (found operator.Failures, j *operator.Journals, err error) {
	query, err := l.failedQuery(p)
	if err != nil {
		return found, nil, err
	}
	if j, err = operator.FindJournals(l.ctx, l.Daemon(), l.note); err != nil {
		return found, nil, err
	}
	j.Look = mostLooked
	found, err = j.FindFailed(l.ctx, query)
	l.noteAll(j.Failed)
	return found, j, err
}

// failedView is /failed.
func failedView(l *look) (_ any, err error) {
	p := &failedPage{Target: l.value("target"), Since: l.value("since"), By: cmp.Or(l.value("by"), "group"), Group: l.value("group")}
	if p.Targets, _, err = l.choices(p.Target); err != nil {
		return nil, err
	}
	found, j, err := l.failures(p)
	if err != nil {
		return nil, err
	}
	l.note(found.Unchecked)
	if p.More = found.More; !p.More {
		p.Back = j.LookedBack
	}
	if p.Groups = found.Groups(); p.By == "time" {
		p.All = found.All
	}
	if group := p.group(p.Groups); group != nil {
		p.All = group.Members
	}
	return p, nil
}

// group is the group that the address names: by its newest job.
func (p *failedPage) group(all []*operator.FailureGroup) *operator.FailureGroup {
	for _, g := range all {
		if p.Group != "" && strconv.FormatInt(int64(g.Job), 10) == p.Group {
			return g
		}
	}
	return nil
}

// Address leads to what is done about a group, as it was found here.
func (p *failedPage) Address(path string, group jobnet.Whole) string {
	q := url.Values{"group": {strconv.FormatInt(int64(group), 10)}}
	if p.Target != "" {
		q.Set("target", p.Target)
	}
	if p.Since != "" {
		q.Set("since", p.Since)
	}
	return path + "?" + q.Encode()
}

// groupToRetry finds the jobs of a group that are to be set back.
func (l *look) groupToRetry() (list []operator.Again, r *operator.Retrying, err error) {
	p := &failedPage{Target: l.value("target"), Since: l.value("since"), Group: l.value("group")}
	found, j, err := l.failures(p)
	if err != nil {
		return nil, nil, err
	}
	group := p.group(found.Groups())
	if group == nil {
		return nil, nil, notFound("this group is gone: other jobs have failed since, or it was retried; load the list again")
	}
	found.All = group.Members
	r = retryingOf(j)
	list, err = r.Failed(found)
	return list, r, err
}

func retryingOf(j *operator.Journals) *operator.Retrying {
	return &operator.Retrying{Journals: j, Done: map[jobnet.Whole]string{}, Refused: map[jobnet.Whole]string{}}
}

// toRetry finds jobs that are to be run once more.
type toRetry func(*look) ([]operator.Again, *operator.Retrying, error)

// ask says what it will do that they are, and do has them run.
func (find toRetry) ask(l *look) (will intent, err error) {
	list, r, err := find(l)
	if err != nil {
		return will, err
	}
	return willRetry(list, r)
}

func (find toRetry) do(l *look) ([]string, error) {
	list, r, err := find(l)
	if err != nil {
		return nil, err
	}
	return l.setBack(list, r)
}

// willRetry says what a retry will do.
func willRetry(list []operator.Again, r *operator.Retrying) (will intent, err error) {
	if len(list) == 0 {
		if len(r.Errs) > 0 {
			return will, refuse(409, "%s", lines(r.Errs[0])[0])
		}
		return will, notFound("there is no job to retry")
	}
	will.Title = "Retry " + countOf(len(list), "job")
	if len(list) == 1 {
		will.Title = fmt.Sprintf("Retry job %d", list[0].Job)
	}
	will.Will = []string{"Their rows are set back to what they were, waiting or manual, and are run once more. What they wrote stays in the journal."}
	for _, one := range list[:min(len(list), mostAffected)] {
		will.Jobs = append(will.Jobs, affected{one.Job, one.Target, one.How})
	}
	will.More = len(list) - len(will.Jobs)
	will.Meant = keysOf(list)
	return will, nil
}

// keysOf are what a form sends of jobs that are to be run once more.
func keysOf(list []operator.Again) []string {
	keys := []string{""} // a form about none of them has that, too
	for _, one := range list {
		keys = append(keys, one.Key())
	}
	return keys
}

// setBack has jobs run once more, and says what came of it. What has ended again since it was shown stays as it is:
// a form that is sent twice, or by two people, runs a job once.
func (l *look) setBack(list []operator.Again, r *operator.Retrying) (said []string, err error) {
	all, meant := len(list), l.meant()
	list = slices.DeleteFunc(list, func(one operator.Again) bool { return !meant(one.Key()) })
	if len(list) == 0 && all > 0 {
		return nil, refuse(409, "these jobs were retried meanwhile and have ended again: load the page again")
	}
	r.SetBack(l.ctx, list)
	if n := len(r.Done); n > 0 {
		said = append(said, fmt.Sprintf("%s set back: they run once more.", countOf(n, "job")))
		if n == 1 {
			said[0] = "1 job is set back: it runs once more."
		}
	}
	for i, err := range r.Errs {
		if i == mostAffected {
			said = append(said, fmt.Sprintf("and %s more", comma(len(r.Errs)-i)))
			break
		}
		said = append(said, lines(err)...)
	}
	if len(said) == 0 {
		return nil, notFound("there is no job to retry")
	}
	return said, nil
}
