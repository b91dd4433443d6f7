package page

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/screen"
	jobnet "jobd/net"
	"jobd/net/api"
)

// mostListed is how many jobs a page lists.
const mostListed = 100

// filter is what jobs are looked for by, as the address has it.
type filter struct {
	Status, Target, Worker, Result, Code, Since, Until, Text, At string

	codes        []int
	since, until time.Time
}

// unclaimed are the statuses of rows that nobody has claimed: the table alone has them.
var unclaimed = []string{"waiting", "manual", "delayed"}

// Unclaimed tells whether rows are looked for, in the table.
func (f *filter) Unclaimed() bool { return f.At == "" && slices.Contains(unclaimed, f.Status) }

// Statuses are those that may be looked for.
func (f *filter) Statuses() []string {
	if f.At != "" {
		return api.JobStatuses()
	}
	return append(slices.Clone(unclaimed), api.JobStatuses()...)
}

// filter reads what the address looks for.
func (l *look) filter() (f *filter, err error) {
	f = &filter{
		Status: l.value("status"), Target: l.value("target"), Worker: l.value("worker"), Result: l.value("result"),
		Code: l.value("code"), Since: l.value("since"), Until: l.value("until"), Text: l.value("text"),
		At: l.value("at"),
	}
	if f.Status != "" && !slices.Contains(f.Statuses(), f.Status) {
		return nil, badQuery("status %s is not allowed; allowed: %s", screen.Clean(f.Status), strings.Join(f.Statuses(), ", "))
	}
	if f.Result != "" && f.Result != "ok" && f.Result != "fail" {
		return nil, badQuery("result %s is not allowed; allowed: ok, fail", screen.Clean(f.Result))
	}
	if f.Code != "" {
		code, err := strconv.Atoi(f.Code)
		if err != nil || code < 0 || code > 255 {
			return nil, badQuery("code %s is not allowed; allowed: an exit code from 0 to 255", screen.Clean(f.Code))
		}
		f.codes = []int{code}
	}
	if f.since, err = l.moment("since", f.Since); err == nil {
		f.until, err = l.moment("until", f.Until)
	}
	return f, err
}

// value is a value of the address, or of the form that was sent.
func (l *look) value(name string) string { return strings.TrimSpace(l.FormValue(name)) }

// targets are those that are looked for.
func (f *filter) targets() []string {
	if f.Target == "" {
		return nil
	}
	return []string{f.Target}
}

// query is the filter as the index is asked.
func (f *filter) query(before string, most int) api.JobsQuery {
	q := api.JobsQuery{
		Targets: f.targets(), Status: f.Status, Worker: f.Worker, Result: f.Result, Codes: f.codes, Text: f.Text, Before: before, Most: most,
	}
	if !f.since.IsZero() {
		q.Since = f.since.UnixMilli()
	}
	if !f.until.IsZero() {
		q.Until = f.until.UnixMilli()
	}
	return q
}

// listed is a job in a list.
type listed struct {
	Job    jobnet.Whole
	Target string
	Status string
	Tone   string
	Worker string
	At     time.Time // since when it is what it is
	Ran    string
	How    string // it ended, or why it waits
	Note   string
}

// jobsPage is a page of jobs.
type jobsPage struct {
	*filter
	Targets []string // to choose from
	Workers []string
	Jobs    []listed
	Next    string // the key of the page behind; "": there is none
	First   bool
	States  map[string]api.IndexState
	Ignored []string // fields that say nothing about rows that nobody has claimed
}

// jobsView is /jobs.
func jobsView(l *look) (any, error) {
	f, err := l.filter()
	if err != nil {
		return nil, err
	}
	before := l.Query("before")
	p := &jobsPage{filter: f, First: before == ""}
	if p.Targets, p.Workers, err = l.choices(f.Target); err != nil {
		return nil, err
	}
	if f.Unclaimed() {
		return p, l.listRows(p, before)
	}
	found, err := operator.Jobs(l.ctx, l.Daemon(), f.query(before, mostListed))
	if err != nil {
		return nil, err
	}
	l.note(found.Silent)
	p.Next, p.States = found.Next, found.States
	for _, job := range found.Jobs {
		p.Jobs = append(p.Jobs, listedOf(job))
	}
	return p, nil
}

// choices are the targets that one may choose, the one that was chosen among them, and a master's workers.
func (l *look) choices(chosen string) (targets, workers []string, err error) {
	census, err := operator.TakeCensus(l.ctx, l.Daemon())
	if err != nil {
		return nil, nil, err
	}
	targets = census.Targets()
	if chosen != "" && !slices.Contains(targets, chosen) {
		targets = append(targets, chosen)
	}
	for _, w := range census.Workers {
		if census.Master != nil {
			workers = append(workers, w.From.Name)
		}
	}
	return targets, workers, nil
}

// listRows lists rows that nobody has claimed.
func (l *look) listRows(p *jobsPage, before string) error {
	p.Ignored = p.beside("worker", "result", "code", "since", "until", "text")
	query := api.RowsQuery{Status: p.Status, Targets: p.targets(), Most: mostListed}
	if before != "" {
		id, err := strconv.ParseInt(before, 10, 64)
		if err != nil {
			return badQuery("before = %s is not allowed; allowed: the id of a row", screen.Clean(before))
		}
		query.Before = (*jobnet.Whole)(&id)
	}
	found, err := operator.Unclaimed(l.ctx, l.Daemon(), query)
	if err != nil && len(found.Rows) == 0 {
		return err
	}
	l.note(err)
	for _, row := range found.Rows {
		p.Jobs = append(p.Jobs, listedRow(row))
	}
	if n := len(p.Jobs); found.More && n > 0 {
		p.Next = strconv.FormatInt(int64(p.Jobs[n-1].Job), 10)
	}
	return nil
}

func listedOf(job operator.FoundJob) listed {
	one := listed{
		Job: job.Job, Target: job.Target, Status: job.Status, Worker: job.Worker, At: unixTime(job.At, time.Millisecond), Note: job.Reason,
	}
	switch {
	case job.Status == "done" && job.Result != "ok":
		one.Tone = "bad"
	case job.Status == "done":
		one.Tone = "good"
	case job.Status == "ignored", job.Status == "conflict":
		one.Tone = "warn"
	}
	if job.Ended > 0 && job.Started > 0 {
		one.Ran = screen.ShortLength(time.Duration(job.Ended-job.Started) * time.Millisecond)
	}
	if job.Status == "done" {
		one.How = operator.Outcome(api.Outcome{Result: job.Result, Code: job.Code, Signal: &job.Signal})
	}
	return one
}

func listedRow(row api.UnclaimedRow) listed {
	one := listed{Job: row.Job, Target: row.Target, Status: row.Status, At: unixTime(row.Created, time.Second)}
	if row.Status == "delayed" && row.RunAt > 0 {
		one.Note = "due " + unixTime(row.RunAt, time.Second).Local().Format(time.DateTime)
	}
	if row.Result != "" {
		var code *int
		if row.Code != nil {
			n := int(*row.Code)
			code = &n
		}
		one.How = "last " + operator.Outcome(api.Outcome{Result: row.Result, Code: code, Signal: &row.Signal})
	}
	return one
}

// values are what the filter looks for, as an address or a form has it.
func (f *filter) values() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{
		"status": f.Status, "target": f.Target, "worker": f.Worker, "result": f.Result, "code": f.Code,
		"since": f.Since, "until": f.Until, "text": f.Text, "at": f.At,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// beside are those of some values that are given.
func (f *filter) beside(names ...string) []string {
	values := f.values()
	return slices.DeleteFunc(names, func(name string) bool { return !values.Has(name) })
}

// Address is the address of what the filter looks for.
func (f *filter) Address(path string) string {
	return strings.TrimSuffix(path+"?"+f.values().Encode(), "?")
}

// findJob leads to the job whose id was typed into the bar.
func (p *Page) findJob(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if id := strings.TrimSpace(r.URL.Query().Get("id")); id != "" {
			http.Redirect(w, r, "/jobs/"+url.PathEscape(id), http.StatusSeeOther)
			return
		}
		next(w, r)
	}
}
