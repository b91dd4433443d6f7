package exec

import (
	"context"
	"fmt"

	"jobd/exec/board"
	"jobd/journal"
)

// Open journals the start and takes up what a former run left. It comes before Run, and before
// anything is served.
func (w *Worker) Open(pid int) error {
	w.Recorder.View(func(s *journal.State) { w.fresh = s.Name == "" })
	opened := journal.Opened{
		Name: w.Name, Version: w.Version, Pid: pid, BootID: w.BootID, Targets: w.Targets,
		Host: w.Host, Launcher: w.Launcher.Words, Launchers: LaunchersOf(w.Config.Terms),
	}
	var ignored []int64
	var retried map[int64]journal.Retried
	if w.Doubtful != nil {
		ignored, retried = w.Doubtful()
	}
	if _, err := w.Recorder.Append(journal.Draft{Payload: opened}); err != nil {
		return fmt.Errorf("open worker %s: %w", w.Name, err)
	}
	w.declare()
	return w.recover(ignored, retried)
}

// Run claims and runs jobs until ctx ends. Then it claims nothing more, gives back what has not
// started, and returns when what runs has ended (see Config.ShutdownTimeout). It fails when the
// journal does.
func (w *Worker) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.whole, cancel)()
	turning, endTurns := context.WithCancel(context.Background())
	w.others.Go(func() { w.turnLoop(turning) })
	w.PollAll()
	w.claimLoop(ctx)
	w.drain()
	endTurns()
	<-w.turned
	if err := w.err(); err != nil {
		return err
	}
	return w.journalEnd()
}

// Hurry makes a worker that stops kill what runs at once. It may be called more than once.
func (w *Worker) Hurry() { w.endPatient() }

// SetLauncher makes jobs started from now on use another launcher. Where none could be started, it
// is looked at at once.
func (w *Worker) SetLauncher(l Launcher) {
	defer w.declare()
	w.change(func(b *board.Board) board.Effects {
		w.launcher = l
		w.follow(b.SetTiming(w.timing()))
		return b.NewLauncher()
	})
}

// HandOver makes a worker that stops, or will be, leave what runs to the next start.
func (w *Worker) HandOver() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handover = true
}

// handsOver tells whether what runs is left to the next start.
func (w *Worker) handsOver() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.handover
}

// closing is why the run of the worker ends.
func (w *Worker) closing() string {
	if w.handsOver() {
		return "handed over"
	}
	return "stopped"
}
