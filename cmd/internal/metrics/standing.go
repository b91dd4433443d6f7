package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"jobd/net/api"
)

type send = func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string)

// standing is what a worker's status tells, as numbers.
type standing struct {
	gauges
	targets *byTarget
	now     func() Now

	running, slots, queued, paused                  *prometheus.Desc
	lagEvents, lagSeconds                           *prometheus.Desc
	aside, asideOldest, strangers, doubts           *prometheus.Desc
	bytes, segments, free, total, full              *prometheus.Desc
	indexLag, indexBehind, indexStopped             *prometheus.Desc
	database, outages, runner, reconnects, register *prometheus.Desc
	ready                                           *prometheus.Desc

	executors executors
}

func newStanding(targets *byTarget, now func() Now) *standing {
	s := &standing{targets: targets, now: now}
	s.running = s.desc("jobd_jobs_running", "Slots in use.", "target")
	s.slots = s.desc("jobd_target_slots", "Jobs that may run at once.", "target")
	s.queued = s.desc("jobd_jobs_queued", "Jobs that are claimed and wait for a slot.", "target")
	s.paused = s.desc("jobd_target_paused", "1 where nothing of the target is claimed or started until somebody continues it.", "target")
	s.lagEvents = s.desc("jobd_mirror_lag_events", "Journalled events that the table was not shown yet.")
	s.lagSeconds = s.desc("jobd_mirror_lag_seconds", "How long ago the first of them was journalled; 0 where there is none.")
	s.aside = s.desc("jobd_rows_set_aside", "Rows that can't be claimed or updated for now, for a reason of their own.")
	s.asideOldest = s.desc("jobd_rows_set_aside_oldest_seconds", "For how long the first of them has been so; 0 where there is none.")
	s.strangers = s.desc("jobd_rows_of_no_worker", "Rows of the worker's targets that are under way and claimed by nobody.")
	s.doubts = s.desc("jobd_claims_in_doubt", "Claims of which it is not known yet whether they were committed.")
	s.bytes = s.desc("jobd_journal_size_bytes", "What the journal takes on its disk.")
	s.segments = s.desc("jobd_journal_segments", "The journal's files of events.")
	s.free = s.desc("jobd_journal_disk_free_bytes", "What is free on the journal's disk.")
	s.total = s.desc("jobd_journal_disk_size_bytes", "The size of the journal's disk.")
	s.full = s.desc("jobd_journal_full", "1 while too little is free there to begin anything new.")
	s.indexLag = s.desc("jobd_journal_index_lag_events", "Journalled events that are not in the index of jobs yet.")
	s.indexBehind = s.desc("jobd_journal_index_lag_seconds", "How long ago the first of them was journalled; 0 where there is none.")
	s.indexStopped = s.desc("jobd_journal_index_stopped", "1 while the index of jobs does not go on; the log says why.")
	s.database = s.desc("jobd_database_up", "1 while the table can be reached.")
	s.outages = s.desc("jobd_database_reconnects_total", "How often the table could be reached again after it could not.")
	s.runner = s.desc("jobd_runner_up", "1 while the worker is connected to the process that runs its jobs.")
	s.reconnects = s.desc("jobd_runner_reconnects_total", "How often that connection was made anew.")
	s.register = s.desc("jobd_registered", "1 while the worker is registered with the master.", "master")
	s.ready = s.desc("jobd_ready", "1 while the worker may take work; /readyz says why not.")
	s.executors.describe(&s.gauges)
	s.tell = s.collect
	return s
}

func (s *standing) collect(send send) {
	now, at := s.now(), time.Now()
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		send(desc, prometheus.GaugeValue, value, labels...)
	}
	s.collectTargets(now.Status.Targets, gauge)
	s.executors.collect(now.Status.Executors, s.targets, send)
	gauge(s.lagEvents, float64(now.Unshown))
	gauge(s.lagSeconds, age(now.UnshownFrom, at))
	gauge(s.aside, float64(now.Status.QuarantinedCount))
	oldest := time.Time{}
	if len(now.Status.Quarantined) > 0 {
		oldest = now.Status.Quarantined[0].Since
	}
	gauge(s.asideOldest, age(oldest, at))
	gauge(s.strangers, float64(now.Status.UnownedRows))
	gauge(s.doubts, float64(now.Status.ClaimsInDoubt))
	if j := now.Status.Journal; j != nil {
		gauge(s.bytes, float64(j.Bytes))
		gauge(s.segments, float64(j.Segments))
		gauge(s.full, truth(j.Full != ""))
	}
	if now.Total > 0 {
		gauge(s.free, float64(now.Free))
		gauge(s.total, float64(now.Total))
	}
	if now.Index {
		gauge(s.indexLag, float64(now.IndexLag))
		gauge(s.indexBehind, now.IndexBehind.Seconds())
		gauge(s.indexStopped, truth(now.IndexStopped))
	}
	if d := now.Status.Database; d != nil {
		gauge(s.database, truth(d.Reachable))
	}
	send(s.outages, prometheus.CounterValue, float64(now.Outages))
	if r := now.Status.Runner; r != nil {
		gauge(s.runner, truth(r.Reachable))
	}
	send(s.reconnects, prometheus.CounterValue, float64(max(now.RunnerLinks, 1)-1))
	for _, m := range now.Status.Masters {
		gauge(s.register, truth(m.Registered), m.Address)
	}
	gauge(s.ready, truth(len(now.Status.NotReady) == 0))
}

// collectTargets tells of each target. Those without series of their own are added up; they count
// as paused where all of them are.
func (s *standing) collectTargets(targets map[string]api.TargetStatus, gauge func(*prometheus.Desc, float64, ...string)) {
	sums := make(map[*target]*api.TargetStatus, len(targets))
	for name, t := range targets {
		series := s.targets.of(name)
		sum := sums[series]
		if sum == nil {
			sum = &api.TargetStatus{Paused: true}
			sums[series] = sum
		}
		sum.Running += t.Running
		sum.Concurrency += t.Concurrency
		sum.Prefetched += t.Prefetched
		sum.Paused = sum.Paused && t.Paused
	}
	for series, t := range sums {
		gauge(s.running, float64(t.Running), series.label)
		gauge(s.slots, float64(t.Concurrency), series.label)
		gauge(s.queued, float64(t.Prefetched), series.label)
		gauge(s.paused, truth(t.Paused), series.label)
	}
}
