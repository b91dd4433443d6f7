package exec

// Pulse hears from one loop that a piece of work begins, which takes no longer than memory does, or
// that the loop waits: for something to do, or for anything outside, which may take any time. The
// methods must not block.
type Pulse interface {
	Works()
	Waits()
}

// unwatched is the pulse of a loop that nobody watches.
type unwatched struct{}

// Works implements Pulse.
func (unwatched) Works() {}

// Waits implements Pulse.
func (unwatched) Waits() {}

// watched is the pulse of a loop, whether anybody watches it or not.
func watched(p Pulse) Pulse {
	if p == nil {
		return unwatched{}
	}
	return p
}

// works tells a loop's pulse of a piece of work.
func works(p Pulse, work func()) {
	p.Works()
	defer p.Waits()
	work()
}

// Knock makes the turn loop and the claim loop go round once, with a look at what they share, and
// do nothing else: one that can't any more is seen by its pulse. It does not block.
func (w *Worker) Knock() {
	for _, knock := range []chan struct{}{w.turnKnock, w.claimKnock} {
		select {
		case knock <- struct{}{}:
		default:
		}
	}
}

// comeRound is all that a loop does that was knocked at.
func (w *Worker) comeRound(p Pulse) {
	works(p, func() { _ = w.err() })
}
