package exec

import (
	"context"
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// resolve asks the table which of the claims in doubt were won, and gives up the others. Rows that
// somebody holds stay in doubt and hold up nothing else.
func (w *Worker) resolve(ctx context.Context) error {
	w.mu.Lock()
	ids := w.board.DueDoubts(time.Now())
	w.mu.Unlock()
	if len(ids) > 0 {
		rows, locked, err := w.Table.Rows(ctx, ids)
		w.change(func(b *board.Board) board.Effects { return b.Judge(ids, rows, locked, err == nil, time.Now()) })
		if concernsAll(ctx, err) {
			return err
		}
	}
	return w.giveUp()
}

// giveUp journals that claims were not won: together, or one by one where the mirror has found some
// of them lost already.
func (w *Worker) giveUp() error {
	w.mu.Lock()
	lost := w.board.LostDoubts()
	w.mu.Unlock()
	if len(lost) == 0 {
		return nil
	}
	groups := [][]journal.Draft{lost}
	for len(groups) > 0 {
		group := groups[0]
		groups = groups[1:]
		_, err := w.append(group...)
		if illegal(err) != nil && len(group) > 1 {
			for _, d := range group {
				groups = append(groups, []journal.Draft{d})
			}
			continue
		}
		if err != nil && illegal(err) == nil {
			return err
		}
		w.change(func(b *board.Board) board.Effects { return b.GivenUp(group) })
	}
	return nil
}
