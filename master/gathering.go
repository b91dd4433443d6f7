package master

import "sync"

// Names of targets are kept up to this many, and this many bytes of them; beyond it the oldest are
// forgotten.
const (
	maxRemembered      = 10_000
	maxRememberedBytes = 1 << 20
)

// gathering collects targets until somebody takes them. It is safe for concurrent use.
type gathering struct {
	nudge chan struct{} // holds a token while there may be something to take

	mu      sync.Mutex
	targets names
}

func newGathering() *gathering { return &gathering{nudge: make(chan struct{}, 1)} }

// add never blocks. It tells how many older targets were forgotten for the new ones.
func (g *gathering) add(targets []string) (forgotten int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.targets.add(targets)
	forgotten = len(g.targets.trim(maxRemembered, maxRememberedBytes))
	if len(g.targets.list) > 0 {
		select {
		case g.nudge <- struct{}{}:
		default:
		}
	}
	return forgotten
}

// take empties the gathering; nil where it is empty.
func (g *gathering) take() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.targets.takeAll()
}

func (g *gathering) empty() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.targets.list) == 0
}
