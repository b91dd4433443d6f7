package metrics

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"jobd/net/api"
)

// executors is what a worker's status tells of what runs jobs otherwise than in a process for each.
type executors struct {
	processes, boots, recycles, turns, unready, failing *prometheus.Desc
}

func (e *executors) describe(g *gauges) {
	e.processes = g.desc("jobd_executor_processes", "Processes that are kept for jobs, by what they do.", "target", "mode", "state")
	e.boots = g.desc("jobd_executor_boots_total", "Processes that got ready, and connections to services that were made.", "target", "mode")
	e.recycles = g.desc("jobd_executor_recycles_total", "Processes that were replaced, by why.", "target", "mode", "reason")
	e.turns = g.desc("jobd_executor_turns_total", "Jobs that were passed to a kept process or to a service.", "target", "mode")
	e.unready = g.desc("jobd_executor_unready", "1 while no job of the target can be started: no process gets ready, the service can't be reached, or starts are refused.", "target", "mode")
	e.failing = g.desc("jobd_executor_failing", "1 while no new process gets ready, and those that were there before go on.", "target", "mode")
}

// reasons are why processes are replaced. Each has its series from the first scrape on.
func reasons() []string {
	return []string{"max_jobs", "max_age", "max_memory", "watch", "reload", "recycle", "idle_timeout"}
}

// sum is executors that share their series.
type sum struct {
	kept bool
	api.ExecutorStatus
}

// collect tells of each executor. Those of targets without series of their own are added up; they
// count as unready, or failing where one of them is.
func (e *executors) collect(all []api.ExecutorStatus, targets *byTarget, send send) {
	type series struct{ target, mode string }
	sums := make(map[series]*sum, len(all))
	for i := range all {
		one := &all[i]
		at := series{targets.of(one.Target).label, one.Mode}
		s := sums[at]
		if s == nil {
			s = &sum{kept: one.Pooled()}
			s.Recycled = make(map[string]int64)
			sums[at] = s
		}
		s.add(one)
	}
	for at, s := range sums {
		gauge := func(desc *prometheus.Desc, value float64, more ...string) {
			send(desc, prometheus.GaugeValue, value, append([]string{at.target, at.mode}, more...)...)
		}
		count := func(desc *prometheus.Desc, value int64, more ...string) {
			send(desc, prometheus.CounterValue, float64(value), append([]string{at.target, at.mode}, more...)...)
		}
		gauge(e.unready, truth(s.Unready != ""))
		count(e.boots, s.Boots)
		count(e.turns, s.Jobs)
		if !s.kept {
			continue
		}
		gauge(e.failing, truth(s.Failing != ""))
		gauge(e.processes, float64(s.Booting), "booting")
		gauge(e.processes, float64(s.Ready), "ready")
		gauge(e.processes, float64(s.Busy), "busy")
		gauge(e.processes, float64(max(0, s.Processes-s.Booting-s.Ready-s.Busy)), "ending")
		for _, reason := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(reasons(), slices.Collect(maps.Keys(s.Recycled)))))) {
			count(e.recycles, s.Recycled[reason], reason)
		}
	}
}

func (s *sum) add(one *api.ExecutorStatus) {
	s.Processes += one.Processes
	s.Booting += one.Booting
	s.Ready += one.Ready
	s.Busy += one.Busy
	s.Boots += one.Boots
	s.Jobs += one.Jobs
	if one.Unready != "" {
		s.Unready = one.Unready
	}
	if one.Failing != "" {
		s.Failing = one.Failing
	}
	for reason, n := range one.Recycled {
		s.Recycled[reason] += n
	}
}
