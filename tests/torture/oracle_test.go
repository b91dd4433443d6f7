package torture

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// oracle is the file that tells what was started, and the launcher that writes it.
type oracle struct {
	file     string
	launcher string
	gate     string // a pipe with a name: jobs whose script reads it wait for open
}

// newOracle makes a launcher that marks its start and its end in the oracle, prints "out ID" and "err ID"
// and exits with the id's remainder by four. In between it does what the script says, in which $1 is
// the id and $gate the gate.
func newOracle(t *testing.T, script string) oracle {
	t.Helper()
	dir := t.TempDir()
	o := oracle{file: filepath.Join(dir, "oracle"), gate: filepath.Join(dir, "gate")}
	must.Do(t, syscall.Mkfifo(o.gate, 0o600))
	o.launcher = harness.Script(t, fmt.Sprintf(`gate=%s
echo "start $1 ${JOBD_ATTEMPT:-1} $$" >> %[2]s
%[3]s
echo "out $1"
echo "err $1" >&2
echo "end $1 ${JOBD_ATTEMPT:-1} $$" >> %[2]s
exit $(($1 %% 4))`, o.gate, o.file, script))
	return o
}

// atGate makes a job wait at the gate.
const atGate = `: < $gate`

// open lets the jobs that wait, and all to come, pass the gate.
func (o oracle) open(t *testing.T) {
	t.Helper()
	gate := must.Get(os.OpenFile(o.gate, os.O_RDWR, 0))(t)
	t.Cleanup(func() { gate.Close() })
}

// attempt tells one attempt of one job from all others.
type attempt struct{ job, number int }

// history is what the oracle says.
type history struct {
	starts map[attempt][]int // the process ids
	ends   map[attempt]int   // how many
}

// started counts the jobs that were started.
func (h history) started() int {
	jobs := map[int]bool{}
	for a := range h.starts {
		jobs[a.job] = true
	}
	return len(jobs)
}

func (o oracle) read(t *testing.T) history {
	t.Helper()
	content, err := os.ReadFile(o.file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	h := history{starts: map[attempt][]int{}, ends: map[attempt]int{}}
	for text := range strings.Lines(string(content)) {
		var word string
		var a attempt
		var pid int
		if _, err := fmt.Sscanf(text, "%s %d %d %d\n", &word, &a.job, &a.number, &pid); err != nil {
			t.Fatalf("the oracle says %q: %v", text, err)
		}
		if word == "start" {
			h.starts[a] = append(h.starts[a], pid)
		} else {
			h.ends[a]++
		}
	}
	return h
}

// awaitStarts waits until n jobs were started.
func (o oracle) awaitStarts(t *testing.T, n int) {
	t.Helper()
	if !await(func() bool { return o.read(t).started() >= n }) {
		t.Fatalf("%d jobs were started, not %d", o.read(t).started(), n)
	}
}

// killRunning kills what the launcher has left.
func (o oracle) killRunning(t *testing.T) {
	t.Helper()
	for _, pids := range o.read(t).starts {
		for _, pid := range pids {
			words, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if err == nil && bytes.Contains(words, []byte(o.launcher)) {
				_ = syscall.Kill(-pid, syscall.SIGKILL) // it may end by itself meanwhile
			}
		}
	}
}
