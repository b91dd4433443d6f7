package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/journal"
)

// gate is a fifo that a job can wait at.
func gate(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gate")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAJobIsSaidToRunOnlyIfItRunsForAWhile(t *testing.T) {
	t.Parallel()
	local := newLocal(t)
	at := gate(t)
	long := start(t, local, script("read line <"+at))
	<-long.Begun()
	if closed(long.Ended()) {
		t.Error("it ended before it was let go")
	}
	if err := os.WriteFile(at, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	wait(long)
}

// What a job writes at once must not wait for its end, be it more than a pipe holds.
func TestAJobThatWritesMoreThanAPipeHolds(t *testing.T) {
	t.Parallel()
	local := newLocal(t)
	at := gate(t)
	p := start(t, local, script("head -c 1000000 /dev/zero; echo written >"+at+"; exec sleep 300"))
	if _, err := os.ReadFile(at); err != nil { // returns when all is written
		t.Fatal(err)
	}
	if err := p.Signal(15); err != nil {
		t.Error(err)
	}
	if done, _ := wait(p); done.Signal != "SIGTERM" || done.Stdout.Size != 1_000_000 {
		t.Errorf("signal %s, %d bytes", done.Signal, done.Stdout.Size)
	}
}

func TestAJobThatClosesItsOutputAndRunsOn(t *testing.T) {
	t.Parallel()
	at := gate(t)
	p := start(t, newLocal(t), script("echo out; exec >&- 2>&-; read line <"+at+"; exit 3"))
	<-p.Begun()
	if err := os.WriteFile(at, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	if done, _ := wait(p); *done.Code != 3 || string(done.Stdout.Kept) != "out\n" || done.Reason != "" {
		t.Errorf("done %+v", done)
	}
}

// Two jobs that write without end are no reason to learn later of the ends of others.
func TestANoisyJobDoesNotStarveOthers(t *testing.T) {
	t.Parallel()
	local := newLocal(t)
	var noisy []jobexec.Process
	for range 2 {
		p := start(t, local, script("exec cat /dev/zero"))
		<-p.Begun()
		noisy = append(noisy, p)
	}
	for i := range 20 {
		if done := run(t, local, script(fmt.Sprintf("echo %d", i))); string(done.Stdout.Kept) != fmt.Sprintf("%d\n", i) {
			t.Errorf("done %+v", done)
		}
	}
	for _, p := range noisy {
		if err := p.Signal(9); err != nil {
			t.Error(err)
		}
		if done, _ := wait(p); done.Signal != "SIGKILL" || done.Stdout.Size <= int64(len(done.Stdout.Kept)) {
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
	c := capture{pipe: zero, limit: 10, rest: &rest{sink: -1}}
	defer c.close()
	c.read(make([]byte, scratchSize), true)
	if c.size < turnBytes || c.size >= turnBytes+scratchSize {
		t.Errorf("%d bytes were read in one turn, want %d", c.size, turnBytes)
	}
}

// What is not kept is counted to the last byte, moved or read, in usual and in wide pipes.
func TestTheRestIsCounted(t *testing.T) {
	t.Parallel()
	for _, before := range []rest{{}, {copies: true}, {wide: mostWide}, {wide: mostWide, copies: true}} {
		local := newLocalWith(t, func(l *Local) { l.rest.copies, l.rest.wide = before.copies, before.wide })
		var group sync.WaitGroup
		for _, c := range []struct{ limit, size int }{
			{0, 1}, {0, 3<<20 + 1}, {1, 3 << 20}, {scratchSize, scratchSize + 1}, {1 << 20, 5<<20 + 7}, {8 << 20, 5 << 20},
		} {
			group.Go(func() {
				spec := script(fmt.Sprintf("head -c %d /dev/zero; echo end >&2", c.size))
				spec.MaxOutput = c.limit
				done := run(t, local, spec)
				if len(done.Stdout.Kept) != min(c.limit, c.size) || done.Stdout.Size != int64(c.size) || done.Stderr.Size != 4 {
					t.Errorf("%+v: %d of %d bytes, want %d; kept %d of %d",
						before, done.Stdout.Size, c.size, c.size, len(done.Stdout.Kept), c.limit)
				}
			})
		}
		group.Wait()
		if local.rest.copies != before.copies {
			t.Errorf("%+v: this kernel moves nothing from a pipe to /dev/null", before)
		}
		if local.rest.wide != before.wide {
			t.Errorf("%+v: %d pipes are taken for wide at the end", before, local.rest.wide)
		}
	}
}

// Kernels before 5.2 give no pidfd: a thread waits for the end.
func TestAnEndIsLearnedWithoutAPidfd(t *testing.T) {
	t.Parallel()
	local := newLocal(t)
	for _, text := range []string{"echo out; exit 5", "sleep 300 & echo out; exit 5"} {
		j := job{child: &child{}, isBegun: make(chan struct{}), isEnded: make(chan struct{})}
		c := &child{local: local, watcher: j, pidfd: -1}
		if err := local.spawn(script(text), c); err != nil {
			t.Fatal(err)
		}
		unix.Close(c.pidfd)
		c.pidfd = -1
		local.watch(c)
		<-j.isEnded
		if *c.done.Code != 5 || string(c.done.Stdout.Kept) != "out\n" {
			t.Errorf("%s: done %+v", text, c.done)
		}
	}
}

func TestAStartTimeIsWhatTheKernelSays(t *testing.T) {
	t.Parallel()
	local := newLocal(t)
	var processes []jobexec.Process
	for range 300 {
		p := start(t, local, jobexec.Spec{Argv: []string{"/bin/sleep", "300"}, MaxOutput: 10})
		processes = append(processes, p)
		if got, want := p.Started().StartTime, startTime(p.Started().Pid); got != want || got == 0 {
			t.Errorf("start time %d, the kernel says %d", got, want)
		}
	}
	for _, p := range processes {
		if err := p.Signal(9); err != nil {
			t.Error(err)
		}
		wait(p)
	}
}

// childrenOf counts the children of a process, zombies among them.
func childrenOf(t *testing.T, pid int) (n int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("children of %d: %v", pid, err)
	}
	for _, file := range files {
		list, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended meanwhile
		}
		n += len(strings.Fields(string(list)))
	}
	return n
}

func TestNoZombieIsLeft(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	runner := runnerOf(t, remote)
	for job := range int64(50) {
		wait(begin(t, remote, job, "exit 0"))
		remote.Forget(job, 1)
	}
	if n := childrenOf(t, runner); n != 0 {
		t.Errorf("the runner has %d children", n)
	}
}

// A short job costs one message.
func TestAShortJobIsToldOfOnce(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	told := make(chan string, 2)
	spec := jobexec.Spec{
		Job: 1, Attempt: 1, Argv: []string{"/bin/true"}, MaxOutput: 10,
		OnBegun: func() { told <- "begun" }, OnEnded: func() { told <- "ended" },
	}
	p := asked(t, remote, spec)
	done, err := wait(p)
	for what := range told {
		if what == "ended" {
			break
		}
	}
	if err != nil || *done.Code != 0 {
		t.Errorf("done %+v: %v", done, err)
	}
	if got := p.Started(); got.Pid == 0 || got.StartTime == 0 || got.BootID == "" || !closed(p.Begun()) {
		t.Errorf("the end does not say which process it was: %+v", got)
	}
	remote.Forget(1, 1)
}

// Whoever signals a job is told what it is first.
func TestASignalRightBehindTheStart(t *testing.T) {
	t.Parallel()
	remote := open(t, t.TempDir())
	for job := range int64(20) {
		spec := script("exec sleep 300")
		spec.Job, spec.Attempt = job, 1
		p := asked(t, remote, spec)
		if err := p.Signal(9); err != nil {
			t.Errorf("signal: %v", err)
		}
		if !closed(p.Begun()) || p.Started() == (journal.Started{}) {
			t.Error("a signalled job is not known to run")
		}
		if done, err := wait(p); err != nil || done.Signal != "SIGKILL" || done.Note != "" {
			t.Errorf("done %+v: %v", done, err)
		}
		remote.Forget(job, 1)
	}
}

func TestOnePipeLingersAndTheOtherIsRead(t *testing.T) {
	t.Parallel()
	local := newLocalWith(t, func(l *Local) { l.delay = 20 * time.Millisecond })
	done := run(t, local, script("sleep 300 2>&- & echo err >&2"))
	if string(done.Stderr.Kept) != "err\n" || !strings.Contains(done.Reason, "kept its output open") {
		t.Errorf("done %+v", done)
	}
}
