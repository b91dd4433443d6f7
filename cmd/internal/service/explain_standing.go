package service

import (
	"maps"
	"slices"

	jobexec "jobd/exec"
	"jobd/exec/board"
	"jobd/net/api"
)

// phases are the words for where a job stands.
var phases = map[board.Phase]string{
	board.Queued: api.StandsQueued, board.Parked: api.StandsParked,
	board.Reserved: api.StandsClaimed, board.Due: api.StandsClaimed,
	board.Announcing: api.StandsClaimed, board.Announced: api.StandsClaimed,
	board.Asking: api.StandsStarting, board.Asked: api.StandsStarting, board.Running: api.StandsRunning,
	board.Ended: api.StandsEnded, board.Ending: api.StandsEnded,
	board.Renewing: api.StandsRenewing, board.Leaving: api.StandsLeaving,
}

// jobStanding is where a job stands, in its form on the wire.
func jobStanding(s *jobexec.JobStanding) *api.JobStanding {
	told := &api.JobStanding{
		Phase: phases[s.Phase], Before: s.Before, Since: millis(s.Claimed), Attempt: s.Attempt, PID: s.Pid,
		Target: s.Target, Manual: s.Manual, Reason: s.Reason, Adopted: s.Adopted,
	}
	told.Planned, told.Deadline = s.Time.PlannedAt, millis(s.Time.Deadline)
	told.Recurs = s.Time.Plan != nil && s.Time.Plan.Schedule != ""
	switch {
	case s.InDoubt:
		told.Phase, told.Reason, told.Ignoring = api.StandsInDoubt, s.Lost, s.Ignored
	case s.Process != nil:
		told.Since = millis(s.Began)
	}
	return told
}

// hinderings are the words for why nothing is claimed.
var hinderings = map[jobexec.Hindering]string{
	jobexec.HinderedStopping: api.HinderedStopping, jobexec.HinderedName: api.HinderedName,
	jobexec.HinderedDisk: api.HinderedDisk, jobexec.HinderedDatabase: api.HinderedDatabase,
	jobexec.HinderedStuck: api.HinderedStuck, jobexec.HinderedUnwritten: api.HinderedUnwritten,
	jobexec.HinderedIdentity: api.HinderedIdentity, jobexec.HinderedLauncher: api.HinderedLauncher,
	jobexec.HinderedRetirement: api.HinderedRetirement, jobexec.HinderedTrouble: api.HinderedTrouble,
	jobexec.HinderedCrowded: api.HinderedCrowded, jobexec.HinderedLocked: api.HinderedLocked,
	jobexec.HinderedRate: api.HinderedRate, jobexec.HinderedExecutor: api.HinderedExecutor,
}

// standTargets tells how the jobs' targets stand here: those of the rows, as the table takes them,
// or else those that the jobs were claimed for here.
func (x *explanation) standTargets() {
	names := make(map[int64]string, len(x.ids))
	x.each(func(id int64, job *api.ExplainedJob) {
		if row := x.rows[id]; row != nil {
			names[id] = row.Served
		} else if job.Here != nil {
			names[id] = job.Here.Target
		}
	})
	standings := x.Worker.ExplainTargets(slices.Compact(slices.Sorted(maps.Values(names))))
	x.each(func(id int64, job *api.ExplainedJob) {
		s, served := standings[names[id]]
		if !served {
			return
		}
		job.Target = &api.TargetStanding{
			Name: names[id], Paused: s.Paused, PausedSince: s.PausedSince, PausedBy: s.PausedBy,
			Concurrency: s.Concurrency, Running: s.Running, Prefetched: s.Prefetched,
			Room: s.Room, Looks: s.Looks, Interval: x.PollInterval.Milliseconds(),
			Hindered: hinderings[s.Kind], Why: s.Hindrance.Why, Since: millis(s.Since),
		}
	})
}
