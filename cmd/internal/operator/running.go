package operator

import (
	"context"

	"jobd/net/api"
)

// RunningJob is a running job, and the worker that runs it.
type RunningJob struct {
	api.RunningJob
	Worker string  `json:"worker,omitempty"` // "" where one worker was asked
	From   *Worker `json:"-"`
}

// RunningJobs is what runs on all workers that were asked.
type RunningJobs struct {
	Jobs   []RunningJob      `json:"jobs"`
	Total  int               `json:"total"`            // how many run, listed or not
	Errors map[string]string `json:"errors,omitempty"` // of the workers that did not tell, by name
	Silent error             `json:"-"`                // the same
}

// Running asks for what runs, in the order that the query wants.
func Running(ctx context.Context, d *Daemon, query api.RunningQuery) (all RunningJobs, err error) {
	answers, err := All[api.RunningJobs](ctx, d, api.Running.Name, query)
	if err != nil {
		return all, err
	}
	all.Jobs, all.Errors, all.Silent = []RunningJob{}, map[string]string{}, Silent(answers)
	for _, one := range answers {
		if one.Err != nil {
			all.Errors[one.From.Name] = one.Err.Error()
		}
		all.Total += one.Value.Total
		for _, job := range one.Value.Jobs {
			all.Jobs = append(all.Jobs, RunningJob{job, one.From.Name, one.From})
		}
	}
	all.Sort(query.Sort)
	return all, nil
}

// Sort puts the jobs into another order.
func (r RunningJobs) Sort(order string) {
	api.SortRunning(r.Jobs, order, func(j *RunningJob) *api.RunningJob { return &j.RunningJob })
}
