package sightings

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/tests/harness"
)

// launcher is a command whose jobs append to the oracle file when they start; some of them then
// wait at a gate.
type launcher struct{ dir, command string }

// newLauncher makes a launcher whose jobs with the given ids wait until they are let go.
func newLauncher(t *testing.T, held ...int64) launcher {
	t.Helper()
	dir := t.TempDir()
	waits := " "
	for _, id := range held {
		waits += fmt.Sprintf("%d ", id)
	}
	if len(held) == 1 && held[0] == everyJob {
		waits = "*"
	}
	script := harness.Script(t, fmt.Sprintf( // without its folder, which goes with the test, no job stays
		`echo "$1" >> %[1]s/oracle
case "%[2]s" in *" $1 "*|"*") while [ -d %[1]s ] && [ ! -e %[1]s/go ] && [ ! -e %[1]s/go-"$1" ]; do sleep 0.2; done;; esac
echo "out $1"`, dir, waits))
	return launcher{dir: dir, command: script + " {id}"}
}

// slow makes each job take a while.
func (l launcher) slow(t *testing.T) launcher {
	script := strings.Replace(l.command, "{id}", `"$1"`, 1)
	l.command = harness.Script(t, "sleep 0.03; exec "+script) + " {id}"
	return l
}

// everyJob makes all jobs of a launcher wait.
const everyJob = math.MinInt64

// letGo lets jobs pass the gate, none named: all there are and will be.
func (l launcher) letGo(t *testing.T, ids ...int64) {
	t.Helper()
	if len(ids) == 0 {
		harness.Touch(t, filepath.Join(l.dir, "go"))
	}
	for _, id := range ids {
		harness.Touch(t, filepath.Join(l.dir, fmt.Sprintf("go-%d", id)))
	}
}

// starts tells how often each job was started.
func (l launcher) starts(t *testing.T) map[string]int {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(l.dir, "oracle"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	starts := map[string]int{}
	for _, id := range strings.Fields(string(content)) {
		starts[id]++
	}
	return starts
}

func (l launcher) awaitStarts(t *testing.T, n int) {
	t.Helper()
	harness.Until(t, func() string {
		if starts := l.starts(t); len(starts) != n {
			return fmt.Sprintf("%d jobs were started, not %d: %v", len(starts), n, starts)
		}
		return ""
	})
}

// expectOnce checks that n jobs were started, each once.
func (l launcher) expectOnce(t *testing.T, n int) {
	t.Helper()
	starts := l.starts(t)
	if len(starts) != n {
		t.Errorf("%d jobs were started, want %d", len(starts), n)
	}
	for id, times := range starts {
		if times != 1 {
			t.Errorf("job %s was started %d times", id, times)
		}
	}
}
