package time

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"jobd/tests/harness"
)

// trial is one run of steps on daemons of its own. It stands in for the test, towards the harness, so
// that what fails can be run again, smaller, before the test fails. Its folder stays where a rule did not hold.
type trial struct {
	testing.TB
	*site
	dir     string
	log     *os.File
	workers [2]harness.Settings
	configs [2]string
	daemons [2]*harness.Daemon // nil: it was killed, and is not there

	rows    []*modelled
	locks   sync.WaitGroup
	crashed bool // a runner was killed: outcomes may be unknown

	mu       sync.Mutex
	wrong    []string
	cleanups []func()
	folders  int
}

// modelled is what is known of a row.
type modelled struct {
	id      int64
	recurs  bool
	touched bool // somebody edited it, or ran it once more: what is known of its times is less
	ended   bool // somebody has ended it, or its schedule
	retried bool
	keyless bool // it was set back: what its end has freed, its key, does not come back
}

// behaviour is what the launcher does with a job, by its id.
const behaviour = `case $(($1 % 8)) in
4) exit 1;;
5) exit 65;;
6) exec sleep 600;;
7) [ "$JOBD_ATTEMPT" -gt 1 ];;
3) sleep 0.3;;
esac`

// modelAttempts is how often jobs are started at most, in all.
const modelAttempts = 3

// try runs steps and gives what did not hold.
func try(t testing.TB, steps []step) string {
	dir, err := os.MkdirTemp("", "jobd-time-")
	if err != nil {
		t.Fatal(err)
	}
	tr := &trial{TB: t, dir: dir}
	if tr.log, err = os.Create(filepath.Join(dir, "trial.log")); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { // Fatal ends it
		defer close(ended)
		defer tr.cleanUp()
		tr.run(steps)
	}()
	<-ended
	tr.log.Close()
	if len(tr.wrong) == 0 {
		_ = os.RemoveAll(dir)
		return ""
	}
	return strings.Join(tr.wrong, "\n") + "\nlogs and journals: " + dir + "\nsteps: " + fmt.Sprint(steps)
}

func (t *trial) run(steps []step) {
	t.site = newSite(t, behaviour)
	defer t.locks.Wait()
	for i := range t.workers {
		t.workers[i] = t.worker(fmt.Sprint("w", i+1), map[string]int{"a": 3}, harness.Settings{"log_level_console": "debug"},
			harness.Terms("a", harness.Settings{"attempts": fmt.Sprint(modelAttempts), "backoff": "1s", "timeout": "1s", "kill_after": "1s"}))
		t.configs[i] = t.workers[i].Write(t)
		t.launch(i)
	}
	for _, d := range t.daemons {
		d.Ready(t)
	}
	for _, s := range steps {
		t.Logf("--- %s", s)
		i := slices.IndexFunc(verbs, func(v struct {
			name   string
			weight int
			do     func(*trial, step)
		},
		) bool {
			return v.name == s.verb
		})
		verbs[i].do(t, s)
	}
	t.Logf("--- heal")
	t.heal()
	t.settle()
	t.judge()
}

func (t *trial) launch(i int) {
	t.daemons[i] = harness.Launch(t, "jobd", t.configs[i], t.workers[i].Addr())
}

// violated says that a rule did not hold.
func (t *trial) violated(rule, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wrong = append(t.wrong, rule+": "+fmt.Sprintf(format, args...))
	fmt.Fprintln(t.log, "VIOLATED", rule+":", fmt.Sprintf(format, args...))
}

func (t *trial) cleanUp() {
	for _, cleanup := range slices.Backward(t.cleanups) {
		cleanup()
	}
}

// These are what the harness needs of a test.

func (t *trial) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

func (t *trial) TempDir() string {
	t.folders++
	dir := filepath.Join(t.dir, fmt.Sprint(t.folders))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (t *trial) Helper()      {}
func (t *trial) Failed() bool { t.mu.Lock(); defer t.mu.Unlock(); return len(t.wrong) > 0 }

func (t *trial) Logf(format string, args ...any) { fmt.Fprintf(t.log, format+"\n", args...) }

func (t *trial) Errorf(format string, args ...any) { t.violated("harness", format, args...) }
func (t *trial) Error(args ...any)                 { t.violated("harness", "%s", fmt.Sprintln(args...)) }

func (t *trial) Fatalf(format string, args ...any) {
	t.violated("harness", format, args...)
	runtime.Goexit()
}

func (t *trial) Fatal(args ...any) { t.Fatalf("%s", fmt.Sprintln(args...)) }
