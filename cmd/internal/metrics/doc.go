// Package metrics has the numbers of a worker and of a master in the form that Prometheus reads.
// Nothing else of jobd knows of Prometheus.
//
//	journal ── each commit ──────► counters ──┐
//	exec ──── starts, ends, claims ► counters ├──► a scrape
//	status, table ── asked at a scrape ───────┘
//
// What can be asked is asked at a scrape, and is counted nowhere: how many jobs run, how far the
// mirror is behind. Only what would be gone by then is counted when it happens, and only where
// http_listen is set. The table is asked for what waits at most each ten seconds, however many
// scrape.
//
// No label holds what anybody may make up: no job's id, and of targets as many as a worker may have
// before their number costs more than it tells (see mostTargets). It keeps nothing on disk: behind a
// start all counters begin at 0, as Prometheus expects.
package metrics
