package service

import (
	"context"

	jobexec "jobd/exec"
	jobnet "jobd/net"
	"jobd/net/api"
)

// Running lists what runs. What is sorted by is measured of all jobs before the list is cut.
func (s *Service) Running(_ context.Context, _ Call, q api.RunningQuery) (api.RunningJobs, error) {
	running := s.Worker.Running(q.Targets)
	answer := api.RunningJobs{Jobs: make([]api.RunningJob, len(running)), Total: len(running)}
	usual := map[string]int{} // attempts by target
	for i := range running {
		r := &running[i]
		answer.Jobs[i] = runningJob(r)
		if plan := r.Time.Plan; plan != nil && plan.MaxAttempts > 0 {
			answer.Jobs[i].MaxAttempts = int(plan.MaxAttempts)
			continue
		}
		if _, known := usual[r.Target]; !known {
			usual[r.Target] = s.mostAttempts(r.Target, nil)
		}
		answer.Jobs[i].MaxAttempts = usual[r.Target]
	}
	api.SortRunning(answer.Jobs, q.Sort, func(j *api.RunningJob) *api.RunningJob { return j })
	answer.Jobs = answer.Jobs[:min(len(answer.Jobs), q.Most)]
	return answer, nil
}

func runningJob(r *jobexec.RunningJob) api.RunningJob {
	j := api.RunningJob{
		Job: jobnet.Whole(r.ID), Target: r.Target, Manual: r.Manual, Attempt: r.Attempt,
		PID: r.PID, Executor: r.Executor.Executor(), Address: r.Address, Adopted: r.Adopted, Cancelled: r.Cancelled,
	}
	if !r.Since.IsZero() {
		j.Since = r.Since.UnixMilli()
	}
	j.Planned, j.Deadline = r.Time.PlannedAt, millis(r.Time.Deadline)
	j.Recurs = r.Time.Plan != nil && r.Time.Plan.Schedule != ""
	if used := r.Usage; used != nil {
		cpu, ran := used.CPU.Milliseconds(), used.Ran.Milliseconds()
		j.Elapsed, j.CPU, j.Memory, j.Processes = &ran, &cpu, &used.Memory, used.Processes
	}
	return j
}
