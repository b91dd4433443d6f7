package service

import (
	"context"

	"jobd/net/api"
)

// RunNow makes delayed rows due at once.
func (s *Service) RunNow(ctx context.Context, from Call, q api.RunNowRows) (told api.RanNow, err error) {
	ids := make([]int64, len(q.IDs))
	for i, id := range q.IDs {
		ids[i] = int64(id)
	}
	answer, err := s.Worker.RunNow(ctx, ids, from.From.String())
	if err != nil {
		return told, s.judge(api.RunNow.Name, from, err)
	}
	if len(answer.Jobs) == 0 && len(answer.Errors) > 0 {
		s.Refusals.add(api.RunNow.Name, from, firstOf(answer.Errors))
	}
	told.Jobs, told.Errors = byID(answer.Jobs), byID(answer.Errors)
	return told, nil
}
