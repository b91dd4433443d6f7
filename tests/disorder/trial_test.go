package disorder

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"jobd/store/storetest/must"
)

// violation is a rule that did not hold.
type violation struct {
	rule string // names the rule: while shrinking only violations of the same rule count
	text string
}

// trial is one run of one schedule. It stands in for the test, towards the harness, so that what
// fails can be run again, smaller, before the test fails. Its folder stays where a rule did not hold.
type trial struct {
	testing.TB
	dir     string
	begun   time.Time
	ctx     context.Context
	cancel  context.CancelFunc
	log     *os.File
	slowest time.Duration // the longest time at a quiet point in which nothing happened

	mu       sync.Mutex
	found    []violation
	cleanups []func()
	folders  int
}

// try runs a schedule on a server and gives what did not hold.
func try(t testing.TB, lane *lane, s schedule) *trial {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "jobd-disorder-"))(t)
	log := must.Get(os.Create(filepath.Join(dir, "trial.log")))(t)
	tr := &trial{TB: t, dir: dir, log: log, begun: time.Now()}
	tr.ctx, tr.cancel = context.WithTimeout(t.Context(), mostTime)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer tr.cleanUp()
		tr.Logf("schedule: %s", s)
		run(tr, lane, s)
	}()
	<-ended
	log.Close()
	if len(tr.found) == 0 {
		tr.remove()
	}
	return tr
}

// mostTime is how long a trial may take in all.
const mostTime = 4 * time.Minute

// remove removes what the trial left for whoever looks into a violation.
func (t *trial) remove() { _ = os.RemoveAll(t.dir) }

// verdict is the violations in words; "" where there are none.
func (t *trial) verdict() string {
	var text strings.Builder
	for _, v := range t.found {
		fmt.Fprintf(&text, "  %s: %s\n", v.rule, v.text)
	}
	return text.String()
}

// rule is the rule that was violated first.
func (t *trial) rule() string {
	if len(t.found) == 0 {
		return ""
	}
	return t.found[0].rule
}

// violated notes that a rule did not hold; the trial goes on.
func (t *trial) violated(rule, format string, args ...any) {
	v := violation{rule, fmt.Sprintf(format, args...)}
	t.Logf("VIOLATED %s: %s", v.rule, v.text)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.found = append(t.found, v)
}

// cleanUp runs all cleanups, the newest first. One that fails ends only its own goroutine.
func (t *trial) cleanUp() {
	t.cancel()
	for _, clean := range slices.Backward(t.cleanups) {
		var wait sync.WaitGroup
		wait.Go(clean)
		wait.Wait()
	}
}

// What the harness asks of a test.

func (t *trial) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

func (t *trial) TempDir() string {
	t.folders++
	dir := filepath.Join(t.dir, fmt.Sprintf("%02d", t.folders))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatalf("make a folder: %v", err)
	}
	return dir
}

func (t *trial) Context() context.Context { return t.ctx }

func (t *trial) Helper() {}

func (t *trial) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.found) > 0
}

func (t *trial) Logf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.log, "%s +%.3f %s\n", time.Now().Format("15:04:05.000000"), time.Since(t.begun).Seconds(), fmt.Sprintf(format, args...))
}

func (t *trial) Log(args ...any)                   { t.Logf("%s", fmt.Sprintln(args...)) }
func (t *trial) Errorf(format string, args ...any) { t.violated("harness", format, args...) }
func (t *trial) Error(args ...any)                 { t.violated("harness", "%s", fmt.Sprintln(args...)) }
func (t *trial) Fail()                             { t.violated("harness", "failed") }
func (t *trial) FailNow()                          { t.Fail(); runtime.Goexit() }

func (t *trial) Fatalf(format string, args ...any) {
	t.violated("harness", format, args...)
	runtime.Goexit()
}

func (t *trial) Fatal(args ...any) { t.Fatalf("%s", fmt.Sprintln(args...)) }
