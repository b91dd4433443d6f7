package exec

import (
	"time"

	"jobd/exec/board"
)

// Hitch is what clients are told of why no job can be started.
type Hitch struct {
	Broken string    `json:"broken"`
	Since  time.Time `json:"since"`
}

// hitchStatus is what clients are told. Callers must hold w.mu.
func (w *Worker) hitchStatus() *Hitch {
	h := w.board.Hitch()
	if h == nil {
		return nil
	}
	return &Hitch{Broken: h.Text(), Since: h.Since()}
}

// examine looks at the launcher. Of a file system that hangs it waits.
func (w *Worker) examine(how board.Examine) {
	w.mu.Lock()
	h, launcher := w.board.Looking(), w.launcher
	w.mu.Unlock()
	if h != nil {
		err := launcher.Check()
		w.change(func(b *board.Board) board.Effects { return b.Looked(h, how, err, time.Now()) })
	}
}

// whyNoStart looks at the launcher for a client, and says why its jobs can't be run; "" where they
// are to be tried.
func (w *Worker) whyNoStart() (why string) {
	w.mu.Lock()
	h, launcher := w.board.Hitch(), w.launcher
	w.mu.Unlock()
	if h != nil {
		err := launcher.Check()
		w.change(func(b *board.Board) (e board.Effects) {
			why, e = b.LookedFor(h, err, time.Now())
			return e
		})
	}
	return why
}

// probeRoom has one row claimed, of a target that could start it at once, where a job is to tell
// whether any can be started; and none where it does so, or it is too early.
func (w *Worker) probeRoom(room map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.board.Hitch() == nil {
		return
	}
	probe := ""
	for name := range room {
		if t := w.targets[name]; t != nil && w.board.Probes(t.Target) {
			probe = name
		}
	}
	clear(room)
	if probe != "" {
		room[probe] = 1
	}
}
