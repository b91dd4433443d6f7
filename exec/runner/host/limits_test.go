package host

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proctest"
	"jobd/exec/runner/wire"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// limited is a script that may run for so long.
func limited(text string, timeout, kill time.Duration) spec {
	what := script(text)
	what.limit = wire.Limit{Timeout: timeout, Kill: kill}
	return what
}

// traceMe begins a program whose signals stop it, and are told to its tracer, which is its parent.
var traceMe = fmt.Sprintf("exec perl -e 'syscall(%d, 0, 0, 0, 0) == 0 or die; ", unix.SYS_PTRACE)

// asLong is as much time between the signals as before them.
const asLong = -1

// The job ends as it does upon its signals. It has failed, whatever its exit code.
func TestAJobThatRunsForTooLongIsEnded(t *testing.T) {
	t.Parallel()
	const term = "ended after its timeout of SOON, with SIGTERM"
	tests := []struct {
		name, script string
		kill         time.Duration // asLong: as the timeout
		code         any
		signal, note string
	}{
		{"it knows no SIGTERM", "exec sleep 300", time.Hour, nil, "SIGTERM", term},
		{"it ends in order", "trap 'exit 0' TERM; sleep 300 & wait", time.Hour, 0, "", term},
		{"it ends with a code", "trap 'exit 7' TERM; sleep 300 & wait", time.Hour, 7, "", term},
		{"it ignores SIGTERM", "trap '' TERM; exec sleep 300", asLong, nil, "SIGKILL", term + " and, SOON later, SIGKILL"},
		{"it is stopped", "trap 'exit 7' TERM; kill -STOP $$; exit 1", time.Hour, 7, "", term},
		{"it is stopped and ignores SIGTERM", "trap '' TERM; while :; do kill -STOP $$; done", asLong, nil, "SIGKILL", term + " and, SOON later, SIGKILL"},
		{"its children ignore SIGTERM", "(trap '' TERM; exec sleep 300) & exec sleep 300", time.Hour, nil, "SIGTERM", term},
		{"it has closed its output", "exec >&- 2>&-; exec sleep 300", time.Hour, nil, "SIGTERM", term},
		{"it has joined another group", "exec perl -e 'setpgrp(0, getpgrp(getppid())) or die; sleep 20'", time.Hour, nil, "SIGTERM", term},
		{"it has joined one and left a child in its own", "sleep 300 & exec perl -e 'setpgrp(0, getpgrp(getppid())) or die; sleep 20'", time.Hour, nil, "SIGTERM", term},
		{"it has us trace it, and has stopped", traceMe + "kill STOP => $$; sleep 20'", asLong, nil, "SIGKILL", term + " and, SOON later, SIGKILL"},
		{"there is no time between the two", "trap '' TERM; exec sleep 300", 0, nil, "SIGKILL", term + " and, 0s later, SIGKILL"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			local := newTestLocal(t)
			// On a busy machine the script may not have come to its trap.
			for _, soon := range []time.Duration{100 * time.Millisecond, time.Second, 10 * time.Second} {
				kill := test.kill
				if kill == asLong {
					kill = soon
				}
				p := launch(t, local, limited(test.script, soon, kill))
				done := p.wait()
				note := strings.ReplaceAll(test.note, "SOON", soon.String())
				if done.Result != "fail" || int64(done.Timeout) != int64(max(soon, time.Second)/time.Second) {
					t.Errorf("done %s timeout %d", done.Result, done.Timeout)
				}
				if done.Elapsed < soon.Microseconds() {
					t.Errorf("it was ended after %d µs", done.Elapsed)
				}
				gone(t, p.started.Pid)
				if done.Signal == test.signal && deref(done.Code) == test.code && done.Note == note {
					return
				}
				t.Logf("code %v signal %q note %q, want %q", deref(done.Code), done.Signal, done.Note, note)
			}
			t.Error("it did not end as it was to")
		})
	}
}

// gone waits until nothing of a group lives any more.
func gone(t *testing.T, group int) {
	t.Helper()
	proctest.Until(t, "nothing of its group lives", func() bool { return !lives(t, group) })
}

// lives tells whether a process of a group has not ended, be it reaped or not.
func lives(t *testing.T, group int) bool {
	t.Helper()
	stats := must.Get(filepath.Glob("/proc/[0-9]*/stat"))(t)
	for _, path := range stats {
		stat, _ := os.ReadFile(path) // it may be gone by now
		_, rest, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(rest); len(fields) > 2 && fields[0] != "Z" && fields[0] != "X" && fields[2] == strconv.Itoa(group) {
			return true
		}
	}
	return false
}

// A process that has left the group is not reached. The job's end is told all the same, though that
// process keeps the output open.
func TestAProcessThatHasLeftTheGroupIsNotReached(t *testing.T) {
	t.Parallel()
	local := newLocalWith(t, func(l *reactor) { l.delay = 20 * time.Millisecond })
	pidFile := filepath.Join(t.TempDir(), "pid")
	done := run(t, local, limited("setsid sh -c 'echo $$ >"+pidFile+"; exec sleep 300' & wait", 4*time.Second, time.Hour))
	if done.Signal != "SIGTERM" || done.Timeout != 4 || !strings.Contains(done.Reason, "kept its output open") {
		t.Errorf("done %+v", done)
	}
	killFromFile(t, pidFile)
}

// Limits ring in the order in which they are over, not in that in which jobs were started.
func TestLimitsRingInTheirOrder(t *testing.T) {
	t.Parallel()
	local := newTestLocal(t)
	patient := launch(t, local, limited("exec sleep 300", time.Hour, 0))
	for _, timeout := range []time.Duration{300 * time.Millisecond, 20 * time.Millisecond} {
		if done := run(t, local, limited("exec sleep 300", timeout, time.Hour)); done.Signal != "SIGTERM" {
			t.Errorf("done %+v", done)
		}
	}
	check.Do(t, patient.signal(9))
	if done := patient.wait(); done.Timeout != 0 || done.Note != "" {
		t.Errorf("killed by a request, it ended with %+v", done)
	}
}

// Its end was first, though nobody has seen it yet: no signal is sent, and nothing is said of the
// limit.
func TestAnEndBeforeTheSignalWins(t *testing.T) {
	t.Parallel()
	local := newTestLocal(t)
	w := prepare(local, limited("exit 0", 1, 0))
	must.Do(t, local.spawner.spawn(w.job))
	for unix.Waitid(unix.P_PID, w.started.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	if w.overrun() || w.over.Happened() {
		t.Error("a signal was sent to a process that is gone")
	}
	local.watch(w.job)
	if done := w.wait(); done.Result != "ok" || done.Timeout != 0 || done.Note != "" {
		t.Errorf("done %+v", done)
	}
	if w.overrun() {
		t.Error("a signal was sent to whoever has its number now")
	}
}

// A short job leaves nothing behind, however long it might have run.
func TestNothingIsKeptOfJobsThatEndInTime(t *testing.T) {
	t.Parallel()
	local := newTestLocal(t)
	const decade = 10 * 365 * 24 * time.Hour
	for _, timeout := range []time.Duration{time.Minute, time.Hour, 2 * decade, math.MaxInt64, time.Minute} {
		done := run(t, local, limited("exit 0", timeout, decade))
		check.Equal(t, done.Result, "ok", "%s: done %+v", timeout, done)
	}
	local.mu.Lock()
	defer local.mu.Unlock()
	check.Equal(t, len(local.children), 0, "limits are kept of jobs that have ended")
}
