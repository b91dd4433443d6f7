package service

import (
	"context"

	jobnet "jobd/net"
	"jobd/net/contract"
)

// RunNow makes delayed rows due at once.
func (s *Service) RunNow(ctx context.Context, from Call, q contract.RunNowRows) (told contract.RanNow, err error) {
	ids := make([]int64, len(q.IDs))
	for i, id := range q.IDs {
		ids[i] = int64(id)
	}
	answer, err := s.Worker.RunNow(ctx, ids, from.From.String())
	if err != nil {
		return told, s.judge(contract.RunNow.Name, from, err)
	}
	if len(answer.Jobs) == 0 && len(answer.Errors) > 0 {
		s.Refusals.add(contract.RunNow.Name, from, firstOf(answer.Errors))
	}
	told.Jobs, told.Errors = make(map[jobnet.Whole]int64, len(answer.Jobs)), make(map[jobnet.Whole]string, len(answer.Errors))
	for id, was := range answer.Jobs {
		told.Jobs[jobnet.Whole(id)] = was
	}
	for id, text := range answer.Errors {
		told.Errors[jobnet.Whole(id)] = text
	}
	return told, nil
}
