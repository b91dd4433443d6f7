package host

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/wire"
	"jobd/store/storetest/check"
)

// limited asks for a job that may run for so long.
func (b *bench) limited(job int64, limit wire.Limit, vars ...string) {
	b.out.Post(wire.Message{
		Kind: wire.Start, ID: id(job), Argv: []string{"kept"}, MaxOutput: 100, Pool: "mail", Vars: vars, Limit: limit,
	})
}

// A job that runs for too long is ended: with its group, which is its process's in a pool. The slot
// goes on.
func TestAKeptJobThatRunsForTooLongIsEnded(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, b *bench, mode string) {
		b.pools(pooled(mode, 1))
		b.limited(1, wire.Limit{Timeout: 200 * time.Millisecond, Kill: time.Hour}, work(mode, "exec sleep 300", `exec "sleep", "300"`))
		if done := b.done(1); done.Signal != "SIGTERM" || done.Timeout != 1 || done.Note != "ended after its timeout of 200ms, with SIGTERM" {
			t.Errorf("done %+v", done)
		}
		b.limited(2, wire.Limit{Timeout: 2 * time.Second, Kill: 200 * time.Millisecond}, // it ignores SIGTERM by then
			work(mode, "trap '' TERM; sleep 300 & while :; do wait; done", `$SIG{TERM} = "IGNORE"; sleep 300 while 1`))
		if done := b.done(2); done.Signal != "SIGKILL" || done.Timeout != 2 || !strings.HasSuffix(done.Note, "SIGKILL") {
			t.Errorf("done %+v", done)
		}
		b.limited(3, wire.Limit{Timeout: 2 * time.Second, Kill: time.Hour}, // it has joined the group by then
			work(mode, "exec perl -e 'setpgrp(0, getpgrp(getppid())) or die; sleep 20'", "select(undef, undef, undef, 0.1); setpgrp(0, getpgrp(getppid())) or die; sleep 20"))
		if done := b.done(3); done.Signal != "SIGTERM" {
			t.Errorf("it had joined another group: done %+v", done)
		}
		b.limited(4, wire.Limit{Timeout: time.Hour}, work(mode, "echo out", `print "out\n"`))
		if done := b.done(4); done.Result != "ok" || done.Timeout != 0 || string(done.Stdout.Kept) != "out\n" {
			t.Errorf("done %+v", done)
		}
	})
}

// A signal reaches the job, also where it was sent before the job had begun. A pool process that
// was signalled takes no more jobs; a parent does.
func TestKeptJobsAreSignalled(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, b *bench, mode string) {
		b.pools(pooled(mode, 1))
		first := b.run(1, pid(mode))
		b.start(2, work(mode, "exec sleep 300", "sleep 300"))
		b.of(2, wire.Started)
		b.out.Post(wire.Message{Kind: wire.Signal, ID: id(2), Signo: 9})
		if m := b.of(2, wire.Signalled); m.Text != "" {
			t.Errorf("signalled %+v", m)
		}
		if done := b.done(2); done.Signal != "SIGKILL" || done.Note != "" {
			t.Errorf("done %+v", done)
		}
		b.start(3, work(mode, "exec sleep 300", "sleep 300"))
		b.out.Post(wire.Message{Kind: wire.Signal, ID: id(3), Signo: 15})
		if done := b.done(3); done.Signal != "SIGTERM" {
			t.Errorf("done %+v", done)
		}
		last := b.run(4, pid(mode))
		if same := string(first.Stdout.Kept) == string(last.Stdout.Kept); same != (mode == "fork") {
			t.Errorf("process %s, then %s", first.Stdout.Kept, last.Stdout.Kept)
		}
		b.out.Post(wire.Message{Kind: wire.Signal, ID: id(4), Signo: 15})
		if m := b.of(4, wire.Signalled); m.Text == "" {
			t.Error("a job that has ended was signalled")
		}
	})
}

// Output is kept up to the limit, with whatever bytes, and each job has its own.
func TestOutputOfKeptJobs(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, b *bench, mode string) {
		b.pools(pooled(mode, 1))
		for job, size := range []int{0, 1, 99, 100, 101, 65536, 65537, 1 << 20, 5 << 20} {
			id := int64(job + 1)
			b.limited(id, wire.Limit{}, work(mode, `head -c $SIZE /dev/zero; head -c $SIZE /dev/zero >&2`,
				`print "\0" x $ENV{SIZE}; print STDERR "\0" x $ENV{SIZE}`), "SIZE="+strconv.Itoa(size))
			done := b.done(id)
			for _, o := range []int64{done.Stdout.Size, done.Stderr.Size} {
				check.Equal(t, o, int64(size), "bytes of %d", size)
			}
			check.Equal(t, len(done.Stdout.Kept), min(size, 100), "bytes were kept")
		}
	})
}

// The worker is killed: jobs run on, and the next worker is told of them and of their true ends.
func TestKeptJobsOutliveTheWorker(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, b *bench, mode string) {
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
	done := b.run(1, "DO=echo $id >>"+jobs)
	check.Equal(t, done.Result, "ok", "done %+v", done)
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
	done := b.done(1)
	check.Equal(t, string(done.Stdout.Kept), "out\n", "done %+v", done)
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
