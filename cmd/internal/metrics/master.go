package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"jobd/cmd/internal/version"
	"jobd/master"
	jobnet "jobd/net"
	"jobd/net/api"
)

// Master counts what a master does.
type Master struct{ registry *prometheus.Registry }

// NewMaster makes the counters of a master of a build.
func NewMaster(build version.Build) *Master {
	return &Master{newRegistry("jobd_master_build_info", build)}
}

// Count gives handlers that count the requests that they answer.
func (m *Master) Count(handlers map[string]jobnet.Handler) map[string]jobnet.Handler {
	return counted(m.registry, "jobd_master_requests_total", handlers)
}

// Handler answers scrapes, for which it asks how the master stands, and how its journal does, if it has
// one. It is called once.
func (m *Master) Handler(now func() master.Standing, journal func() []api.NotReady) http.Handler {
	type standing = master.Standing
	m.registry.MustRegister(newNumbers(now, []number[standing]{
		{"jobd_master_workers", "Workers that are registered.", nil, always(func(s standing) float64 { return float64(s.Workers) })},
		{"jobd_master_targets", "Targets that they serve.", nil, always(func(s standing) float64 { return float64(s.Targets) })},
		{
			"jobd_master_registrations_ended_total", "Registrations that have ended: the worker has stopped, is gone, or came back over another connection.", nil,
			always(func(s standing) float64 { return float64(s.Ended) }),
		},
		{"jobd_master_pokes_total", "Pokes of targets by clients.", nil, always(func(s standing) float64 { return float64(s.Poked) })},
		{"jobd_master_polls_total", "Requests to workers to look for jobs.", nil, always(func(s standing) float64 { return float64(s.Polled) })},
		{
			"jobd_master_targets_unserved", "Targets that were poked and that no registered worker serves.", nil,
			always(func(s standing) float64 { return float64(s.Unserved) }),
		},
		{
			"jobd_master_targets_unserved_oldest_seconds", "How long the first unserved target waits; 0: none.", nil,
			always(func(s standing) float64 { return age(s.UnservedSince, time.Now()) }),
		},
		{
			"jobd_master_journal_failing", "1 while the master has a journal that can't be written, so that changes are refused.", nil,
			always(func(standing) float64 { return truth(journal != nil && len(journal()) > 0) }),
		},
	}))
	return handler(m.registry)
}
