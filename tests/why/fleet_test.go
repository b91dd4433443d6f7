package why

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

const viaMaster = "--master"

// Three workers behind a master: whoever has a job, one question finds it.
func TestAFleet(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	master := harness.StartMaster(t)
	launcher, open := gate(t, "exit 0")
	nodes := make([]*harness.Daemon, 3)
	for i := range nodes {
		s := db.Worker(t, fmt.Sprintf("node-%d", i+1), launcher, map[string]int{"a": 1}).
			With(harness.MasterOf(master), harness.Settings{"prefetch": "0"})
		nodes[i] = s.StartWorker(t)
	}
	harness.AwaitWorkers(t, master, "", 3)
	for id := int64(1); id <= 5; id++ {
		db.Insert(t, id, "a", "waiting")
	}
	jobctl(t, master, viaMaster, "poke", "a")
	db.AwaitCount(t, 3, "status = 'running'")
	await(t, master, 4, "slots", `job 4 is the next of its target: all 3 slots of target a are in use, on node-1, node-2, node-3`, viaMaster)
	await(t, master, 5, "waiting", `job 5 waits behind 1 job of its target: all 3 slots of target a are in use, on node-1, node-2, node-3`, viaMaster)
	has := map[string]bool{}
	for id := int64(1); id <= 3; id++ {
		has[await(t, master, id, "running", `job \d runs on node-\d since `+clock+` \(pid \d+\)`, viaMaster).Worker] = true
	}
	check.Equal(t, len(has), 3, "the jobs run on %v", has)
	jobctl(t, nodes[0], "pause", "a")
	await(t, master, 4, "slots", `job 4 is the next of its target: all 2 slots of target a are in use, on node-2, node-3; paused on node-1 since `+clock, viaMaster)
	jobctl(t, master, viaMaster, "pause", "a")
	await(t, master, 4, "paused", `job 4 waits: its target a is paused since `+clock+` by 127\.0\.0\.1 \(on all 3 workers that serve it\)`, viaMaster)
	open()
	jobctl(t, master, viaMaster, "continue", "a")
	for id := int64(1); id <= 5; id++ {
		db.AwaitDone(t, id)
		await(t, master, id, "done", `job \d is done: ok at `+clock+` on node-\d, after .*`, viaMaster)
	}
	got := jobctl(t, master, viaMaster, "show", "a:1")
	for _, part := range []string{"job 1 is done: ok", "target:      a\n", "status:      done\n", "claimed by node-", "ended: ok", "waited  ", "ran     "} {
		check.Contains(t, got.stdout, part, "show lacks")
	}
	if got.code != 0 || got.stderr != "" {
		t.Errorf("%+v", got)
	}
}

// A worker that hangs, with a job that is its own, is known by the mark in the row; the others
// answer all the same. So does one of the original, which can't tell.
func TestAWorkerThatHangsAndAnOriginalOne(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	master := harness.StartMaster(t)
	launcher, open := gate(t, "exit 0")
	defer open()
	start := func(name, target string) *harness.Daemon {
		return db.Worker(t, name, launcher, map[string]int{target: 1}).With(harness.MasterOf(master)).StartWorker(t)
	}
	hangs := start("node-1", "a")
	asked := start("node-2", "b")
	original(t, master, "old", "a")
	harness.AwaitWorkers(t, master, "", 3)
	db.Insert(t, 1, "a", "waiting")
	db.Insert(t, 2, "b", "waiting")
	jobctl(t, hangs, "poll")
	jobctl(t, asked, "poll")
	db.AwaitCount(t, 2, "status = 'running'")
	db.Insert(t, 3, "a", "running") // as the original leaves them: without a claim
	hangs.Signal(t, syscall.SIGSTOP)
	t.Cleanup(func() { hangs.Signal(t, syscall.SIGCONT) })

	db.Insert(t, 4, "a", "waiting") // which is served, though nobody tells

	// All at once: each waits for the one that does not answer.
	t.Run("asked", func(t *testing.T) {
		for id, says := range map[int64][2]string{
			1: {"silent", `job 1 is running since ` + clock + `, as its row says; it was claimed by node-1, to go by the worker id in its token \(@\w{9}\), which does not answer`},
			2: {"running", `job 2 runs on node-2 .*`},
			3: {"nobody", `job 3 is running, as its row says, but the row bears no claim of a worker, and no worker that answers has it; perhaps old has, which can't tell`},
			4: {"untold", `job 4 waits, and no worker that answers serves its target a \(served are b\); node-1 serves it, and does not answer; old serves it, and can't tell`},
		} {
			t.Run(says[0], func(t *testing.T) {
				t.Parallel()
				await(t, master, id, says[0], says[1], viaMaster)
			})
		}
		t.Run("whom", func(t *testing.T) {
			t.Parallel()
			_, got := ask(t, master, 2, viaMaster)
			for _, part := range []string{"worker 'node-1': no answer within ", "worker 'old': it can't tell, because it is an older jobd, or the original"} {
				check.Contains(t, got.stderr, part, "stderr lacks")
			}
		})
		t.Run("show", func(t *testing.T) {
			t.Parallel()
			got := jobctl(t, master, viaMaster, "show", "2")
			if got.code != 0 || !strings.Contains(got.stdout, "started as process") || !strings.Contains(got.stderr, "worker 'node-1'") {
				t.Errorf("show: %+v", got)
			}
		})
		t.Run("itself", func(t *testing.T) {
			t.Parallel()
			if got := jobctl(t, hangs, "why", "1"); got.code != 1 || !strings.Contains(got.stderr, "no answer within 10s") {
				t.Errorf("of the worker itself: %+v", got)
			}
		})
	})
}

// original registers a worker with the master that answers as the original does: of what it does
// not know it says so.
func original(t *testing.T, master *harness.Daemon, name, target string) {
	t.Helper()
	conn := must.Get(net.Dial("tcp", master.Addr))(t)
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, `[0,{"no":1,"type":"register-worker","data":{"name":%q,"targets":[%q]}}]%c`, name, target, harness.EOT)
	go func() {
		for frames := bufio.NewReader(conn); ; {
			text, err := frames.ReadBytes(harness.EOT)
			if err != nil {
				return
			}
			var kind int
			var request struct {
				No   int
				Type string
			}
			if json.Unmarshal(text[:len(text)-1], &[]any{&kind, &request}) != nil {
				return
			}
			switch {
			case kind == 2:
				fmt.Fprintf(conn, "[3]%c", harness.EOT)
			case kind == 0 && request.Type == "poll":
				fmt.Fprintf(conn, `[1,{"no":%d,"data":"ok"}]%c`, request.No, harness.EOT)
			case kind == 0:
				fmt.Fprintf(conn, `[1,{"no":%d,"error":"unknown request type: '%s'"}]%c`, request.No, request.Type, harness.EOT)
			}
		}
	}()
}
