package service

import (
	"context"

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
	told.Jobs, told.Errors = byID(answer.Jobs), byID(answer.Errors)
	return told, nil
}
