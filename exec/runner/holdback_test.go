package runner

import (
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// olderRunner is a runner that keeps no processes, and has job 5.
type olderRunner struct {
	told chan wire.Message // what the worker says
	out  *wire.Outbox
	runs wire.ID
}

func newOlderRunner(t *testing.T, dir string) *olderRunner {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(dir, wire.SocketFile)})
	if err != nil {
		t.Fatal(err)
	}
	listener.SetUnlinkOnClose(false)
	r := &olderRunner{told: make(chan wire.Message, 100), runs: wire.ID{Job: 5, Token: workerToken, Attempt: 1}}
	there := make(chan struct{})
	go func() {
		defer close(r.told)
		conn, err := listener.AcceptUnix()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		in := wire.NewReader(conn)
		if _, err := in.Next(); err != nil {
			t.Error(err)
		}
		if r.out, err = wire.NewOutbox(conn); err != nil {
			t.Error(err)
			return
		}
		words := wire.WorkerHello()
		words.Jobs = words.Jobs[:len(words.Jobs)-1] // that of pools is the last
		hello := wire.Message{Kind: wire.Hello, Version: wire.Version, Instance: "older", Tokens: true}
		hello.Jobs = append(words.RunnerWords(), wire.Job{ID: r.runs, Started: journal.Started{Pid: 1 << 30, StartTime: 1, BootID: "boot"}})
		r.out.Post(hello)
		close(there)
		for {
			m, err := in.Next()
			if err != nil {
				break
			}
			r.told <- m
		}
		r.out.Close()
		<-r.out.Written()
		listener.Close() // it has no worker and no job
	}()
	t.Cleanup(func() { <-there })
	return r
}

// ends says that a job has ended.
func (r *olderRunner) ends(id wire.ID) {
	code := 0
	r.out.Post(wire.Message{Kind: wire.Ended, ID: id, Started: journal.Started{Pid: 7, BootID: "boot"}, Done: journal.Done{Result: "ok", Code: &code}, Tokens: true})
}

// hears waits for a message of a kind.
func (r *olderRunner) hears(t *testing.T, kind wire.Kind) wire.Message {
	t.Helper()
	for m := range r.told {
		if m.Kind == kind {
			return m
		}
	}
	t.Fatalf("the runner never heard kind %d", kind)
	return wire.Message{}
}

// holding opens a worker with that runner, which is to be left, and waits until starts are held back.
func holding(t *testing.T, older func(dir string) *olderRunner, p patience) (*keeping, *olderRunner) {
	t.Helper()
	dir := t.TempDir()
	r := older(dir)
	k := keep(t, dir)
	k.connector.patience = p
	k.pool(poolLoop, 1)
	return k, r
}

// untilHeld waits until starts are held back, or are not any more.
func (k *keeping) untilHeld(l *link, want bool) {
	k.t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for limit := time.After(hung); ; {
		l.mu.Lock()
		holds := l.owed.holds
		l.mu.Unlock()
		if holds == want {
			return
		}
		select {
		case <-again.C:
		case <-limit:
			k.t.Fatalf("starts are held back: %t", holds)
		}
	}
}

// other is a job with a process of its own, of which an older runner has always one.
func other(t *testing.T, k *keeping, job int64) jobexec.Process {
	t.Helper()
	spec := script("exit 0")
	spec.Job, spec.Token, spec.Attempt = job, workerToken, 1
	return asked(t, k.Remote, spec)
}

// An older runner that always has a job is left all the same: starts wait for a moment, and are
// announced anew with the next runner.
func TestAnOlderRunnerThatAlwaysHasAJobIsReplaced(t *testing.T) {
	t.Parallel()
	k, r := holding(t, func(dir string) *olderRunner { return newOlderRunner(t, dir) },
		patience{first: time.Millisecond, hold: hung, longest: hung})
	l := linkOf(k.Remote)
	k.untilHeld(l, true)
	p := other(t, k, 6)
	r.ends(r.runs)
	k.Forget(r.runs.Job, workerToken, 1)
	if _, err := wait(p); !errors.Is(err, jobexec.ErrRunnerChanged) {
		t.Errorf("the start that was held back: %v", err)
	}
	k.says(func(why string) bool { return why == "" })
	for m := range r.told {
		if m.Kind == wire.Start {
			t.Errorf("the older runner was told %+v", m)
		}
	}
	if done, err := wait(other(t, k, 6)); err != nil || *done.Code != 0 {
		t.Errorf("announced anew: %+v, %v", done, err)
	}
	k.Forget(6, workerToken, 1)
}

// Where its jobs run for long, starts go on after that moment, in their order, and are held back
// again later, ever more seldom.
func TestStartsAreHeldBackForAMomentOnly(t *testing.T) {
	t.Parallel()
	k, r := holding(t, func(dir string) *olderRunner { return newOlderRunner(t, dir) },
		patience{first: time.Millisecond, hold: 100 * time.Millisecond, longest: 100 * time.Millisecond})
	l := linkOf(k.Remote)
	for job := int64(6); job <= 12; job += 2 {
		k.untilHeld(l, true)
		one, two := other(t, k, job), other(t, k, job+1)
		for i, p := range []jobexec.Process{one, two} {
			m := r.hears(t, wire.Start)
			if m.ID.Job != job+int64(i) {
				t.Errorf("job %d is started as number %d", m.ID.Job, i)
			}
			r.ends(m.ID)
			if done, err := wait(p); err != nil || *done.Code != 0 {
				t.Errorf("%+v, %v", done, err)
			}
			k.Forget(m.ID.Job, workerToken, 1)
		}
	}
	r.ends(r.runs)
	k.Forget(r.runs.Job, workerToken, 1)
	k.says(func(why string) bool { return why == "" })
}

// A start that is held back is taken back at once by whoever cancels its job: it never happened. The one
// behind it has the environment that was to be sent with it.
func TestAStartThatIsHeldBackIsTakenBack(t *testing.T) {
	t.Parallel()
	k, r := holding(t, func(dir string) *olderRunner { return newOlderRunner(t, dir) },
		patience{first: time.Millisecond, hold: hung, longest: hung})
	l := linkOf(k.Remote)
	k.untilHeld(l, true)
	env := []string{"OF=both"}
	held := func(job int64) *process {
		spec := script("exit 0")
		spec.Job, spec.Token, spec.Attempt, spec.Env = job, workerToken, 1, env
		return asked(t, k.Remote, spec).(*process)
	}
	one, two := held(6), held(7)
	one.Withdraw()
	if !isClosed(one.Ended()) {
		t.Fatal("the start that was taken back has not ended")
	}
	if _, err := one.Outcome(); !errors.Is(err, jobexec.ErrRunnerChanged) {
		t.Errorf("the start that was taken back: %v", err)
	}
	one.Withdraw() // once more does nothing
	l.letGo()
	two.Withdraw() // too late
	var has []string
	for m := range r.told {
		if m.Kind == wire.Environment {
			has = m.Env
		}
		if m.Kind == wire.Start {
			if m.ID.Job != 7 || !slices.Equal(has, env) {
				t.Errorf("job %d is started with the environment %q", m.ID.Job, has)
			}
			break
		}
	}
	for _, id := range []wire.ID{two.id, r.runs} {
		r.ends(id)
		k.Forget(id.Job, workerToken, 1)
	}
	k.says(func(why string) bool { return why == "" })
	if _, err := wait(two); err != nil {
		t.Error(err)
	}
}

// A connection that is lost meanwhile ends such a start as one that never happened, be it that the runner
// is gone.
func TestAStartThatIsHeldBackOnALostConnection(t *testing.T) {
	t.Parallel()
	near, far := pair(t)
	in := wire.NewReader(far)
	go func() {
		_, _ = in.Next()
		put(t, far, wire.Message{Kind: wire.Hello, Version: wire.Version, Instance: "older"})
	}()
	lost := make(chan map[wire.ID]*process, 1)
	c := testConfig("")
	l, err := newLink(near, c, true, func(_ *link, left map[wire.ID]*process) { lost <- left }, nil)
	if err != nil {
		t.Fatal(err)
	}
	con := &connector{config: Config{Logger: slog.New(slog.DiscardHandler)}, closing: make(chan struct{}), patience: patience{hold: hung}}
	con.pools.want([]jobexec.Pool{{Target: "mail", Mode: jobexec.ModePool}})
	l.mu.Lock()
	l.owed.starts[wire.ID{Job: 1}] = true
	l.mu.Unlock()
	over := make(chan bool)
	go func() { over <- con.holdBack(l) }()
	(&keeping{t: t}).untilHeld(l, true)
	spec := script("")
	p, err := l.start(&spec)
	if err != nil {
		t.Fatal(err)
	}
	far.Close()
	if left := <-lost; len(left) != 0 {
		t.Errorf("lost with the connection: %v", left)
	}
	if !isClosed(p.Ended()) {
		t.Fatal("the start that was held back has not ended")
	}
	if _, err := p.Outcome(); !errors.Is(err, jobexec.ErrRunnerChanged) {
		t.Errorf("the start that was held back: %v", err)
	}
	if <-over || l.leave() {
		t.Error("the runner counts as left")
	}
}
