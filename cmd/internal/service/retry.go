package service

import (
	"context"

	jobexec "jobd/exec"
	jobnet "jobd/net"
	"jobd/net/api"
)

// Retry sets rows that are done or ignored back, to be run once more.
func (s *Service) Retry(ctx context.Context, from Call, q api.RetryRows) (told api.RetriedRows, err error) {
	wish := jobexec.RetryWish{
		IDs: make([]int64, len(q.IDs)), Finished: make(map[int64]int64, len(q.Finished)), To: make(map[int64]string, len(q.To)),
		By: from.From.String(),
	}
	for i, id := range q.IDs {
		wish.IDs[i] = int64(id)
	}
	for id, at := range q.Finished {
		wish.Finished[int64(id)] = at
	}
	for id, to := range q.To {
		wish.To[int64(id)] = to
	}
	answer, err := s.Worker.SetBack(ctx, wish)
	if err != nil {
		return told, s.judge(api.Retry.Name, from, err)
	}
	if len(answer.Jobs) == 0 && len(answer.Errors) > 0 {
		s.Refusals.add(api.Retry.Name, from, firstOf(answer.Errors))
	}
	told.Jobs, told.Errors = byID(answer.Jobs), byID(answer.Errors)
	return told, nil
}

// byID is what is told of jobs, under their ids as the wire has them.
func byID[V any](of map[int64]V) map[jobnet.Whole]V {
	told := make(map[jobnet.Whole]V, len(of))
	for id, what := range of {
		told[jobnet.Whole(id)] = what
	}
	return told
}
