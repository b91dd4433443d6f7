package main

import (
	"log/slog"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/metrics"
	"jobd/cmd/internal/pulse"
	"jobd/cmd/internal/version"
	"jobd/cmd/internal/web"
	"jobd/master"
	jobnet "jobd/net"
	"jobd/net/api"
)

// openWeb takes the address where the master tells of itself over HTTP, if there is one, and gives its
// handlers, whose requests are counted.
func openWeb(
	at conf.HTTP, workers *master.Master, troubles func() []api.NotReady, beat *pulse.Pulse, log *slog.Logger,
) (server *web.Server, handlers map[string]jobnet.Handler, err error) {
	counting := metrics.NewMaster(version.Of())
	handlers = counting.Count(workers.Handlers())
	routes := web.Routes{
		Program: "jobd-master", Metrics: counting.Handler(workers.Standing, troubles),
		Health: web.Loops(beat), Ready: func() []api.NotReady { return ready(workers) },
	}
	server, err = web.Listen(at, routes.Handler(), log)
	return server, handlers, err
}

// ready says why jobs can't reach anybody through this master.
func ready(workers *master.Master) []api.NotReady {
	if workers.Standing().Workers == 0 {
		return []api.NotReady{{What: "workers", Why: "none is registered"}}
	}
	return nil
}
