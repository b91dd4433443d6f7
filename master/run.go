package master

import (
	"context"
	"log/slog"
	"time"

	jobnet "jobd/net"
	"jobd/net/contract"
)

// Handlers are the requests that the master's server answers.
func (m *Master) Handlers() map[string]jobnet.Handler {
	handlers := map[string]jobnet.Handler{
		contract.Register.Name:       m.register,
		contract.Poke.Name:           m.poke,
		contract.MasterPause.Name:    m.pause,
		contract.MasterContinue.Name: m.pause, // asks the workers for what it was asked itself
		contract.MasterRecycle.Name:  m.pause,
		contract.MasterStatus.Name:   m.status,
		contract.RouteManual.Name:    m.runManual,
		contract.RouteSignal.Name:    m.sendSignal,
		contract.Lend.Name:           m.lend,
	}
	for _, typ := range contract.JournalRequests {
		handlers[typ] = m.relay
	}
	for _, typ := range contract.OperatorRequests {
		handlers[typ] = m.relay
	}
	for typ := range changing {
		handlers[typ] = m.told(handlers[typ])
	}
	return handlers
}

// Run looks after the workers until ctx ends: it sends what they are poked for, pings them and
// drops the dead ones. It ends with a last delivery of the pokes that were acknowledged, and
// returns nil.
func (m *Master) Run(ctx context.Context) error {
	defer close(m.ended)
	defer m.tasks.Wait()
	attended := make(map[*worker]bool)
	left := make(chan *worker)
	poked := m.pokes.nudge
	var gathered <-chan time.Time // when poked is listened to again
	for {
		select {
		case w := <-m.registered:
			if !attended[w] {
				attended[w] = true
				m.tasks.Go(func() { m.attend(ctx, w, left) })
			}
			m.works(func() { m.recall(ctx, w) })
		case w := <-left:
			delete(attended, w)
		case <-poked:
			m.works(func() { m.deliver(ctx) })
			if m.config.PokeThrottle > 0 {
				poked, gathered = nil, time.After(m.config.PokeThrottle)
			}
		case <-gathered:
			poked, gathered = m.pokes.nudge, nil
		case <-ctx.Done():
			m.deliver(ctx)
			return nil
		}
	}
}

// works tells the pulse of a piece of work.
func (m *Master) works(work func()) {
	if m.config.Pulse != nil {
		m.config.Pulse.Works()
		defer m.config.Pulse.Waits()
	}
	work()
}

// attend keeps a worker's link alive and takes the worker out of the registry when it has ended.
func (m *Master) attend(ctx context.Context, w *worker, left chan<- *worker) {
	err := w.link.KeepAlive(ctx, m.config.PingInterval)
	if ctx.Err() != nil {
		return
	}
	m.registry.remove(w)
	m.say(slog.LevelInfo, w.link, "worker left", "worker", w.name(), "reason", cut(err.Error()))
	select {
	case left <- w:
	case <-ctx.Done():
	}
}
