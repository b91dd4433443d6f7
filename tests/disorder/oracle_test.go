package disorder

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// script is what a job does. Its id tells: the last digit is the tempo, and of the number before it every
// fourth fails.
const script = `case $((id % 10)) in 1) sleep 0.2;; 2) sleep 1;; esac
case $((id / 10 % 4)) in 3) code=3;; esac`

// tempos are the last digits of ids.
var tempos = map[string]int64{"quick": 0, "short": 1, "long": 2}

// codeOf is a job's exit code.
func codeOf(id int64) int {
	if id/10%4 == 3 {
		return 3
	}
	return 0
}

// checkStarts counts how often each job was started: once a life, attempt and, of a row that recurs, planned
// time; and whether those are on the schedule's grid.
func (s *site) checkStarts() {
	byJob := map[int64][]harness.Mark{}
	for _, begun := range s.oracle.Starts(s) {
		byJob[begun.Job] = append(byJob[begun.Job], begun)
	}
	for _, r := range s.rows {
		starts := byJob[r.id]
		delete(byJob, r.id)
		times := map[string]int{}
		for i, begun := range starts {
			run := fmt.Sprint(begun.Attempt)
			if r.recurs {
				run += fmt.Sprint(" of ", begun.Planned)
			}
			times[run]++
			again := s.crashed && s.choice["crash"] == "requeue"
			// A row that was reset keeps its attempts, so that each of its lives may begin with one more.
			if most := r.lives * r.attempts; times[run] > r.lives || begun.Attempt > most && !again {
				s.violated("doubled", "job %d was to be claimed %d times at most, with %d attempts, and was started %s", r.id, r.lives, r.attempts, starts)
				break
			}
			if r.recurs && !r.touched && i > 0 && (begun.Planned < starts[i-1].Planned || (begun.Planned-starts[i-1].Planned)%period != 0) {
				s.violated("beside its schedule", "job %d, every %d s, was started %s", r.id, period, starts)
				break
			}
		}
	}
	for id, starts := range byJob {
		s.violated("doubled", "job %d does not exist, and was started %s", id, starts)
	}
}

// checkPauses looks for starts while their target was paused. The kernel's clock for processes has ticks
// of 10 ms, so that one to either side is left out.
func (s *site) checkPauses() {
	targets := s.targetsOfRows()
	for _, p := range s.windows {
		for _, begun := range s.oracle.Starts(s) {
			if begun.Worker == p.worker && targets[begun.Job] == p.target && begun.Ticks > p.from+1 && (p.to == 0 || begun.Ticks < p.to-1) {
				s.violated("started while paused", "%s started job %d of target %s %d ms after it had answered to pause",
					p.worker, begun.Job, p.target, 10*(begun.Ticks-p.from))
			}
		}
	}
}

// targetsOfRows are the targets by job.
func (s *site) targetsOfRows() map[int64]string {
	targets := map[int64]string{}
	for _, r := range s.rows {
		targets[r.id] = r.target
	}
	return targets
}

// checkSlots counts how many jobs of a target a worker ran at once, its former processes included. Processes of
// rows that were reset are nobody's, and those that were killed leave no end behind.
func (s *site) checkSlots() {
	for _, r := range s.rows {
		if s.crashed || r.lives > 1 || r.cancelled {
			return
		}
	}
	targets := s.targetsOfRows()
	for _, w := range s.workers {
		running := map[string]int{}
		for _, mark := range s.oracle.Marks(s) {
			if mark.Worker != w.name {
				continue
			}
			target := targets[mark.Job]
			if mark.Word != "start" {
				running[target]--
				continue
			}
			if running[target]++; running[target] > w.most[target] {
				s.violated("slots", "%s ran %d jobs of target %s at once, of %d at most", w.name, running[target], target, w.most[target])
				return
			}
		}
	}
}

// What is printed of a schedule is what is read again, and no step is ever taken for another.
func TestSchedulesAreText(t *testing.T) {
	t.Parallel()
	verbsSeen := map[string]bool{}
	for seed := range 500 {
		drawn := schedules().Example(seed)
		again := must.Get(parse(drawn.String()))(t)
		if again.String() != drawn.String() || !cmp.Equal(again.site, drawn.site) || len(again.steps) != len(drawn.steps) {
			t.Fatalf("%s\nbecame\n%s", drawn, again)
		}
		for _, step := range drawn.steps {
			verbsSeen[step.verb] = true
		}
	}
	for _, v := range verbs {
		if !verbsSeen[v.name] {
			t.Errorf("no schedule has the step %s", v.name)
		}
	}
	for _, wrong := range []string{"nothing", "insert a 3", "insert a 3 quick quick", "insert z 3 quick", "workers = 9", "slots w1 a 0"} {
		if _, err := parse(wrong); err == nil {
			t.Errorf("%q is taken for a schedule", wrong)
		}
	}
}
