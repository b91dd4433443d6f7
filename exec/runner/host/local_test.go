package host

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"jobd/exec/runner/wire"
	"jobd/journal"
	"jobd/store/storetest/must"
	"jobd/store/storetest/stall"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTestLocal(t *testing.T) *reactor {
	t.Helper()
	return newLocalWith(t, func(*reactor) {})
}

// newLocalWith has a reactor changed before it runs.
func newLocalWith(t *testing.T, change func(*reactor)) *reactor {
	t.Helper()
	stall.Limit(t)
	l := must.Get(newReactor(&witness{of: make(map[*job]watched)}, newTestSpool(t)))(t)
	change(l)
	returned := make(chan error)
	go func() { returned <- l.run() }()
	t.Cleanup(func() {
		l.stop()
		if err := <-returned; err != nil {
			t.Error(err)
		}
	})
	return l
}

func script(text string) spec {
	return spec{argv: []string{"/bin/sh", "-c", text}, env: os.Environ(), maxOutput: 1 << 20}
}

// watched is a job that can be waited for.
type watched struct {
	*job
	isBegun, isEnded chan struct{}
}

// witness is a watcher for those who wait.
type witness struct {
	mu      sync.Mutex
	of      map[*job]watched
	refusal refusedError
}

// prepare makes a job that can be waited for, and is not started.
func prepare(l *reactor, what spec) watched {
	w := watched{newJob(wire.ID{}, what), make(chan struct{}), make(chan struct{})}
	all := l.watcher.(*witness)
	all.mu.Lock()
	defer all.mu.Unlock()
	all.of[w.job] = w
	return w
}

func (all *witness) get(j *job) watched {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.of[j]
}

func (all *witness) begun(j *job) { close(all.get(j).isBegun) }

func (all *witness) ended(j *job) { close(all.get(j).isEnded) }

func (all *witness) refused(_ *job, text string, class wire.Class) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.refusal = refusedError{text, class}
}

func (all *witness) tell(wire.Message) bool { return false }

// try starts a job, and gives why that was refused.
func try(l *reactor, what spec) (w watched, refusal refusedError) {
	w = prepare(l, what)
	l.start(w.job)
	all := l.watcher.(*witness)
	all.mu.Lock()
	defer all.mu.Unlock()
	return w, all.refusal
}

func launch(t *testing.T, l *reactor, what spec) watched {
	t.Helper()
	w, refusal := try(l, what)
	if refusal.text != "" {
		t.Fatal(refusal.text)
	}
	return w
}

// wait waits for the end of a process.
func (w watched) wait() journal.Done {
	<-w.isEnded
	return w.done
}

func run(t *testing.T, l *reactor, what spec) journal.Done {
	t.Helper()
	return launch(t, l, what).wait()
}

// isClosed tells whether a channel that carries nothing is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func newTestSpool(t testing.TB) *spool {
	t.Helper()
	s := newSpool(filepath.Join(t.TempDir(), "output"))
	t.Cleanup(s.close)
	return s
}
