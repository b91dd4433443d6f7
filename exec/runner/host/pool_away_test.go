package host

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/wire"
)

// The worker is killed: jobs run on, and the next worker is told of them and of their true ends.
func TestKeptJobsOutliveTheWorker(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"fork", "pool"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.pools(pooled(mode, 2))
			at := gate(t)
			b.start(1, work(mode, "read line <"+at+"; echo out; code=4", `open(my $g, "<", "`+at+`"); <$g>; print "out\n"; exit 4`))
			b.start(2, work(mode, "echo done", `print "done\n"`))
			b.of(1, wire.Started)
			b.of(2, wire.Ended)
			b.leave()
			b.connect()
			listed := map[int64]bool{}
			for _, j := range b.hello.Jobs {
				if !j.IsWord() {
					listed[j.ID.Job] = j.Started.Pid > 0 && j.Started.StartTime > 0 && j.Started.BootID != ""
				}
			}
			if !listed[1] || !listed[2] || len(listed) != 2 {
				t.Errorf("the next worker hears of %v", b.hello.Jobs)
			}
			if done := b.done(2); string(done.Stdout.Kept) != "done\n" {
				t.Errorf("done %+v", done)
			}
			b.stands("it is told how the pool stands", func(s wire.Standing) bool { return s.Busy == 1 && s.Ready > 0 })
			openGate(t, at)
			if done := b.done(1); done.Code == nil || *done.Code != 4 || string(done.Stdout.Kept) != "out\n" {
				t.Errorf("done %+v", done)
			}
		})
	}
}

// What no process was asked for when the worker went is not started: the next one hears nothing of
// it, and asks anew.
func TestWhatWaitsWithoutAWorkerIsNotStarted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := pooled("pool", 1)
	at, jobs := gate(t), filepath.Join(t.TempDir(), "jobs")
	p.Argv[2] = "read line <" + at + "; " + p.Argv[2]
	b.pools(p)
	b.stands("it boots", func(s wire.Standing) bool { return s.Booting == 1 && s.Processes == 1 })
	b.start(1, "DO=echo $id >>"+jobs)
	b.leave()
	b.connect()
	for _, j := range b.hello.Jobs {
		if !j.IsWord() {
			t.Errorf("the next worker hears of %+v", j)
		}
	}
	openGate(t, at)
	if done := b.run(1, "DO=echo $id >>"+jobs); done.Result != "ok" {
		t.Errorf("done %+v", done)
	}
	if ran, err := os.ReadFile(jobs); string(ran) != "1\n" {
		t.Errorf("it ran %q: %v", ran, err)
	}
}

// A worker that comes while a process has not answered is told of its job once it has.
func TestAWorkerThatComesHearsWhichProcessItIs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := pooled("fork", 1)
	at, here := gate(t), gate(t)
	p.Argv[2] = strings.Replace(forkLoop, "my $pid = fork();",
		`open(my $h, ">", "`+here+`"); close $h; open(my $g, "<", "`+at+`"); <$g>; my $pid = fork();`, 1)
	b.pools(p)
	b.start(1, `DO=print "out\n"`)
	if _, err := os.ReadFile(here); err != nil { // it has read the order
		t.Fatal(err)
	}
	b.leave()
	go func() { _ = os.WriteFile(at, []byte("go\n"), 0) }()
	b.connect()
	if !slices.ContainsFunc(b.hello.Jobs, func(j wire.Job) bool { return j.ID == id(1) }) {
		t.Errorf("the next worker hears of %+v", b.hello.Jobs)
	}
	if done := b.done(1); string(done.Stdout.Kept) != "out\n" {
		t.Errorf("done %+v", done)
	}
}

// When the runner ends, its processes do, be it by signals.
func TestProcessesEndWithTheRunner(t *testing.T) {
	t.Parallel()
	b := newBenchWith(t, func(ps *pools) { ps.times.quit = 100 * time.Millisecond })
	p := pooled("pool", 2)
	here := gate(t)
	p.Argv[2] = "trap '' TERM; echo $$ >" + here + "; echo ready >&4; while :; do sleep 300; done"
	p.Slots = 1
	b.pools(p)
	pid := pidIn(t, here)
	b.stands("it is ready", func(s wire.Standing) bool { return s.Ready == 1 })
	b.leave()
	b.local.pools.shutdown()
	if err := unix.Kill(pid, 0); err != unix.ESRCH {
		t.Errorf("it lives on: %v", err)
	}
}

// A process whose runner is gone reads the end of its orders, and ends.
func TestProcessesEndWithoutTheirRunner(t *testing.T) {
	t.Parallel()
	here := gate(t)
	pid := 0
	t.Run("a runner", func(t *testing.T) {
		b := newBench(t)
		p := pooled("pool", 1)
		p.Argv[2] = "echo $$ >" + here + "; " + p.Argv[2]
		b.pools(p)
		pid = pidIn(t, here)
		b.stands("it is ready", func(s wire.Standing) bool { return s.Ready == 1 })
		b.leave()
		closed := make(chan struct{})
		b.local.do(func() { // as the kernel does when the runner is killed
			for _, k := range b.local.pools.processes {
				unix.Close(k.orders.ours)
				k.orders.ours = -1
			}
			close(closed)
		})
		<-closed
		var info unix.Siginfo
		for unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
		}
	})
}
