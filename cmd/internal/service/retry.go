package service

import (
	"context"

	jobexec "jobd/exec"
	jobnet "jobd/net"
	"jobd/net/contract"
)

// Retry sets rows that are done or ignored back, to be run once more.
func (s *Service) Retry(ctx context.Context, from Call, q contract.RetryRows) (told contract.RetriedRows, err error) {
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
		return told, s.judge(contract.Retry.Name, from, err)
	}
	if len(answer.Jobs) == 0 && len(answer.Errors) > 0 {
		s.Refusals.add(contract.Retry.Name, from, firstOf(answer.Errors))
	}
	told.Jobs, told.Errors = make(map[jobnet.Whole]string, len(answer.Jobs)), make(map[jobnet.Whole]string, len(answer.Errors))
	for id, to := range answer.Jobs {
		told.Jobs[jobnet.Whole(id)] = to
	}
	for id, text := range answer.Errors {
		told.Errors[jobnet.Whole(id)] = text
	}
	return told, nil
}
