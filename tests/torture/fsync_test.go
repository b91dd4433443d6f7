package torture

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// An fsync of the worker fails, as on a disk that breaks: the system call itself, which strace answers with EIO. What is on
// disk is not known then, so the worker says which file it is and ends; the next start goes by what it finds.
func TestFsyncFails(t *testing.T) {
	t.Parallel()
	s := newSite(t, shortJob)
	settings := s.worker("w1", map[string]int{"a": 4}, polling)
	for range harness.Size(2, 100) {
		worker := settings.StartWorker(t)
		failed := failFsync(t, worker, 1+rand.IntN(5))
		harness.Until(t, func() string {
			if !worker.Running() {
				return ""
			}
			if s.Count(t, "status = 'waiting'") == 0 {
				s.insertWaiting(20, "a")
			}
			return "the worker does not end"
		})
		file := failed()
		if code := worker.ExitCode(t); code <= 0 {
			t.Errorf("the worker ended with %d", code)
		}
		if !saysFailure(worker.Output(), file) {
			t.Errorf("the worker does not say that %s failed:\n%s", file, worker.Output())
		}
	}
	settings.StartWorker(t)
	s.awaitAll(s.jobs)
	s.audit(0, settings)
}

// saysFailure tells whether what a worker said at its end names a file and what happened to it. The log of a
// database goes by the name of the database.
func saysFailure(output, file string) bool {
	name := strings.TrimSuffix(file, "-wal")
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "jobd: ") && strings.Contains(line, name) &&
			(strings.Contains(line, "disk I/O error") || strings.Contains(line, "input/output error")) {
			return true
		}
	}
	return false
}

// injected is the line in which strace tells of a failure that it made.
var injected = regexp.MustCompile(`(?:fsync|fdatasync)\(\d+<([^>]+)>.*INJECTED`)

// failFsync makes the nth fsync of each thread fail, from now on; failed gives the file of the first, when the worker has ended.
func failFsync(t *testing.T, worker *harness.Daemon, nth int) (failed func() string) {
	t.Helper()
	must.Get(exec.LookPath("strace"))(t)
	log := filepath.Join(t.TempDir(), "strace")
	strace := exec.Command("strace", "-f", "-y", "-p", fmt.Sprint(worker.Pid), "-o", log,
		"-e", "trace=fsync,fdatasync", "-e", fmt.Sprintf("inject=fsync,fdatasync:error=EIO:when=%d", nth))
	says := must.Get(strace.StderrPipe())(t)
	must.Do(t, strace.Start())
	attached, err := bufio.NewReader(says).ReadString('\n')
	if strings.Contains(attached, "not permitted") && os.Geteuid() != 0 {
		t.Skip("this account may not trace other processes; the journal's own tests of a failing fsync stand in")
	}
	if err != nil || !strings.Contains(attached, "attached") {
		t.Fatalf("strace says %q: %v", attached, err)
	}
	return func() string {
		_ = strace.Wait() // it ends with the worker
		content := must.Get(os.ReadFile(log))(t)
		found := injected.FindSubmatch(content)
		if found == nil {
			t.Fatalf("no fsync was made to fail:\n%s", content)
		}
		return string(found[1])
	}
}
