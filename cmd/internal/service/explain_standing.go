package service

import (
	"maps"
	"slices"

	jobexec "jobd/exec"
	"jobd/exec/board"
	"jobd/net/contract"
)

// phases are the words for where a job stands.
var phases = map[board.Phase]string{
	board.Queued: contract.StandsQueued, board.Parked: contract.StandsParked,
	board.Reserved: contract.StandsClaimed, board.Due: contract.StandsClaimed,
	board.Announcing: contract.StandsClaimed, board.Announced: contract.StandsClaimed,
	board.Asking: contract.StandsStarting, board.Asked: contract.StandsStarting, board.Running: contract.StandsRunning,
	board.Ended: contract.StandsEnded, board.Ending: contract.StandsEnded,
	board.Renewing: contract.StandsRenewing, board.Leaving: contract.StandsLeaving,
}

// jobStanding is where a job stands, in its form on the wire.
func jobStanding(s *jobexec.JobStanding) *contract.JobStanding {
	told := &contract.JobStanding{
		Phase: phases[s.Phase], Before: s.Before, Since: millis(s.Claimed), Attempt: s.Attempt, PID: s.Pid,
		Target: s.Target, Manual: s.Manual, Reason: s.Reason, Adopted: s.Adopted,
	}
	told.Planned, told.Deadline = s.Time.PlannedAt, millis(s.Time.Deadline)
	told.Recurs = s.Time.Plan != nil && s.Time.Plan.Schedule != ""
	switch {
	case s.InDoubt:
		told.Phase, told.Reason, told.Ignoring = contract.StandsInDoubt, s.Lost, s.Ignored
	case s.Process != nil:
		told.Since = millis(s.Began)
	}
	return told
}

// hinderings are the words for why nothing is claimed.
var hinderings = map[jobexec.Hindering]string{
	jobexec.HinderedStopping: contract.HinderedStopping, jobexec.HinderedName: contract.HinderedName,
	jobexec.HinderedDisk: contract.HinderedDisk, jobexec.HinderedDatabase: contract.HinderedDatabase,
	jobexec.HinderedStuck: contract.HinderedStuck, jobexec.HinderedUnwritten: contract.HinderedUnwritten,
	jobexec.HinderedIdentity: contract.HinderedIdentity, jobexec.HinderedLauncher: contract.HinderedLauncher,
	jobexec.HinderedRetirement: contract.HinderedRetirement, jobexec.HinderedTrouble: contract.HinderedTrouble,
	jobexec.HinderedCrowded: contract.HinderedCrowded, jobexec.HinderedLocked: contract.HinderedLocked,
	jobexec.HinderedRate: contract.HinderedRate, jobexec.HinderedExecutor: contract.HinderedExecutor,
}

// standTargets tells how the jobs' targets stand here: those of the rows, as the table takes them,
// or else those that the jobs were claimed for here.
func (x *explanation) standTargets() {
	names := make(map[int64]string, len(x.ids))
	x.each(func(id int64, job *contract.ExplainedJob) {
		if row := x.rows[id]; row != nil {
			names[id] = row.Served
		} else if job.Here != nil {
			names[id] = job.Here.Target
		}
	})
	standings := x.Worker.ExplainTargets(slices.Compact(slices.Sorted(maps.Values(names))))
	x.each(func(id int64, job *contract.ExplainedJob) {
		s, served := standings[names[id]]
		if !served {
			return
		}
		job.Target = &contract.TargetStanding{
			Name: names[id], Paused: s.Paused, PausedSince: s.PausedSince, PausedBy: s.PausedBy,
			Concurrency: s.Concurrency, Running: s.Running, Prefetched: s.Prefetched,
			Room: s.Room, Looks: s.Looks, Interval: x.PollInterval.Milliseconds(),
			Hindered: hinderings[s.Kind], Why: s.Hindrance.Why, Since: millis(s.Since),
		}
	})
}
