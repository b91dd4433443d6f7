package disorder

import (
	"fmt"
	"strings"
)

// checkStarts counts how often each job was started.
func (s *site) checkStarts() {
	byJob := map[int64][]*start{}
	for _, begun := range s.oracle.read(s.trial) {
		byJob[begun.job] = append(byJob[begun.job], begun)
	}
	for _, r := range s.rows {
		starts := byJob[r.id]
		delete(byJob, r.id)
		attempts := map[int]int{}
		for _, begun := range starts {
			attempts[begun.attempt]++
			again := s.crashed && s.choice["crash"] == "requeue"
			// A row that was reset keeps its attempts, so that each of its lives may begin with one more.
			if most := r.lives; attempts[begun.attempt] > most || begun.attempt > most && !again {
				s.violated("doubled", "job %d was to be claimed %d times at most, and was started %s", r.id, most, describeStarts(starts))
				break
			}
		}
	}
	for id, starts := range byJob {
		s.violated("doubled", "job %d does not exist, and was started %s", id, describeStarts(starts))
	}
}

func describeStarts(starts []*start) string {
	var text []string
	for _, begun := range starts {
		text = append(text, fmt.Sprintf("by %s as process %d, attempt %d", begun.worker, begun.pid, begun.attempt))
	}
	return strings.Join(text, " and ")
}

// checkPauses looks for starts while their target was paused. The kernel's clock for processes has ticks
// of 10 ms, so that one to either side is left out.
func (s *site) checkPauses() {
	targets := s.targetsOfRows()
	for _, p := range s.windows {
		for _, begun := range s.oracle.read(s.trial) {
			if begun.worker == p.worker && targets[begun.job] == p.target && begun.ticks > p.from+1 && (p.to == 0 || begun.ticks < p.to-1) {
				s.violated("started while paused", "%s started job %d of target %s %d ms after it had answered to pause",
					p.worker, begun.job, p.target, 10*(begun.ticks-p.from))
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
		for _, mark := range s.oracle.marks(s.trial) {
			if mark.worker != w.name {
				continue
			}
			target := targets[mark.job]
			if mark.word != "start" {
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
