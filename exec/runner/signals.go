package runner

import (
	"errors"
	"os"
	"time"

	"jobd/exec/runner/wire"
)

// signalTimeout is how long a signal waits for a runner that stands still.
const signalTimeout = 5 * time.Second

// signalled is a signal that the runner was asked for.
type signalled struct {
	answer chan string // receives once; "": it was sent
	asked  time.Time
}

// signal asks for a signal and waits for what became of it, but not for long. A runner that has not
// answered for that long is not asked for more: what it was asked for already it may still do.
func (l *link) signal(id wire.ID, signo int) error {
	wanted := signalled{make(chan string, 1), time.Now()}
	l.mu.Lock()
	if !l.alive() {
		l.mu.Unlock()
		return os.ErrProcessDone
	}
	if len(l.signals) > 0 && time.Since(l.signals[0].asked) >= signalTimeout {
		l.mu.Unlock()
		return errSilent
	}
	l.signals = append(l.signals, wanted)
	l.post(wire.Message{Kind: wire.Signal, ID: id, Signo: signo})
	l.mu.Unlock()
	late := time.NewTimer(signalTimeout)
	defer late.Stop()
	select {
	case text := <-wanted.answer:
		if text != "" {
			return errors.New(text)
		}
		return nil
	case <-late.C:
		l.logger.Warn("the runner does not answer; it may still send a signal", "job", id.Job, "signal", signo)
		return errSilent
	}
}
