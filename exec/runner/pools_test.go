package runner

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/proctest"
	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// poolLoop is a launcher that stays. A job is the script with its number in the folder JOBS.
const poolLoop = `echo ready >&4
while read -r word id rest <&3; do
	[ "$word" = run ] || exit 0
	echo "started $id" >&4
	(. "$JOBS/$id")
	echo "exit $id $?" >&4
done`

// keeping is a worker's side of a runner that keeps processes, and what is said of them.
type keeping struct {
	*Remote
	t     *testing.T
	jobs  string // the folder of their scripts
	log   safeBuffer
	ready chan string // why not; "": it is
}

// safeBuffer is a log that may be read while it is written.
type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func keep(t *testing.T, dir string) *keeping {
	t.Helper()
	k := &keeping{t: t, jobs: t.TempDir(), ready: make(chan string, 100)}
	c := workerConfig(dir)
	c.Logger = slog.New(slog.NewTextHandler(&k.log, nil))
	var last string
	c.OnReady = func(target string, mode jobexec.Mode, why string) {
		if target == "mail" && mode == jobexec.ModePool && why != last {
			last = why
			k.ready <- why
		}
	}
	var err error
	if k.Remote, err = Open(c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		k.SetPools(nil)
		leave(t, k.Remote)
	})
	return k
}

// pool keeps processes of a script ready.
func (k *keeping) pool(script string, slots int) {
	k.SetPools([]jobexec.Pool{{
		Target: "mail", Mode: jobexec.ModePool, Argv: []string{"/bin/sh", "-c", script}, Env: append(os.Environ(), "JOBS="+k.jobs), Slots: slots,
		Keep: jobexec.Keep{BootTimeout: time.Minute},
	}})
}

// spec is a job for such a process.
func (k *keeping) spec(job int64, script string) jobexec.Spec {
	k.t.Helper()
	must.Do(k.t, os.WriteFile(filepath.Join(k.jobs, fmt.Sprint(job)), []byte(script), 0o600))
	return jobexec.Spec{
		Mode: jobexec.ModePool, Target: "mail", Job: job, Token: workerToken, Attempt: 1, Argv: []string{"/bin/sh"}, MaxOutput: 1 << 20,
		Vars: []string{"JOBD_ATTEMPT=1"},
	}
}

// says waits for what is said of the pool.
func (k *keeping) says(want func(why string) bool) string {
	k.t.Helper()
	limit := time.NewTimer(hung)
	defer limit.Stop()
	for {
		select {
		case why := <-k.ready:
			if want(why) {
				return why
			}
		case <-limit.C:
			k.t.Fatalf("not said of the pool within %s; log:\n%s", hung, k.log.String())
		}
	}
}

// until waits until the pool stands so.
func (k *keeping) until(what string, holds func(jobexec.PoolStanding) bool) {
	k.t.Helper()
	proctest.Until(k.t, what, func() bool {
		standings := k.Standings()
		return len(standings) == 1 && holds(standings[0])
	})
}

// A pool of which no process gets ready says so, refuses starts, and says when it has one.
func TestAPoolThatGetsNotReady(t *testing.T) {
	t.Parallel()
	k := keep(t, t.TempDir())
	k.pool(`printf 'Traceback:\n\033[31m2026-11-22 ERR all is lost\n'; exit 7`, 1)
	why := k.says(func(why string) bool { return why != "" })
	// The log has it on one line. The handler writes a backslash of the text as two, and a line's end as \n.
	check.Contains(t, k.log.String(), `it wrote: Traceback:\\n\\x1b[31m2026-11-22 ERR all is lost"`, "the log")
	if s := k.Standings(); len(s) != 1 || s[0].Unready != why || s[0].Since == 0 {
		t.Errorf("%+v, want unready: %s", s, why)
	}
	_, err := wait(asked(t, k.Remote, k.spec(1, "true")))
	var refused *jobexec.NotStartedError
	if !errors.As(err, &refused) || refused.Short {
		t.Errorf("a start: %v", err)
	}
	other := k.spec(3, "true")
	other.Target = "other"
	if _, err := wait(asked(t, k.Remote, other)); !errors.As(err, &refused) || !refused.Short {
		t.Errorf("a start where there is no pool: %v", err)
	}
	k.pool(poolLoop, 1)
	k.says(func(why string) bool { return why == "" })
	done := must.Get(wait(asked(t, k.Remote, k.spec(2, "echo it runs"))))(t)
	check.Equal(t, string(done.Stdout.Kept), "it runs\n", "%+v", done)
}

// With its runner a job of a pool loses its outcome: its process ends when the job has, which is
// waited for. The next runner is told what to keep.
func TestAPoolWhoseRunnerIsKilled(t *testing.T) {
	t.Parallel()
	gate := fifo(t)
	k := keep(t, t.TempDir())
	k.pool(poolLoop, 1)
	p := asked(t, k.Remote, k.spec(1, "read line <"+gate))
	<-p.Begun()
	if p.(*process).since.Load() == 0 {
		t.Error("when it began is not known; its process was there before")
	}
	lost := linkOf(k.Remote)
	must.Do(t, unix.Kill(k.Standing().PID, unix.SIGKILL))
	<-lost.lost
	next := k.spec(2, "echo again")
	var again jobexec.Process
	proctest.Until(t, "another runner takes a start", func() bool {
		var err error
		if again, err = ask(k.Remote, next); err != nil {
			must.ErrorIs(t, err, jobexec.ErrRunnerChanged)
		}
		return err == nil
	})
	done := must.Get(wait(again))(t)
	check.Equal(t, string(done.Stdout.Kept), "again\n", "%+v", done)
	if jobexec.IsClosed(p.Ended()) {
		t.Error("the job of the killed runner runs, and counts as ended")
	}
	must.Do(t, os.WriteFile(gate, []byte("after\n"), 0))
	if _, err := wait(p); !errors.Is(err, jobexec.ErrOutcomeUnknown) {
		t.Errorf("its outcome: %v", err)
	}
}

// A job whose process was there before began when it was announced, as far as the clocks say what can
// be.
func TestWhenAJobOfAPoolBegan(t *testing.T) {
	t.Parallel()
	process := journal.Started{StartTime: uint64((proc.Uptime() - int64(time.Minute)) / proc.Tick)}
	for _, test := range []struct {
		mode  jobexec.Mode
		since time.Duration // ago
		want  time.Duration // ago
	}{
		{jobexec.ModeProcess, 10 * time.Second, time.Minute},
		{jobexec.ModeFork, 10 * time.Second, time.Minute},
		{jobexec.ModePool, 10 * time.Second, 10 * time.Second},
		{jobexec.ModeSpare, time.Hour, time.Minute}, // the clock was set
		{jobexec.ModePool, -time.Hour, 0},
	} {
		at := beganAt(&jobexec.Spec{Mode: test.mode, Since: time.Now().Add(-test.since)}, process)
		if off := time.Duration(proc.Uptime()-at) - test.want; off < -time.Second || off > hung {
			t.Errorf("%+v: off by %s", test, off)
		}
	}
}

// A wish that processes be replaced is not lost with the connection, and is done once however many
// are made.
func TestProcessesAreReplacedThoughTheConnectionIsLost(t *testing.T) {
	t.Parallel()
	k := keep(t, t.TempDir())
	cut := func(meanwhile func()) {
		k.connecting.Lock() // so that none is made meanwhile
		defer k.connecting.Unlock()
		lost := linkOf(k.Remote)
		lost.conn.Close()
		<-lost.lost
		meanwhile()
	}
	// That the runner has read what it was told on a new connection is known when a job has ended that
	// it was told of there. The first one is not forgotten, so that the runner does not end.
	run := func(job int64) {
		if done, err := wait(asked(t, k.Remote, k.spec(job, "true"))); err != nil || done.Result != "ok" {
			t.Errorf("job %d: %+v, %v", job, done, err)
		}
	}
	replaced := func(times, jobs int64) {
		k.until("it is replaced", func(s jobexec.PoolStanding) bool {
			if s.Boots > 1+times {
				t.Fatalf("%+v: replaced more than %d times", s, times)
			}
			return s.Processes == 1 && s.Ready == 1 && s.Boots == 1+times && s.Recycled["recycle"] == times && s.Jobs == jobs && *s.Old == 0
		})
	}
	k.pool(poolLoop, 1)
	run(1)
	cut(func() {
		unknown := k.Recycle([]string{"mail", "other"}, "recycle")
		check.Equal(t, len(unknown), 1, "unknown: %v", unknown)
		if s := k.Standings()[0]; *s.Old != 1 { // though the runner has not heard of it yet
			t.Errorf("%d processes are old, of one that is to be replaced", *s.Old)
		}
	})
	replaced(1, 1)
	cut(func() {})
	run(2)
	replaced(1, 2)
	k.Recycle([]string{"mail"}, "recycle")
	replaced(2, 2)
	cut(func() {})
	run(3)
	replaced(2, 3)
}
