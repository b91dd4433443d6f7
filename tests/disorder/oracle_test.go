package disorder

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// oracle is a file in which each job notes its start and its end: what ran, whatever the
// table and the journals say.
type oracle struct {
	file     string
	launcher string
}

// newOracle makes the launcher. A job's id tells what it does: its last digit is the tempo, and of
// the number before it every fourth fails. The process's start time is the kernel's, in ticks since boot.
func newOracle(t *trial) oracle {
	o := oracle{file: filepath.Join(t.dir, "oracle")}
	o.launcher = harness.Script(t, fmt.Sprintf(`read -r stat < /proc/$$/stat
id=$1
set -- $stat
echo "start $id ${JOBD_ATTEMPT:-1} $$ $SITE_WORKER ${22}" >> %[1]s
case $((id %% 10)) in 1) sleep 0.2;; 2) sleep 1;; esac
echo "out $id"
echo "end $id ${JOBD_ATTEMPT:-1} $$ $SITE_WORKER 0" >> %[1]s
case $((id / 10 %% 4)) in 3) exit 3;; esac`, o.file))
	return o
}

// tempos are the last digits of ids.
var tempos = map[string]int64{"quick": 0, "short": 1, "long": 2}

// codeOf is a job's exit code.
func codeOf(id int64) int {
	if id/10%4 == 3 {
		return 3
	}
	return 0
}

// mark is a line of the oracle.
type mark struct {
	word         string // start or end
	job          int64
	attempt, pid int
	worker       string
	ticks        int64 // of a start: when the process was made
}

// start is one process that a job was started as.
type start struct {
	mark
	ended bool
}

// marks gives what the jobs noted, in its order.
func (o oracle) marks(t *trial) (marks []mark) {
	content, err := os.ReadFile(o.file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatalf("read the oracle: %v", err)
	}
	for line := range strings.Lines(string(content)) {
		var m mark
		if _, err := fmt.Sscanf(line, "%s %d %d %d %s %d\n", &m.word, &m.job, &m.attempt, &m.pid, &m.worker, &m.ticks); err != nil {
			t.Fatalf("the oracle says %q: %v", line, err)
		}
		marks = append(marks, m)
	}
	return marks
}

// read gives all starts in their order.
func (o oracle) read(t *trial) (starts []*start) {
	running := map[int]*start{}
	for _, m := range o.marks(t) {
		if m.word == "start" {
			running[m.pid] = &start{mark: m}
			starts = append(starts, running[m.pid])
		} else if begun := running[m.pid]; begun != nil && begun.job == m.job {
			begun.ended = true
		} else {
			t.Fatalf("the oracle says %+v of a process that was not started", m)
		}
	}
	return starts
}

// size tells whether something has happened.
func (o oracle) size() int64 {
	info, err := os.Stat(o.file)
	if err != nil {
		return 0
	}
	return info.Size()
}

// killRunning kills what the launcher has left.
func (o oracle) killRunning(t *trial) {
	for _, s := range o.read(t) {
		harness.KillJob(o.launcher, s.pid)
	}
}

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
