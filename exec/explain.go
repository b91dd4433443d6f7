package exec

import (
	"time"

	"jobd/exec/board"
	"jobd/journal"
)

// Explanation is what a worker knows of one job from memory: where it stands, and whether its row is
// set aside.
type Explanation struct {
	Standing *JobStanding // nil: it is not under way here
	Aside    *AsideRow    // it can't be claimed for now; nil: nothing is known against that
}

// JobStanding is where a job stands. What is not known is zero.
type JobStanding struct {
	board.Standing
	Claimed time.Time
	Pid     int
	Adopted bool // its runner is gone: nobody will know how it ends
	Time    RunTime
}

// TargetStanding is how a target that the worker serves stands.
type TargetStanding struct {
	TargetStatus
	Hindrance
	Room  int  // how many more jobs would be claimed
	Looks bool // a look at the table is due, or under way
}

// ExplainTargets tells how these targets stand, those of them that are served. It changes nothing.
func (w *Worker) ExplainTargets(names []string) map[string]TargetStanding {
	away, now := isClosed(w.Mirror.Away()), time.Now()
	standings := make(map[string]TargetStanding, len(names))
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		if t, served := w.targets[name]; served {
			standings[name] = TargetStanding{
				TargetStatus: w.targetStatus(t, away, now), Hindrance: w.hindrance(t, away),
				Room: t.Room(w.Prefetch), Looks: t.wanted() || !t.look.Due.IsZero(),
			}
		}
	}
	return standings
}

// Explain tells what the worker knows of jobs. It changes nothing.
func (w *Worker) Explain(ids []int64) map[int64]Explanation {
	claimed := make(map[int64]journal.Job, len(ids))
	w.Recorder.View(func(s *journal.State) {
		for _, id := range ids {
			claimed[id] = s.Job(id)
		}
	})
	explained := make(map[int64]Explanation, len(ids))
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		var e Explanation
		if s, known := w.board.Standing(id); known {
			e.Standing = &JobStanding{Standing: s, Claimed: claimed[id].Accepted, Time: runTime(claimed[id])}
			e.Standing.identify(claimed[id])
		}
		if a := w.asides[id]; a != nil && !a.trusted {
			e.Aside = &AsideRow{Job: id, Target: a.target, Reason: a.reason, Since: a.since}
		}
		explained[id] = e
	}
	return explained
}

// identify says which process a job has, as the process itself tells, or the journal.
func (s *JobStanding) identify(known journal.Job) {
	if process, has := s.Process.(Process); has && isClosed(process.Begun()) {
		s.Pid = process.Started().Pid
	}
	if s.Pid == 0 && known.Process != nil && known.Attempt == s.Attempt {
		s.Pid = known.Process.Pid
	}
	if stray, tells := s.Process.(interface{ Adopted() bool }); tells {
		s.Adopted = stray.Adopted()
	}
}
