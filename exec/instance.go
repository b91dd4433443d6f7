package exec

// instance names the runner that is to start jobs; "" where it can't be had at the moment. Then
// there will be a turn when it is to be tried again.
func (w *Worker) instance() string {
	if w.runnerPause != nil {
		select {
		case <-w.runnerPause:
			w.runnerPause = nil
		default:
			return ""
		}
	}
	name, err := w.Keeper.Instance()
	if err == nil {
		if w.runnerRetry != nil {
			w.runnerRetry.Over()
			w.runnerRetry = nil
		}
		return name
	}
	if w.runnerRetry == nil {
		w.runnerRetry = w.Retry("start the runner")
	}
	pause := make(chan struct{})
	w.runnerPause = pause
	w.others.Go(func() {
		if w.pause(w.runnerRetry, err) {
			close(pause)
			w.nudgeTurn()
		}
	})
	return ""
}
