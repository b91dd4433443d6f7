package exec

import (
	"time"

	"jobd/journal"
)

// RunTime is what the journal says about the time of a job under way. What is not known, and what is
// not, is zero.
type RunTime struct {
	Plan      *journal.Plan // of its row, when it was claimed; nil where the table uses nothing of that
	PlannedAt int64         // the planned start of the run, in seconds since 1970
	Deadline  time.Time     // when its newest start has run for as long as it may; zero: nothing limits it, or it has not been started
}

// runTime is what is known of a job.
func runTime(known journal.Job) RunTime {
	t := RunTime{Plan: known.Plan, PlannedAt: known.PlannedAt}
	if known.Timeout > 0 && !known.Running.IsZero() {
		t.Deadline = known.Running.Add(known.Timeout)
	}
	return t
}

// noteTimes takes in what the journal says about the time of jobs that run.
func (w *Worker) noteTimes(jobs []RunningJob) {
	w.Recorder.View(func(s *journal.State) {
		for i := range jobs {
			if known := s.Job(jobs[i].ID); known.Attempt == jobs[i].Attempt {
				jobs[i].Time = runTime(known)
			}
		}
	})
}

// TermsOf tells what the configuration says of the jobs of a target at present, and in which zone
// schedules are read whose rows name none.
func (w *Worker) TermsOf(target string) (terms Terms, zone *time.Location) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if zone = w.zone; zone == nil {
		zone = time.UTC
	}
	return w.terms[target], zone
}
