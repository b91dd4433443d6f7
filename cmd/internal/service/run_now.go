package service

import (
	"context"

	jobnet "jobd/net"
	"jobd/net/contract"
)

// Hastener makes delayed rows due: an exec.Worker. It tells of each row when it was due before, in
// unix seconds, or why it was left as it is. It fails, without having changed anything, when it
// stops.
type Hastener interface {
	RunNow(ctx context.Context, ids []int64, by string) (due map[int64]int64, refused map[int64]string, err error)
}

// RunNow makes delayed rows due at once.
func (s *Service) RunNow(ctx context.Context, from Call, q contract.RunNowRows) (told contract.RanNow, err error) {
	if s.Hastener == nil {
		return told, jobnet.Refusal("this version can't make rows due")
	}
	ids := make([]int64, len(q.IDs))
	for i, id := range q.IDs {
		ids[i] = int64(id)
	}
	due, refused, err := s.Hastener.RunNow(ctx, ids, from.From.String())
	if err != nil {
		return told, s.judge(contract.RunNow.Name, from, err)
	}
	if len(due) == 0 && len(refused) > 0 {
		s.Refusals.add(contract.RunNow.Name, from, firstOf(refused))
	}
	told.Jobs, told.Errors = make(map[jobnet.Whole]int64, len(due)), make(map[jobnet.Whole]string, len(refused))
	for id, was := range due {
		told.Jobs[jobnet.Whole(id)] = was
	}
	for id, text := range refused {
		told.Errors[jobnet.Whole(id)] = text
	}
	return told, nil
}
