package exec

import (
	"context"
	"slices"
	"time"

	"jobd/exec/board"
)

// How long a target waits until it looks again for rows that somebody else's lock has hidden.
const (
	firstLook = 50 * time.Millisecond
	longLook  = time.Second
)

// lookFor asks whether rows still wait of targets for which a claim came back short. It found none
// that it could lock; but somebody may hold some: a connection of a dead worker that the server has
// not noticed yet, a transaction of the application. Those targets look again, until no row waits.
func (w *Worker) lookFor(ctx context.Context, short []string) error {
	if len(short) == 0 {
		return nil
	}
	w.mu.Lock()
	room := make(map[string]int, len(short))
	for _, name := range short {
		room[name] = 1
	}
	except := w.except(room)
	w.mu.Unlock()
	left, err := w.Table.Waiting(ctx, short, except)
	if concernsAll(ctx, err) {
		return err
	}
	w.noteLeft(short, left, err)
	return w.askDue(ctx, short, except)
}

// noteLeft has those targets look again of which rows wait, or which could not be asked for.
func (w *Worker) noteLeft(short, left []string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range short {
		t, served := w.targets[name]
		switch {
		case !served:
		case err != nil || slices.Contains(left, name):
			t.look.Grow(time.Now(), firstLook, longLook)
			t.locked.note(err, time.Now())
		default:
			t.look, t.locked = board.Backoff{}, locked{}
		}
	}
}
