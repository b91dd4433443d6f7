package exec

// seen takes in how far the mirror has come, before targets are asked for their room.
func (w *Worker) seen(upTo uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.board.Seen(upTo)
	w.awaitTable()
}

// awaitTable has the claim loop look again when the table shows the ends that targets wait for with
// their claims. One goroutine waits at a time. Callers must hold w.mu.
func (w *Worker) awaitTable() {
	seq := w.board.Awaited()
	if seq == 0 || w.awaiting {
		return
	}
	w.awaiting = true
	w.others.Go(func() {
		select {
		case <-w.Mirror.Tried(seq):
		case <-w.active.Done():
			return
		}
		w.mu.Lock()
		w.awaiting = false
		w.mu.Unlock()
		w.wake()
	})
}
