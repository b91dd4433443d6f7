package main

import (
	"log/slog"
	"os"

	"jobd/cmd/internal/daemon"
	"jobd/cmd/internal/metrics"
	"jobd/cmd/internal/operator"
	"jobd/cmd/internal/page"
	"jobd/cmd/internal/pulse"
	"jobd/cmd/internal/web"
	"jobd/master"
	"jobd/net/api"
	"jobd/net/principal"
)

// openWeb takes the address where the master answers over HTTP, if there is one.
func openWeb(
	c config, server *daemon.Server, counting *metrics.Master, workers *master.Master, troubles func() []api.NotReady, beat *pulse.Pulse, log *slog.Logger,
) (*web.Server, error) {
	routes := web.Routes{
		Program: "jobd-master", Metrics: counting.Handler(workers.Standing, troubles),
		Health: web.Loops(beat), Ready: func() []api.NotReady { return ready(workers) },
	}
	host, _ := os.Hostname()
	routes.Page = page.New(page.Config{
		Name: host, Master: true, ReadOnly: c.HTTP.ReadOnly, Log: log,
		Open: func(s *principal.Session) *operator.Daemon { return server.As(s, true) },
	})
	return web.Listen(c.HTTP, routes, server.Who(c.journal.Dir), log)
}

// ready says why jobs can't reach anybody through this master.
func ready(workers *master.Master) []api.NotReady {
	if workers.Standing().Workers == 0 {
		return []api.NotReady{{What: "workers", Why: "none is registered"}}
	}
	return nil
}
