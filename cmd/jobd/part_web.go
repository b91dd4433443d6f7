package main

import (
	"context"
	"time"

	"jobd/cmd/internal/check"
	"jobd/cmd/internal/metrics"
	"jobd/cmd/internal/service"
	"jobd/cmd/internal/web"
	"jobd/net/api"
)

// openWeb takes the address where the worker tells of itself over HTTP; nil where it is to tell
// nobody.
func (r *root) openWeb(d *daemon) (*web.Server, error) {
	if r.metrics == nil {
		return nil, nil
	}
	routes := web.Routes{
		Program: program, Health: web.Loops(r.pulse), Ready: d.ready,
		Metrics: r.metrics.Handler(metrics.Sources{
			Now: d.now,
			Waiting: func(ctx context.Context, targets []string) (api.WaitingRows, error) {
				return d.service.Waiting(ctx, service.Call{}, api.WaitingQuery{Targets: targets})
			},
		}),
	}
	server, err := web.Listen(r.HTTP, routes.Handler(), r.log)
	if err == nil {
		r.log.Info("metrics are served", "address", server.Address())
	}
	return server, err
}

// oldestTimeout bounds the look for the oldest event that the table was not shown.
const oldestTimeout = time.Second

// now is how the worker stands, for a scrape.
func (d *daemon) now() (now metrics.Now) {
	now.Status, _ = d.service.Status(context.Background(), service.Call{}, api.None{})
	reached, newest := d.mirror.Reached(), d.newest()
	if newest > reached {
		now.Unshown = newest - reached
		ctx, cancel := context.WithTimeout(context.Background(), oldestTimeout)
		defer cancel()
		if events, err := d.journal.Next(ctx, reached, 1); err == nil && len(events) > 0 {
			now.UnshownFrom = events[0].Time
		}
	}
	now.Outages, now.RunnerLinks = d.mirror.Outages(), d.runner.Standing().Links
	if free, total, err := check.Free(d.journalDir); err == nil {
		now.Free, now.Total = free, total
	}
	return now
}

// ready says why the worker may not take work at the moment.
func (d *daemon) ready() []api.NotReady {
	status, err := d.service.Status(context.Background(), service.Call{}, api.None{})
	if err != nil {
		return []api.NotReady{{What: "status", Why: err.Error()}}
	}
	return status.NotReady
}
