package disorder

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

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
		words, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.pid))
		if err == nil && bytes.Contains(words, []byte(o.launcher)) {
			_ = syscall.Kill(-s.pid, syscall.SIGKILL) // it may end by itself meanwhile
		}
	}
}
