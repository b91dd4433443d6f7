package time

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"jobd/tests/harness"
)

// oracle is the file that tells what was started, and the launcher that writes it.
type oracle struct {
	file     string
	dir      string // of files by which a test steers jobs
	launcher string
}

// newOracle makes a launcher that marks its start in the oracle and does then what the script says, in
// which $1 is the id and $dir the oracle's folder.
func newOracle(t testing.TB, script string) oracle {
	t.Helper()
	dir := t.TempDir()
	o := oracle{file: filepath.Join(dir, "oracle"), dir: dir}
	o.launcher = harness.Script(t, fmt.Sprintf(`dir=%s
echo "$1 ${SITE_WORKER:--} ${JOBD_ATTEMPT:-0} ${JOBD_MAX_ATTEMPTS:-0} ${JOBD_PLANNED:-0} ${JOBD_DEADLINE:-0} ${JOBD_RECOVERED:-0} $$" >> %s
%s`, dir, o.file, script))
	return o
}

// start is one line of the oracle: what a job was told as it was started.
type start struct {
	id                           int64
	worker                       string
	attempt, most                int
	planned, deadline, recovered int64
	pid                          int
}

func (s start) String() string {
	return fmt.Sprintf("{job %d on %s, attempt %d of %d, planned for %d, deadline %d, recovered %d}", s.id, s.worker, s.attempt, s.most, s.planned, s.deadline, s.recovered)
}

// starts are all of them, in their order; of some jobs only where they are named.
func (o oracle) starts(t testing.TB, ids ...int64) (starts []start) {
	t.Helper()
	content, err := os.ReadFile(o.file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	content = content[:bytes.LastIndexByte(content, '\n')+1]
	for line := range strings.Lines(string(content)) {
		var s start
		if _, err := fmt.Sscan(line, &s.id, &s.worker, &s.attempt, &s.most, &s.planned, &s.deadline, &s.recovered, &s.pid); err != nil {
			t.Fatalf("the oracle says %q: %v", line, err)
		}
		if len(ids) == 0 || slices.Contains(ids, s.id) {
			starts = append(starts, s)
		}
	}
	return starts
}

// await waits until there are so many starts of a job.
func (o oracle) await(t testing.TB, id int64, n int) (starts []start) {
	t.Helper()
	harness.Until(t, func() string {
		if starts = o.starts(t, id); len(starts) < n {
			return fmt.Sprintf("job %d was started %d times, not %d", id, len(starts), n)
		}
		return ""
	})
	return starts
}

// touch makes a file in the oracle's folder.
func (o oracle) touch(t testing.TB, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(o.dir, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// killRunning kills what the launcher has left.
func (o oracle) killRunning(t testing.TB) {
	t.Helper()
	for _, s := range o.starts(t) {
		words, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.pid))
		if err == nil && bytes.Contains(words, []byte(o.launcher)) {
			_ = syscall.Kill(-s.pid, syscall.SIGKILL) // it may end by itself meanwhile
		}
	}
}
