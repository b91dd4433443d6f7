package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// pid is a job that says which process it runs in, or was forked from.
func pid(mode string) string { return work(mode, "printf $$", "print getppid()") }

// A process is replaced after so many jobs: it never has more. Each job runs once.
func TestProcessesAreReplacedAfterSoManyJobs(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"fork", "pool"} {
		for _, most := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s %d", mode, most), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				p := pooled(mode, 2)
				p.MaxJobs = most
				b.pools(p)
				jobs := map[string]int{}
				for job := int64(1); job <= 8; job++ {
					done := b.run(job, pid(mode))
					must.Equal(t, done.Result, "ok", "done %+v", done)
					jobs[string(done.Stdout.Kept)]++
				}
				for pid, n := range jobs {
					if n > most {
						t.Errorf("process %s had %d jobs", pid, n)
					}
				}
				b.stands("they were replaced", func(s wire.Standing) bool { return s.Recycled["max_jobs"] >= int64(8/most-2) && s.Jobs == 8 })
			})
		}
	}
}

// Processes are replaced when they are too old, too large, or other ones are wanted; and without a
// pause: where all are ready, one is ready at any time.
func TestProcessesAreReplaced(t *testing.T) {
	t.Parallel()
	for reason, change := range map[string]func(b *bench, p *wire.Pool){
		"max_age":                            func(_ *bench, p *wire.Pool) { p.MaxAge = 300 * time.Millisecond },
		"reload, with another configuration": func(b *bench, p *wire.Pool) { p.Env = append(p.Env, "MORE=1"); b.pools(*p) },
		"reload":                             func(b *bench, p *wire.Pool) { b.recycle(p, "reload") },
		"recycle":                            func(b *bench, p *wire.Pool) { b.recycle(p, "Somebody asked for it") },
		"watch": func(_ *bench, p *wire.Pool) {
			if err := os.WriteFile(p.Argv[0]+".new", []byte("#!/bin/bash\n# new\n"+shellLoop), 0o700); err != nil {
				panic(err)
			}
			if err := os.Rename(p.Argv[0]+".new", p.Argv[0]); err != nil {
				panic(err)
			}
		},
	} {
		for _, mode := range []string{"fork", "pool"} {
			t.Run(reason+" "+mode, func(t *testing.T) {
				t.Parallel()
				b := newBenchWith(t, func(ps *pools) { ps.times.tick = 20 * time.Millisecond })
				p := pooled(mode, 2)
				counted, _, _ := strings.Cut(reason, ",")
				if reason == "watch" {
					file := filepath.Join(t.TempDir(), "launcher")
					must.Do(t, os.WriteFile(file, []byte("#!"+p.Argv[0]+"\n"+p.Argv[2]), 0o700))
					p.Argv, p.Watch = []string{file}, true
				}
				if reason == "max_age" {
					change(b, &p)
				}
				b.pools(p)
				b.stands("all are ready", func(s wire.Standing) bool { return s.Ready == 2 })
				b.mu.Lock()
				b.standing = func(s wire.Standing) {
					if s.Ready+s.Busy < 2 || s.Processes > 2*2+1 {
						t.Errorf("standing %+v", s)
					}
				}
				b.mu.Unlock()
				if reason != "max_age" {
					change(b, &p)
				}
				b.stands("both were replaced", func(s wire.Standing) bool { return s.Recycled[counted] >= 2 && s.Ready == 2 && s.Boots >= 4 })
			})
		}
	}
}

// A process that has become too large takes no more jobs.
func TestAProcessThatIsTooLargeIsReplaced(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := pooled("pool", 1)
	p.MaxMemory = 20 << 20
	b.pools(p)
	first := b.run(1, `DO=printf $$`)
	if done := b.run(2, `DO=printf $$; big=$(head -c 30000000 /dev/zero | tr '\0' x)`); string(done.Stdout.Kept) != string(first.Stdout.Kept) {
		t.Errorf("it was replaced before it was too large: %s, then %s", first.Stdout.Kept, done.Stdout.Kept)
	}
	if done := b.run(3, `DO=printf $$`); string(done.Stdout.Kept) == string(first.Stdout.Kept) {
		t.Error("it has another job")
	}
	b.noted("more than max_memory")
	b.stands("it was replaced", func(s wire.Standing) bool { return s.Recycled["max_memory"] == 1 })
}

// Processes that nobody needs end, and come back when somebody does.
func TestProcessesThatNobodyNeedsEnd(t *testing.T) {
	t.Parallel()
	b := newBenchWith(t, func(ps *pools) { ps.times.tick = 20 * time.Millisecond })
	p := pooled("pool", 2)
	p.IdleTimeout = 50 * time.Millisecond
	b.pools(p)
	b.stands("all have ended", func(s wire.Standing) bool { return s.Processes == 0 && s.Recycled["idle_timeout"] == 2 })
	done := b.run(1, "DO=echo out")
	check.Equal(t, string(done.Stdout.Kept), "out\n", "done %+v", done)
	b.stands("it has ended again", func(s wire.Standing) bool { return s.Processes == 0 && s.Recycled["idle_timeout"] == 3 })
}

// Fewer slots, and a pool that is wanted no more: what has a job ends when it has done it.
func TestAPoolThatIsWantedNoMoreEndsWithItsJobs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := pooled("pool", 3)
	b.pools(p)
	b.stands("all are ready", func(s wire.Standing) bool { return s.Ready == 3 })
	p.Slots = 1
	b.pools(p)
	b.stands("one is left", func(s wire.Standing) bool { return s.Processes == 1 })
	at := gate(t)
	b.start(1, "DO=read line <"+at+"; echo out")
	b.of(1, wire.Started)
	b.pools()
	b.start(2)
	m := b.of(2, wire.Refused)
	check.Equal(t, m.Class, wire.Short, "refused %+v", m)
	openGate(t, at)
	if done := b.done(1); done.Result != "ok" || string(done.Stdout.Kept) != "out\n" {
		t.Errorf("done %+v", done)
	}
	b.until("it is gone", func() bool { return len(b.standings) == 0 })
}

// Regression: a job that had waited for its process was told that its time was over before it began.
func TestAJobThatHasWaitedIsToldWhenItIsEnded(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, b *bench, mode string) {
		b.pools(pooled(mode, 1))
		longAgo := time.Now().Add(-time.Hour).Unix() // when the worker reckoned, with a timeout
		begun := time.Now().Truncate(time.Second)
		b.out.Post(wire.Message{
			Kind: wire.Start, ID: id(1), Argv: []string{"kept"}, MaxOutput: 1 << 20, Pool: "mail",
			Limit: wire.Limit{Timeout: 10 * time.Minute},
			Vars:  []string{"JOBD_ATTEMPT=1", fmt.Sprint("JOBD_DEADLINE=", longAgo), work(mode, "echo $JOBD_DEADLINE", `print $ENV{JOBD_DEADLINE}`)},
		})
		out := strings.TrimSpace(string(b.done(1).Stdout.Kept))
		if at, err := strconv.ParseInt(out, 10, 64); err != nil || at < begun.Add(10*time.Minute).Unix() || at > time.Now().Add(10*time.Minute).Unix() {
			t.Errorf("it is told %q, and began after %d", out, begun.Unix())
		}
	})
}

// A runner that stood still, as with SIGSTOP or on a host that was asleep, kills nobody for that:
// what was answered meanwhile counts, and who has not answered has his time anew.
func TestARunnerThatStoodStillKillsNobody(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answered bool // before the runner goes on
		late     time.Duration
	}{
		"the answer is there":          {true, time.Millisecond},
		"the answer is there for long": {true, time.Hour},
		"the process stood still, too": {false, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBenchWith(t, func(ps *pools) { ps.times.answer = time.Minute })
			p := pooled("pool", 1)
			at := gate(t)
			p.Argv[2] = "exec 5<>" + at + "; " + shellLoop[:len("echo ready >&4\n")] + `while read -r word id rest <&3; do
  test "$word" = quit && exit 0
  read line <&5; echo "started $id" >&4; echo out; echo "exit $id 0" >&4
done`
			b.pools(p)
			b.start(1)
			b.stands("it is asked", func(s wire.Standing) bool { return s.Busy == 1 })
			if test.answered {
				stood, goes := make(chan bool), make(chan bool)
				b.local.do(func() { close(stood); <-goes; b.late(test.late, true) })
				<-stood
				openGate(t, at)
				close(goes)
			} else {
				looked := make(chan bool)
				b.local.do(func() { b.late(test.late, false); close(looked) })
				<-looked
				openGate(t, at)
			}
			if done := b.done(1); done.Result != "ok" || string(done.Stdout.Kept) != "out\n" {
				t.Errorf("done %+v", done)
			}
		})
	}
}

// late has the deadline of the one process be over for so long, with its answer there or not.
func (b *bench) late(by time.Duration, answered bool) {
	ps := b.local.pools
	for _, k := range ps.processes {
		if answered {
			fds := []unix.PollFd{{Fd: int32(k.answers.ours), Events: unix.POLLIN}}
			if n, err := unix.Poll(fds, int(time.Minute/time.Millisecond)); n != 1 {
				panic(fmt.Sprint("no answer came: ", err))
			}
		}
		k.deadline = proc.Uptime() - int64(by)
	}
	ps.onTimer(proc.Uptime())
}

// What a process has left behind may write answers for ever, faster than they are read: nobody is
// held up by that.
func TestAnswersWithoutAnEndHoldNobodyUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.pools(pooled("pool", 1))
	path := t.TempDir() + "/pid"
	b.run(1, "DO=setsid bash -c 'echo $$ >"+path+"; exec cat /dev/zero >&4' & disown; until test -s "+path+"; do sleep 0.01; done")
	pid := must.Get(os.ReadFile(path))(t)
	stranger := must.Get(strconv.Atoi(strings.TrimSpace(string(pid))))(t)
	defer unix.Kill(stranger, unix.SIGKILL) //nolint:errcheck // it may be gone
	b.noted("which is no answer: it is not the process that said ready")
	for job := int64(2); job < 10; job++ {
		done := b.run(job, "DO=echo out")
		check.Equal(t, string(done.Stdout.Kept), "out\n", "done %+v", done)
	}
}

// Regression: what a job leaves behind is killed, but may complete a write into the pipes by which the
// next job's output comes: up to 64 KiB of it was in the rows of other jobs.
func TestWhatAJobLeavesBehindWritesIntoNoOthersOutput(t *testing.T) {
	t.Parallel()
	inEachMode(t, func(t *testing.T, b *bench, mode string) {
		b.pools(pooled(mode, 1))
		leaves := work(mode, `yes left & disown; read -t 0.02 <> <(:); echo own`, `if (!fork) { exec "yes", "left" } select undef, undef, undef, 0.02; print "own\n"`)
		for job := int64(1); job <= 10; job += 2 {
			if done := b.run(job, leaves); done.Result != "ok" {
				t.Fatalf("job %d: %+v", job, done)
			}
			done := b.run(job+1, work(mode, "echo next", `print "next\n"`))
			if done.Result != "ok" || string(done.Stdout.Kept) != "next\n" || done.Stdout.Size != 5 {
				t.Fatalf("job %d: %s, %d bytes: %.40q", job+1, done.Result, done.Stdout.Size, done.Stdout.Kept)
			}
		}
	})
}

// A job that waits for a process can be taken back: it was never started. One that was asked for can't;
// where its process is gone before it has read that it is started by another one.
func TestAJobIsTakenBackThatWaitsForAProcess(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := pooled("pool", 1)
	here, at := gate(t), gate(t)
	p.Argv = append([]string{"/bin/sh", "-c", `if mkdir ` + t.TempDir() + `/once; then echo $$ >` + here + `; read line <` + at + `; echo ready >&4; exec sleep 300; fi; exec "$@"`, "sh"}, p.Argv...)
	b.pools(p)
	withdraw := func(job int64) { b.out.Post(wire.Message{Kind: wire.Withdraw, ID: id(job)}) }
	refused := func(job int64) {
		t.Helper()
		if m := b.of(job, wire.Refused); m.Class != wire.Short || !strings.Contains(m.Text, "taken back while it waited") {
			t.Errorf("refused %+v", m)
		}
	}
	pid := pidIn(t, here)
	b.start(1)
	withdraw(1)
	refused(1)
	withdraw(1) // nobody knows it any more
	b.start(2, "DO=echo two")
	openGate(t, at)
	b.stands("it is asked", func(s wire.Standing) bool { return s.Busy == 1 })
	withdraw(2)
	withdraw(2)
	b.out.Post(wire.Message{Kind: wire.Signal, ID: id(3)})
	b.of(3, wire.Signalled) // the runner has read all of that
	must.Do(t, unix.Kill(pid, unix.SIGKILL))
	if done := b.done(2); string(done.Stdout.Kept) != "two\n" {
		t.Errorf("done %+v", done)
	}
	b.start(4, "DO=read line <"+at+"; echo out")
	b.of(4, wire.Started)
	withdraw(4)
	openGate(t, at)
	if done := b.done(4); done.Result != "ok" || string(done.Stdout.Kept) != "out\n" {
		t.Errorf("done %+v", done)
	}
}
