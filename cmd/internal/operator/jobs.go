package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"jobd/cmd/internal/screen"
	jobnet "jobd/net"
	"jobd/net/api"
)

// FoundJob is a job that an index has, and the worker whose index that is.
type FoundJob struct {
	api.FoundJob
	Worker string `json:"worker,omitempty"` // "" where one worker was asked
}

// FoundJobs is one page of what the indexes of all workers have, the newest first.
type FoundJobs struct {
	Jobs []FoundJob `json:"jobs"`
	Next string     `json:"next,omitempty"` // what JobsQuery.Before is to be for the page behind it; "": this is the last

	States map[string]api.IndexState `json:"states,omitempty"` // by worker, of those whose index is behind
	Errors map[string]string         `json:"errors,omitempty"` // of the workers that did not tell, by name
	Silent error                     `json:"-"`                // the same
}

// Jobs looks for jobs in the indexes of all workers, or of the one that the query names. A job that several
// workers had is on the page once, as the newest of those has it that the query selects: whether another one
// had it later only its row tells.
func Jobs(ctx context.Context, d *Daemon, query api.JobsQuery) (page FoundJobs, err error) {
	most := cmp.Or(query.Most, api.MostFound)
	answers, err := All[api.FoundJobs](ctx, d, api.Jobs.Name, query)
	if err != nil {
		return page, err
	}
	page.Jobs, page.States, page.Errors, page.Silent = []FoundJob{}, map[string]api.IndexState{}, errorsOf(answers), Silent(answers)
	var end api.JobKey // the first place that a worker has not looked behind: what others have there waits for the next page
	for _, one := range answers {
		if one.Err != nil {
			continue
		}
		if one.Value.IndexState != (api.IndexState{}) {
			page.States[one.From.Name] = one.Value.IndexState
		}
		next, err := api.ParseJobKey(one.Value.Next)
		if err != nil {
			return page, one.From.Named(err)
		}
		if next != (api.JobKey{}) && (end == (api.JobKey{}) || next.Compare(end) < 0) {
			end = next
		}
		for _, job := range one.Value.Jobs {
			page.Jobs = append(page.Jobs, FoundJob{job, one.From.Name})
		}
	}
	slices.SortStableFunc(page.Jobs, func(a, b FoundJob) int {
		return cmp.Or(a.key().Compare(b.key()), cmp.Compare(a.Worker, b.Worker))
	})
	page.cut(most, end)
	return page, nil
}

// The last jobs of a target by which it is judged what is usual, and how many it takes at least.
const (
	usualJobs = 100
	fewJobsOf = 10
)

// Usually is what the last jobs of a target needed that ended well, in words; "" where too few are known.
type Usually struct{ Ran, CPU, Memory string }

// Usual tells it; without an index, nothing.
func Usual(ctx context.Context, d *Daemon, target string) Usually {
	found, err := Jobs(ctx, d, api.JobsQuery{Targets: []string{target}, Result: "ok", Most: usualJobs})
	if err != nil {
		return Usually{}
	}
	of := func(needed func(FoundJob) int64, say func(int64) string) string {
		var all []int64
		for _, job := range found.Jobs {
			if n := needed(job); n >= 0 {
				all = append(all, n)
			}
		}
		if len(all) < fewJobsOf {
			return ""
		}
		slices.Sort(all)
		return fmt.Sprintf("usually %s, at most %s for 9 of 10", say(all[len(all)/2]), say(all[len(all)*9/10]))
	}
	known := func(n int64) int64 { // 0: nobody knows
		return cmp.Or(n, -1)
	}
	length := func(ms int64) string { return screen.ShortLength(time.Duration(ms) * time.Millisecond) }
	return Usually{
		of(func(j FoundJob) int64 {
			if j.Started == 0 {
				return -1
			}
			return j.Ended - j.Started
		}, length),
		of(func(j FoundJob) int64 { return known(j.CPU) }, length),
		of(func(j FoundJob) int64 { return known(j.Memory) }, func(n int64) string { return humanize.IBytes(uint64(n)) }),
	}
}

// cut leaves what stands before the place where the page ends, and so many jobs of that, each once.
func (p *FoundJobs) cut(most int, end api.JobKey) {
	met, n := map[jobnet.Whole]bool{}, 0
	for _, job := range p.Jobs {
		key := job.key()
		if end != (api.JobKey{}) && key.Compare(end) > 0 {
			break
		}
		if n >= most && key != p.Jobs[n-1].key() {
			end = p.Jobs[n-1].key()
			break
		}
		if !met[job.Job] {
			met[job.Job], p.Jobs[n] = true, job
			n++
		}
	}
	p.Jobs, p.Next = p.Jobs[:n], end.String()
}

// key is where the job stands; one that can't be read stands before all.
func (j FoundJob) key() api.JobKey {
	key, _ := api.ParseJobKey(j.Key)
	return key
}

// errorsOf are the errors of those that did not answer, by name.
func errorsOf[A any](answers []Answer[A]) map[string]string {
	errs := map[string]string{}
	for _, one := range answers {
		if one.Err != nil {
			errs[one.From.Name] = one.Err.Error()
		}
	}
	return errs
}

// SummedRates is how many jobs all workers started, ended and failed, added up.
type SummedRates struct {
	api.RatesFound
	States map[string]api.IndexState `json:"states,omitempty"` // by worker, of those whose index is behind
	Errors map[string]string         `json:"errors,omitempty"` // of the workers that did not tell, by name
	Silent error                     `json:"-"`                // the same
}

// Rates asks all workers for their numbers, or the one that the query names. Clocks of workers differ: a step of
// one is added to the step of the same time, as its clock has it.
func Rates(ctx context.Context, d *Daemon, query api.RatesQuery) (all SummedRates, err error) {
	answers, err := All[api.RatesFound](ctx, d, api.Rates.Name, query)
	if err != nil {
		return all, err
	}
	all.States, all.Errors, all.Silent = map[string]api.IndexState{}, errorsOf(answers), Silent(answers)
	for _, one := range answers {
		if one.Err == nil && one.Value.From > all.From {
			all.From, all.Step = one.Value.From, one.Value.Step
		}
	}
	for _, one := range answers {
		if one.Err != nil {
			continue
		}
		if one.Value.IndexState != (api.IndexState{}) {
			all.States[one.From.Name] = one.Value.IndexState
		}
		if one.Value.Step != all.Step || all.Step <= 0 {
			return all, one.From.Named(fmt.Errorf("its steps are %d s long, those of others %d s", one.Value.Step, all.Step))
		}
		late := int((all.From - one.Value.From) / all.Step)
		add(&all.All, one.Value.All, late)
		for target, counts := range one.Value.Targets {
			if all.Targets == nil {
				all.Targets = map[string]api.Counts{}
			}
			sum := all.Targets[target]
			add(&sum, counts, late)
			all.Targets[target] = sum
		}
	}
	return all, nil
}

// add adds counts of which so many steps lie before the first one.
func add(to *api.Counts, counts api.Counts, late int) {
	for _, pair := range []struct {
		to   *[]int64
		from []int64
	}{{&to.Started, counts.Started}, {&to.Ended, counts.Ended}, {&to.Failed, counts.Failed}} {
		for i, n := range pair.from {
			if i < late {
				continue
			}
			if len(*pair.to) <= i-late {
				*pair.to = append(*pair.to, 0)
			}
			(*pair.to)[i-late] += n
		}
	}
}

// Unclaimed asks for rows that nobody has claimed, the highest ids first: of each target one worker that serves
// it. The error is of targets of which nobody could tell; the rows of others are there all the same.
func Unclaimed(ctx context.Context, d *Daemon, query api.RowsQuery) (found api.UnclaimedRows, err error) {
	workers, _, err := d.Workers(ctx)
	if err != nil {
		return found, err
	}
	most, end := cmp.Or(query.Most, api.MostFound), jobnet.Whole(math.MinInt64)
	found.Rows = []api.UnclaimedRow{}
	errs := share(workers, query.Targets, func(w *Worker, targets []string) error {
		var answer api.UnclaimedRows
		some := query
		some.Targets = targets
		if err := w.Ask(ctx, api.Rows.Name, some, &answer); err != nil {
			return err
		}
		if n := len(answer.Rows); answer.More && n > 0 { // below that it may have others
			found.More, end = true, max(end, answer.Rows[n-1].Job)
		}
		found.Rows = append(found.Rows, answer.Rows...)
		return nil
	})
	slices.SortFunc(found.Rows, func(a, b api.UnclaimedRow) int { return cmp.Compare(b.Job, a.Job) })
	found.Rows = slices.CompactFunc(found.Rows, func(a, b api.UnclaimedRow) bool { return a.Job == b.Job })
	found.Rows = slices.DeleteFunc(found.Rows, func(row api.UnclaimedRow) bool { return row.Job < end })
	if len(found.Rows) > most {
		found.Rows, found.More = found.Rows[:most], true
	}
	return found, errors.Join(errs...)
}
