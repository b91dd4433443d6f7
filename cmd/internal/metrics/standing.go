package metrics

import (
	"maps"
	"slices"
	"time"

	"jobd/net/api"
)

// scraped is how a worker stands at a scrape. What shares its series is added up.
type scraped struct {
	Now
	at        time.Time
	waiting   waiting
	targets   map[string]*api.TargetStatus      // by label
	executors map[[2]string]*api.ExecutorStatus // by label and mode
}

// add adds up targets and executors without series of their own: targets count as paused where all of them
// are, executors as unready, or failing, where one of them is.
func (s *scraped) add(b *byTarget) {
	s.targets, s.executors = make(map[string]*api.TargetStatus), make(map[[2]string]*api.ExecutorStatus)
	for name, t := range s.Status.Targets {
		label := b.of(name)
		if s.targets[label] == nil {
			s.targets[label] = &api.TargetStatus{Paused: true}
		}
		sum := s.targets[label]
		sum.Running += t.Running
		sum.Concurrency += t.Concurrency
		sum.Prefetched += t.Prefetched
		sum.Paused = sum.Paused && t.Paused
	}
	for _, e := range s.Status.Executors {
		at := [2]string{b.of(e.Target), e.Mode}
		if s.executors[at] == nil {
			s.executors[at] = &api.ExecutorStatus{Sent: e.Sent, Recycled: make(map[string]int64)}
		}
		sum := s.executors[at]
		sum.Processes += e.Processes
		sum.Booting += e.Booting
		sum.Ready += e.Ready
		sum.Busy += e.Busy
		sum.Boots += e.Boots
		sum.Jobs += e.Jobs
		sum.Unready += e.Unready
		sum.Failing += e.Failing
		for reason, n := range e.Recycled {
			sum.Recycled[reason] += n
		}
	}
}

// reasons are why processes are replaced. Each has its series from the first scrape on.
func reasons() []string {
	return []string{"max_jobs", "max_age", "max_memory", "watch", "reload", "recycle", "idle_timeout"}
}

// The labels of what is told by target.
var (
	ofTarget   = []string{"target"}
	ofExecutor = []string{"target", "mode"}
)

// standing is what a worker's status tells, as numbers. What is not known has no value.
func standing() []number[*scraped] {
	target := func(value func(t *api.TargetStatus) float64) func(*scraped, send) {
		return func(s *scraped, send send) {
			for label, t := range s.targets {
				send(value(t), label)
			}
		}
	}
	executor := func(tell func(e *api.ExecutorStatus, send send)) func(*scraped, send) {
		return func(s *scraped, send send) {
			for at, e := range s.executors {
				tell(e, func(value float64, more ...string) { send(value, append(at[:], more...)...) })
			}
		}
	}
	pool := func(tell func(e *api.ExecutorStatus, send send)) func(*scraped, send) {
		return executor(func(e *api.ExecutorStatus, send send) {
			if e.Pooled() {
				tell(e, send)
			}
		})
	}
	where := func(known func(s *scraped) bool, value func(s *scraped) float64) func(*scraped, send) {
		return func(s *scraped, send send) {
			if known(s) {
				send(value(s))
			}
		}
	}
	journal := func(value func(j *api.JournalStatus) float64) func(*scraped, send) {
		return where(func(s *scraped) bool { return s.Status.Journal != nil }, func(s *scraped) float64 { return value(s.Status.Journal) })
	}
	disk := func(s *scraped) bool { return s.Total > 0 }
	index := func(s *scraped) bool { return s.Index }
	return []number[*scraped]{
		{"jobd_jobs_running", "Slots in use.", ofTarget, target(func(t *api.TargetStatus) float64 { return float64(t.Running) })},
		{"jobd_target_slots", "Jobs that may run at once.", ofTarget, target(func(t *api.TargetStatus) float64 { return float64(t.Concurrency) })},
		{"jobd_jobs_queued", "Jobs that are claimed and wait for a slot.", ofTarget, target(func(t *api.TargetStatus) float64 { return float64(t.Prefetched) })},
		{
			"jobd_target_paused", "1 where nothing of the target is claimed or started until somebody continues it.", ofTarget,
			target(func(t *api.TargetStatus) float64 { return truth(t.Paused) }),
		},

		{"jobd_executor_processes", "Pool processes, by state.", []string{"target", "mode", "state"}, pool(func(e *api.ExecutorStatus, send send) {
			send(float64(e.Booting), "booting")
			send(float64(e.Ready), "ready")
			send(float64(e.Busy), "busy")
			send(float64(max(0, e.Processes-e.Booting-e.Ready-e.Busy)), "ending")
		})},
		{
			"jobd_executor_boots_total", "Pool processes that became ready, and new connections to services.", ofExecutor,
			executor(func(e *api.ExecutorStatus, send send) { send(float64(e.Boots)) }),
		},
		{"jobd_executor_recycles_total", "Pool processes that were replaced, by the reason.", []string{"target", "mode", "reason"}, pool(func(e *api.ExecutorStatus, send send) {
			for _, reason := range slices.Compact(slices.Sorted(slices.Values(slices.AppendSeq(reasons(), maps.Keys(e.Recycled))))) {
				send(float64(e.Recycled[reason]), reason)
			}
		})},
		{
			"jobd_executor_turns_total", "Jobs that were passed to a pool process or to a service.", ofExecutor,
			executor(func(e *api.ExecutorStatus, send send) { send(float64(e.Jobs)) }),
		},
		{
			"jobd_executor_unready", "1 while no job of the target can be started: no process gets ready, the service can't be reached, or starts are refused.", ofExecutor,
			executor(func(e *api.ExecutorStatus, send send) { send(truth(e.Unready != "")) }),
		},
		{
			"jobd_executor_failing", "1 while no new process gets ready, but existing ones go on.", ofExecutor,
			pool(func(e *api.ExecutorStatus, send send) { send(truth(e.Failing != "")) }),
		},

		{"jobd_mirror_lag_events", "Journalled events that the table does not show yet.", nil, always(func(s *scraped) float64 { return float64(s.Unshown) })},
		{
			"jobd_mirror_lag_seconds", "Age of the oldest event that the table does not show; 0: none.", nil,
			always(func(s *scraped) float64 { return age(s.UnshownFrom, s.at) }),
		},
		{
			"jobd_rows_set_aside", "Quarantined rows: they can't be claimed or updated for now.", nil,
			always(func(s *scraped) float64 { return float64(s.Status.QuarantinedCount) }),
		},
		{"jobd_rows_set_aside_oldest_seconds", "How long the oldest quarantine has lasted; 0: none.", nil, always(func(s *scraped) float64 {
			for _, oldest := range s.Status.Quarantined {
				return age(oldest.Since, s.at)
			}
			return 0
		})},
		{
			"jobd_rows_of_no_worker", "Rows of the worker's targets that are under way and claimed by nobody.", nil,
			always(func(s *scraped) float64 { return float64(s.Status.UnownedRows) }),
		},
		{
			"jobd_claims_in_doubt", "Claims of which it is not known yet whether they were committed.", nil,
			always(func(s *scraped) float64 { return float64(s.Status.ClaimsInDoubt) }),
		},

		{"jobd_journal_size_bytes", "Disk space that the journal uses.", nil, journal(func(j *api.JournalStatus) float64 { return float64(j.Bytes) })},
		{"jobd_journal_segments", "The journal's files of events.", nil, journal(func(j *api.JournalStatus) float64 { return float64(j.Segments) })},
		{"jobd_journal_disk_free_bytes", "Free space on the journal's disk.", nil, where(disk, func(s *scraped) float64 { return float64(s.Free) })},
		{"jobd_journal_disk_size_bytes", "The size of the journal's disk.", nil, where(disk, func(s *scraped) float64 { return float64(s.Total) })},
		{"jobd_journal_full", "1 while the journal's disk is too full to begin a job.", nil, journal(func(j *api.JournalStatus) float64 { return truth(j.Full != "") })},
		{
			"jobd_journal_index_lag_events", "Journalled events that are not in the index of jobs yet.", nil,
			where(index, func(s *scraped) float64 { return float64(s.IndexLag) }),
		},
		{
			"jobd_journal_index_lag_seconds", "Age of the oldest event that is not in the index; 0: none.", nil,
			where(index, func(s *scraped) float64 { return s.IndexBehind.Seconds() }),
		},
		{
			"jobd_journal_index_stopped", "1 while the index of jobs does not go on; the log says why.", nil,
			where(index, func(s *scraped) float64 { return truth(s.IndexStopped) }),
		},

		{
			"jobd_database_up", "1 while the table can be reached.", nil,
			where(func(s *scraped) bool { return s.Status.Database != nil }, func(s *scraped) float64 { return truth(s.Status.Database.Reachable) }),
		},
		{
			"jobd_database_reconnects_total", "How often the table could be reached again after it could not.", nil,
			always(func(s *scraped) float64 { return float64(s.Outages) }),
		},
		{
			"jobd_runner_up", "1 while the worker is connected to the process that runs its jobs.", nil,
			where(func(s *scraped) bool { return s.Status.Runner != nil }, func(s *scraped) float64 { return truth(s.Status.Runner.Reachable) }),
		},
		{
			"jobd_runner_reconnects_total", "How often the runner was reconnected.", nil,
			always(func(s *scraped) float64 { return float64(max(s.RunnerLinks, 1) - 1) }),
		},
		{"jobd_registered", "1 while the worker is registered with the master.", []string{"master"}, func(s *scraped, send send) {
			for _, m := range s.Status.Masters {
				send(truth(m.Registered), m.Address)
			}
		}},
		{
			"jobd_jobs_waiting", "Waiting rows, and delayed rows that are due, counted up to 10,000. All workers of a table report the same.", ofTarget,
			func(s *scraped, send send) {
				for name, t := range s.waiting.found {
					send(float64(t.Count), name)
				}
			},
		},
		{
			"jobd_jobs_waiting_oldest_seconds", "Age of the oldest waiting row, since time_created or since it was due; 0: none.", ofTarget,
			func(s *scraped, send send) {
				for name, t := range s.waiting.found {
					if t.Count == 0 {
						send(0, name)
					} else if t.Oldest > 0 {
						send(age(time.Unix(t.Oldest, 0), s.at), name)
					}
				}
			},
		},
		{
			"jobd_jobs_waiting_counted", "1 if the last count of waiting rows covered all targets.", nil,
			always(func(s *scraped) float64 { return truth(s.waiting.all) }),
		},
		{
			"jobd_jobs_waiting_age_seconds", "Age of the last count of waiting rows, at most one per 10 s.", nil,
			always(func(s *scraped) float64 { return age(s.waiting.at, s.at) }),
		},
		{"jobd_ready", "1 while the worker may take work; /readyz says why not.", nil, always(func(s *scraped) float64 { return truth(len(s.Status.NotReady) == 0) })},
	}
}
