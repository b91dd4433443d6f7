package exec

// endRequests waits for jobs that are requests, which end with the worker: nobody can take over a
// connection. It waits as for all jobs of a worker that stops (Config.ShutdownTimeout); of what is
// left then the outcome is unknown, as the next start finds.
func (w *Worker) endRequests() {
	moves := w.requestMoves()
	if len(moves) == 0 {
		return
	}
	w.Logger.Info("waiting for requests, which end with this process", "jobs", len(moves))
	ended := make(chan struct{})
	w.others.Go(func() {
		for moves := moves; len(moves) > 0; moves = w.requestMoves() {
			select {
			case <-moves[0]:
			case <-w.turned:
				return
			}
		}
		close(ended)
	})
	if !w.within(ended, w.ShutdownTimeout) {
		w.Logger.Warn("requests are given up; the outcome of their jobs is unknown", "jobs", len(w.requestMoves()))
	}
}

// requestMoves gives a channel for each job that is a request and under way, which is closed when
// the job moves on.
func (w *Worker) requestMoves() []<-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.board.MovesOf(func(executor string) bool { return Mode(executor).Requests() })
}
