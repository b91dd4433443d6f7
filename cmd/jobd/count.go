package main

import (
	"time"

	"jobd/cmd/internal/metrics"
	"jobd/cmd/internal/version"
	jobexec "jobd/exec"
	"jobd/journal"
	jobnet "jobd/net"
)

// counting counts what happens to jobs, and what is journalled.
type counting struct{ metrics *metrics.Worker }

// JobStarted implements jobexec.Observer.
func (c counting) JobStarted(target string, waited time.Duration) {
	c.metrics.JobStarted(target, waited)
}

// JobEnded implements jobexec.Observer.
func (c counting) JobEnded(target string, done journal.Done) {
	c.metrics.JobEnded(target, metrics.End{
		OK: done.Result == "ok", Ran: time.Duration(done.Elapsed) * time.Microsecond,
		TimedOut: done.Timeout > 0, Cancelled: done.WasCancelled(),
		Retried: done.Again != nil && done.Again.Why == journal.AgainRetry,
	})
}

// Claimed implements jobexec.Observer.
func (c counting) Claimed(took time.Duration, err error) { c.metrics.Claimed(took, err == nil) }

// committed hears of a commit of the journal.
func (c counting) committed(events []journal.Event, bytes int64, took time.Duration) {
	c.metrics.Committed(bytes, took)
	for _, e := range events {
		c.metrics.Journalled(string(e.Kind()))
	}
}

// count has counted what the worker does, where anybody is told.
func (r *root) count() {
	if !r.HTTP.On() {
		return
	}
	var kinds []string
	for _, kind := range journal.Kinds() {
		kinds = append(kinds, string(kind))
	}
	r.metrics = metrics.NewWorker(version.Of(), kinds)
}

// observer counts what happens to jobs; nil where nobody counts.
func (r *root) observer() jobexec.Observer {
	if r.metrics == nil {
		return nil
	}
	return counting{r.metrics}
}

// committed counts commits of the journal; nil where nobody counts.
func (r *root) committed() func([]journal.Event, int64, time.Duration) {
	if r.metrics == nil {
		return nil
	}
	return counting{r.metrics}.committed
}

// counted are handlers that count requests, where anybody counts.
func (r *root) counted(handlers map[string]jobnet.Handler) map[string]jobnet.Handler {
	if r.metrics == nil {
		return handlers
	}
	return r.metrics.Count(handlers)
}
