package host

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"jobd/exec/runner/wire"
	"jobd/journal"
	"jobd/store/storetest/stall"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTestLocal(t *testing.T) *reactor {
	t.Helper()
	return newLocalWith(t, func(*reactor) {})
}

// newLocalWith has a local changed before it runs.
func newLocalWith(t *testing.T, change func(*reactor)) *reactor {
	t.Helper()
	stall.Limit(t)
	l, err := newReactor()
	if err != nil {
		t.Fatal(err)
	}
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

// watched is a child that can be waited for.
type watched struct {
	*child
	isBegun, isEnded chan struct{}
}

func newWatched() watched {
	return watched{isBegun: make(chan struct{}), isEnded: make(chan struct{})}
}

func (w watched) begun(*child) { close(w.isBegun) }

func (w watched) grown(*child) {}

func (w watched) wrote(*child) {}

func (w watched) ended(*child) { close(w.isEnded) }

func (w watched) refused(string, wire.Class) {}

func launch(t *testing.T, l *reactor, what spec) watched {
	t.Helper()
	w := newWatched()
	c, err := l.start(what, w)
	if err != nil {
		t.Fatal(err)
	}
	w.child = c
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

func newTestSpool(t *testing.T) *spool {
	t.Helper()
	s := newSpool(filepath.Join(t.TempDir(), "output"))
	t.Cleanup(s.close)
	return s
}
