package host

import (
	"errors"
	"fmt"
)

// local starts jobs as children of this process. Nothing is learned of them unless run runs.
type local struct {
	spawner *spawner
	reactor *reactor
	pools   *pools
}

// newLocal makes a local. It calls flush when what watchers have noted may be sent together.
func newLocal(flush func()) (*local, error) {
	spawner, err := newSpawner()
	if err != nil {
		return nil, fmt.Errorf("start runner: %w", err)
	}
	reactor, err := newReactor(flush)
	if err != nil {
		return nil, fmt.Errorf("start runner: %w", errors.Join(err, spawner.close()))
	}
	pools, err := newPools(spawner, reactor)
	if err != nil {
		return nil, fmt.Errorf("start runner: %w", errors.Join(err, reactor.close(), spawner.close()))
	}
	return &local{spawner, reactor, pools}, nil
}

// start starts a process. Its watcher hears of it from then on, perhaps before start has returned.
// An error is a *refusedError.
func (l *local) start(what spec, w watcher) (*child, error) {
	c, err := l.spawner.spawn(what, w)
	if err != nil {
		return nil, err
	}
	l.reactor.watch(c)
	return c, nil
}

// run watches the jobs until close, and closes what they share.
func (l *local) run() error { return errors.Join(l.reactor.run(), l.spawner.close()) }

// close makes run return; processes run on.
func (l *local) close() { l.reactor.stop() }
