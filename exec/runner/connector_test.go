package runner

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	jobexec "jobd/exec"
	"jobd/exec/runner/wire"
	"jobd/journal"
	"jobd/store/storetest/must"
)

// A runner of another build is left when it has no job, and no outcome that is not journalled. Until then
// it has starts, those of pools too.
func TestARunnerOfAnotherBuildIsReplacedWhenItHasNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	listener := must.Get(net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(dir, wire.SocketFile)}))(t)
	listener.SetUnlinkOnClose(false)
	forgets, end := make(chan wire.ID, 10), make(chan struct{})
	id := wire.ID{Job: 5, Token: workerToken, Attempt: 1}
	started := journal.Started{Pid: 1 << 30, StartTime: 1, BootID: "boot"}
	go func() {
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
		out := wire.NewOutbox(conn)
		words := wire.WorkerHello()
		words.Jobs = words.Jobs[:len(words.Jobs)-1] // that of the build is the last
		hello := wire.Message{Kind: wire.Hello, Version: wire.Version, Instance: "older"}
		hello.Jobs = append(words.RunnerWords(), wire.Job{ID: id, Started: started})
		out.Post(hello)
		<-end
		code := 0
		out.Post(wire.Message{Kind: wire.Ended, ID: id, Started: started, Done: journal.Done{Result: "ok", Code: &code}})
		for {
			m, err := in.Next()
			if err != nil {
				break
			}
			if m.Kind == wire.Forget {
				forgets <- m.ID
			}
		}
		out.Close()
		listener.Close() // it has no worker and no job
	}()
	k := keep(t, dir)
	recalled := k.Recall(nil)
	if len(recalled) != 1 {
		t.Fatalf("the older runner has %+v", recalled)
	}
	if instance, err := k.Instance(); err != nil || instance != "older" {
		t.Fatalf("the runner is %s, %v", instance, err)
	}
	k.pool(poolLoop, 1)
	close(end)
	if done, err := wait(recalled[0].Process); err != nil || done.Result != "ok" {
		t.Errorf("%+v, %v", done, err)
	}
	k.Forget(5, workerToken, 1)
	if got := <-forgets; got != id {
		t.Errorf("it was told to forget %+v", got)
	}
	k.until("the next one is ready", func(s jobexec.PoolStanding) bool { return s.Ready == 1 })
	if done, err := wait(asked(t, k.Remote, k.spec(6, "echo it runs"))); err != nil || string(done.Stdout.Kept) != "it runs\n" {
		t.Errorf("%+v, %v", done, err)
	}
	k.Forget(6, workerToken, 1)
}

// A runner whose starts have no tokens is not asked for any: the worker says what helps.
func TestAnEarlyRunnerIsNotTalkedTo(t *testing.T) {
	t.Parallel()
	near, far := pair(t)
	put(t, far, wire.Message{
		Kind: wire.Hello, Version: wire.Version, Instance: "early",
		Jobs: []wire.Job{{ID: wire.ID{Job: 1, Attempt: 1}, Started: journal.Started{Pid: 7, StartTime: 8, BootID: "boot"}}},
	})
	out := wire.NewOutbox(near)
	defer out.Close()
	if _, err := greet(near, out, wire.NewReader(near)); err == nil || !strings.Contains(err.Error(), "start the early version of jobd again") {
		t.Errorf("error %v", err)
	}
}
