package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// gate is a fifo that a job can wait at.
func gate(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gate")
	must.Do(t, unix.Mkfifo(path, 0o600))
	return path
}

// What a job writes at once must not wait for its end, be it more than a pipe holds.
func TestAJobThatWritesMoreThanAPipeHolds(t *testing.T) {
	t.Parallel()
	local := newTestLocal(t)
	at := gate(t)
	p := launch(t, local, script("head -c 1000000 /dev/zero; echo written >"+at+"; exec sleep 300"))
	if _, err := os.ReadFile(at); err != nil { // returns when all is written
		t.Fatal(err)
	}
	check.Do(t, p.signal(15))
	if done := p.wait(); done.Signal != "SIGTERM" || done.Stdout.Size != 1_000_000 {
		t.Errorf("signal %s, %d bytes", done.Signal, done.Stdout.Size)
	}
}

func TestAJobThatClosesItsOutputAndRunsOn(t *testing.T) {
	t.Parallel()
	at := gate(t)
	p := launch(t, newTestLocal(t), script("echo out; exec >&- 2>&-; read line <"+at+"; exit 3"))
	<-p.isBegun
	openGate(t, at)
	if done := p.wait(); *done.Code != 3 || string(done.Stdout.Kept) != "out\n" || done.Reason != "" {
		t.Errorf("done %+v", done)
	}
}

// Two jobs that write without end are no reason to learn later of the ends of others.
func TestANoisyJobDoesNotStarveOthers(t *testing.T) {
	t.Parallel()
	local := newTestLocal(t)
	var noisy []watched
	for range 2 {
		p := launch(t, local, script("exec cat /dev/zero"))
		<-p.isBegun
		noisy = append(noisy, p)
	}
	for i := range 20 {
		if done := run(t, local, script(fmt.Sprintf("echo %d", i))); string(done.Stdout.Kept) != fmt.Sprintf("%d\n", i) {
			t.Errorf("done %+v", done)
		}
	}
	for _, p := range noisy {
		check.Do(t, p.signal(9))
		if done := p.wait(); done.Signal != "SIGKILL" || done.Stdout.Size <= int64(len(done.Stdout.Kept)) {
			t.Errorf("signal %s, %d of %d bytes", done.Signal, len(done.Stdout.Kept), done.Stdout.Size)
		}
	}
}

func TestOneTurnReadsAShareOfAPipe(t *testing.T) {
	t.Parallel()
	zero, err := unix.Open("/dev/zero", unix.O_RDONLY|unix.O_CLOEXEC, 0) // never empty
	if err != nil {
		t.Fatal(err)
	}
	c := capture{pipe: zero, limit: 10}
	defer c.close()
	c.read(make([]byte, scratchSize), true)
	if c.size < turnBytes || c.size >= turnBytes+scratchSize {
		t.Errorf("%d bytes were read in one turn, want %d", c.size, turnBytes)
	}
}

// An end that the kernel does not tell of, for want of memory, is looked for.
func TestAnEndIsLearnedWithoutAPidfd(t *testing.T) {
	t.Parallel()
	local := newTestLocal(t)
	for _, text := range []string{"echo out; exit 5", "sleep 300 & echo out; exit 5"} {
		w := prepare(local, script(text))
		must.Do(t, local.spawner.spawn(w.job))
		unix.Close(w.pidfd)
		w.pidfd = -1
		local.watch(w.job)
		if done := w.wait(); *done.Code != 5 || string(done.Stdout.Kept) != "out\n" {
			t.Errorf("%s: done %+v", text, done)
		}
	}
}

func TestAStartTimeIsWhatTheKernelSays(t *testing.T) {
	t.Parallel()
	local := newTestLocal(t)
	var processes []watched
	for range 300 {
		p := launch(t, local, spec{argv: []string{"/bin/sleep", "300"}, maxOutput: 10})
		processes = append(processes, p)
		if got, want := p.started.StartTime, proc.StartTime(p.started.Pid); got != want || got == 0 {
			t.Errorf("start time %d, the kernel says %d", got, want)
		}
	}
	for _, p := range processes {
		check.Do(t, p.signal(9))
		p.wait()
	}
}

func TestOnePipeLingersAndTheOtherIsRead(t *testing.T) {
	t.Parallel()
	local := newLocalWith(t, func(l *reactor) { l.delay = 20 * time.Millisecond })
	done := run(t, local, script("sleep 300 2>&- & echo err >&2"))
	if string(done.Stderr.Kept) != "err\n" || !strings.Contains(done.Reason, "kept its output open") {
		t.Errorf("done %+v", done)
	}
}

// What a process leaves behind may keep its output open for longer. That is not the time that it
// ran.
func TestHowLongAJobRanIsWithoutWhatItLeftBehind(t *testing.T) {
	t.Parallel()
	const delay = 700 * time.Millisecond
	local := newLocalWith(t, func(l *reactor) { l.delay = delay })
	since := proc.Uptime()
	done := run(t, local, script("sleep 300 & exit 0"))
	if waited := time.Duration(proc.Uptime() - since); waited < delay || time.Duration(done.Elapsed)*time.Microsecond > waited-delay {
		t.Errorf("it ran for %v µs; its output was waited for until %v", done.Elapsed, waited)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTestLocal(t *testing.T) *reactor {
	t.Helper()
	return newLocalWith(t, func(*reactor) {})
}

// newLocalWith has a reactor changed before it runs.
func newLocalWith(t *testing.T, change func(*reactor)) *reactor {
	t.Helper()
	l := must.Get(newReactor(&witness{of: make(map[*job]watched)}))(t)
	change(l)
	returned := make(chan error)
	go func() { returned <- l.run() }()
	t.Cleanup(func() {
		l.stop()
		check.Do(t, <-returned)
	})
	return l
}

func script(text string) spec {
	return spec{argv: []string{"/bin/sh", "-c", text}, env: os.Environ(), maxOutput: 1 << 20}
}

// watched is a job that can be waited for.
type watched struct {
	*job
	isBegun, isEnded chan struct{}
}

// witness is a watcher for those who wait.
type witness struct {
	mu      sync.Mutex
	of      map[*job]watched
	refusal refusedError
}

// prepare makes a job that can be waited for, and is not started.
func prepare(l *reactor, what spec) watched {
	w := watched{newJob(wire.ID{}, what), make(chan struct{}), make(chan struct{})}
	all := l.watcher.(*witness)
	all.mu.Lock()
	defer all.mu.Unlock()
	all.of[w.job] = w
	return w
}

func (all *witness) get(j *job) watched {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.of[j]
}

func (all *witness) begun(j *job) { close(all.get(j).isBegun) }

func (all *witness) ended(j *job) { close(all.get(j).isEnded) }

func (all *witness) refused(_ *job, text string, class wire.Class) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.refusal = refusedError{text, class}
}

func (all *witness) tell(wire.Message) bool { return false }

// try starts a job, and gives why that was refused.
func try(l *reactor, what spec) (w watched, refusal refusedError) {
	w = prepare(l, what)
	l.start(w.job)
	all := l.watcher.(*witness)
	all.mu.Lock()
	defer all.mu.Unlock()
	return w, all.refusal
}

func launch(t *testing.T, l *reactor, what spec) watched {
	t.Helper()
	w, refusal := try(l, what)
	must.Equal(t, refusal.text, "")
	return w
}

// wait waits for the end of a process.
func (w watched) wait() journal.Done {
	<-w.isEnded
	return w.done
}

func run(t *testing.T, l *reactor, what spec) journal.Done {
	t.Helper()
	return launch(t, l, what).wait()
}
