package service

import (
	"context"

	jobexec "jobd/exec"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
)

// Output gives a part of what a job has written: of one that is under way what the runner has, of
// one that has ended what the journal has.
func (s *Service) Output(ctx context.Context, _ Call, q api.OutputQuery) (api.JobOutput, error) {
	from := [2]int64{q.Stdout, q.Stderr}
	answer := api.JobOutput{Job: q.Job, Attempt: q.Attempt, State: api.OutputRunning, Running: true}
	now, found, err := s.Worker.Output(ctx, jobexec.Glance{Job: int64(q.Job), Attempt: q.Attempt, From: from, Most: q.Most})
	switch {
	case err != nil:
		return answer, jobnet.Refusef("job %d runs, but its output can't be told: %v", q.Job, err)
	case found && !now.Started:
		answer.Attempt, answer.State = now.Attempt, api.OutputClaimed
		return answer, nil
	case found:
		answer.Attempt, answer.Adopted = now.Attempt, now.Adopted
		answer.Stdout, answer.Stderr = partOf(now.Written[0], from[0]), partOf(now.Written[1], from[1])
		return answer, nil
	}
	return s.endedOutput(ctx, q, answer)
}

// endedOutput is the answer about a job that is not under way.
func (s *Service) endedOutput(ctx context.Context, q api.OutputQuery, answer api.JobOutput) (api.JobOutput, error) {
	event, attempt, err := s.Process.Ended(ctx, int64(q.Job))
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
