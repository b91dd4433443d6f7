package service

import (
	"context"
	"errors"
	"strings"

	jobexec "jobd/exec"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
)

// Running lists what runs. What is sorted by is measured of all jobs before the list is cut.
func (s *Service) Running(_ context.Context, _ Call, q api.RunningQuery) (api.RunningJobs, error) {
	running := s.Worker.Running(q.Targets)
	answer := api.RunningJobs{Jobs: make([]api.RunningJob, len(running)), Total: len(running)}
	for i := range running {
		answer.Jobs[i] = s.runningJob(&running[i])
	}
	api.SortRunning(answer.Jobs, q.Sort, func(j *api.RunningJob) *api.RunningJob { return j })
	answer.Jobs = answer.Jobs[:min(len(answer.Jobs), q.Most)]
	return answer, nil
}

func (s *Service) runningJob(r *jobexec.JobStanding) api.RunningJob {
	j := api.RunningJob{
		Job: jobnet.Whole(r.ID), Target: r.Target, Manual: r.Manual, Attempt: r.Attempt, Since: millis(r.Began),
		PID: r.Started.Pid, Executor: r.Executor.Executor(), Address: r.Started.Address, Adopted: r.Adopted, Cancelled: r.Cancelled,
		MaxAttempts: s.mostAttempts(r.Target, r.Time.Plan), Planned: r.Time.PlannedAt, Deadline: millis(r.Time.Deadline),
		Recurs: r.Time.Recurs(),
	}
	if used := r.Usage; used != nil {
		cpu, ran := used.CPU.Milliseconds(), used.Ran.Milliseconds()
		j.Elapsed, j.CPU, j.Memory, j.Processes = &ran, &cpu, &used.Memory, used.Processes
	}
	return j
}

// Output gives a part of what a job has written: of one that is under way what the runner has, of
// one that has ended what the journal has.
func (s *Service) Output(ctx context.Context, caller Call, q api.OutputQuery) (api.JobOutput, error) {
	from := [2]int64{q.Stdout, q.Stderr}
	answer := api.JobOutput{Job: q.Job, Attempt: q.Attempt, State: api.OutputRunning, Running: true}
	now, found, err := s.Worker.Output(ctx, jobexec.Glance{Job: int64(q.Job), Attempt: q.Attempt, From: from, Most: q.Most})
	switch {
	case err != nil:
		return answer, jobnet.Refusef("job %d runs, but its output can't be shown: %v", q.Job, err)
	case found && !now.Started:
		answer.Attempt, answer.State = now.Attempt, api.OutputClaimed
		return answer, nil
	case found:
		answer.Attempt, answer.Adopted = now.Attempt, now.Adopted
		answer.Stdout, answer.Stderr = partOf(now.Written[0], from[0]), partOf(now.Written[1], from[1])
		return answer, nil
	}
	return s.endedOutput(ctx, caller, q, answer)
}

// endedOutput is the answer about a job that is not under way.
func (s *Service) endedOutput(ctx context.Context, caller Call, q api.OutputQuery, answer api.JobOutput) (api.JobOutput, error) {
	event, attempt, err := s.Process.Ended(ctx, int64(q.Job), caller.Who.Has())
	if err != nil {
		return answer, err
	}
	if answer.Running = false; event == nil || q.Attempt != 0 && q.Attempt != attempt {
		answer.State = api.OutputUnknown
		return answer, nil
	}
	done := event.Payload.(journal.Done)
	answer.Attempt, answer.State = attempt, api.OutputEnded
	answer.Stdout = partOf(jobexec.PartOf(done.Stdout, q.Stdout, q.Most), q.Stdout)
	answer.Stderr = partOf(jobexec.PartOf(done.Stderr, q.Stderr, q.Most), q.Stderr)
	answer.Done = &api.OutputEnd{
		Result: done.Result, Code: done.Code, Reason: done.Reason, Note: done.Note, Ended: done.EndedAt(event.Time).UnixMilli(),
	}
	if done.Signal != "" {
		answer.Done.Signal = &done.Signal
	}
	return answer, nil
}

// partOf is a part of a stream as clients are told, who wanted it from an offset on.
func partOf(p jobexec.Part, from int64) api.OutputPart {
	part := api.OutputPart{At: p.At, Bytes: p.Bytes, Size: p.Size}
	if from >= 0 && p.At > from {
		part.Skipped = p.At - from
	}
	return part
}

// Recycle has the processes replaced that are kept for the jobs of targets, one after the other. It
// does not wait for them.
func (s *Service) Recycle(_ context.Context, from Call, t api.Targets) (done api.Done, err error) {
	err = s.Worker.Recycle(t.Targets, "asked for by "+from.From)
	return done, s.judge(api.Recycle.Name, from, inOne(err))
}

// inOne is one refusal for several that are joined.
func inOne(err error) error {
	var refused jobexec.RefusedError
	if _, joined := err.(interface{ Unwrap() []error }); !joined || !errors.As(err, &refused) {
		return err
	}
	return jobexec.RefusedError(strings.ReplaceAll(err.Error(), "\n", "; "))
}

// executors are what clients are told of those that run jobs otherwise than in a process for each.
func executors(of []jobexec.PoolStanding) (all []api.ExecutorStatus) {
	for _, s := range of {
		all = append(all, api.ExecutorStatus{
			Target: s.Target, Mode: string(s.Mode), Slots: s.Slots, Sent: s.Address,
			Processes: s.Processes, Booting: s.Booting, Ready: s.Ready, Busy: s.Busy,
			Boots: s.Boots, Jobs: s.Jobs, Recycled: s.Recycled, Unready: s.Unready, Failing: s.Failing, Since: s.Since,
			Stranger: s.Stranger, StrangerAt: s.StrangerAt, Old: s.Old,
		})
	}
	return all
}
