package main

import (
	"log/slog"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/daemon"
	"jobd/cmd/internal/metrics"
	"jobd/cmd/internal/pulse"
	"jobd/cmd/internal/version"
	"jobd/cmd/internal/web"
	"jobd/master"
	jobnet "jobd/net"
	"jobd/net/api"
)

// webPart is where the master tells of itself over HTTP.
type webPart struct {
	server   *web.Server               // nil: there is none
	handlers map[string]jobnet.Handler // of the master's requests
}

// openWeb takes the address, if there is one; the master's requests are counted then.
func openWeb(at conf.HTTP, workers *master.Master, beat *pulse.Pulse, log *slog.Logger) (p webPart, err error) {
	p.handlers = workers.Handlers()
	if !at.On() {
		return p, nil
	}
	counting := metrics.NewMaster(version.Of())
	p.handlers = counting.Count(p.handlers)
	routes := web.Routes{
		Program: "jobd-master", Metrics: counting.Handler(workers.Standing),
		Health: web.Loops(beat), Ready: func() []api.NotReady { return ready(workers) },
	}
	if p.server, err = web.Listen(at, routes.Handler(), log); err == nil {
		log.Info("metrics are served", "address", p.server.Address())
	}
	return p, err
}

func (p webPart) actors() []daemon.Actor {
	if p.server == nil {
		return nil
	}
	return []daemon.Actor{p.server.Serve}
}

func (p webPart) close() error {
	if p.server == nil {
		return nil
	}
	return p.server.Close()
}

// ready says why jobs can't reach anybody through this master.
func ready(workers *master.Master) []api.NotReady {
	if workers.Standing().Workers == 0 {
		return []api.NotReady{{What: "workers", Why: "none is registered"}}
	}
	return nil
}
