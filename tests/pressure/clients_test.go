package pressure

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// One client wants more jobs run by hand than a worker does in a minute: they cost it little each, go
// on without the client, and what was not started is given back when the worker stops.
func TestManyManualJobsOfOneClient(t *testing.T) {
	t.Parallel()
	const jobs, bytesEach = 50_000, 2 << 10
	s := newSite(t)
	s.InsertMany(t, jobs, "a", "manual")
	w := s.start("asked", s.gated(), map[string]int{"a": 2})
	w.client.Ask(t, "pause", nil)
	memory := w.resident()
	ids := make([]int, jobs)
	for i := range ids {
		ids[i] = i + 1
	}
	client := harness.Dial(t, w.Addr)
	client.Request(t, "run-manual", map[string]any{"ids": ids})
	w.awaitLength(jobs)
	atMost(t, "clients' jobs", w.status().Clients, jobs)
	atMost(t, "bytes more in memory", w.resident()-memory, jobs*bytesEach)
	client.Close()
	harness.Until(t, func() string {
		if n := w.status().Clients; n != 0 {
			return fmt.Sprintf("%d jobs have a client still, which is gone", n)
		}
		return ""
	})
	w.Signal(t, syscall.SIGTERM)
	if code := w.ExitCode(t); code != 0 {
		t.Errorf("exit code %d:\n%s", code, w.Output())
	}
	harness.Launch(t, "jobd", w.Config, w.Addr).Ready(t) // what the stop had no time to write, the next start does
	s.AwaitCount(t, jobs, "status = 'manual' AND sig IS NULL")
}

// A client sends requests and never reads the answers: the worker keeps a bounded part of them, stops
// reading, and answers others as before.
func TestClientThatNeverReads(t *testing.T) {
	t.Parallel()
	const mayTake = 64 << 20 // bytes of requests; the kernel's buffers are the greater part of what is taken
	s := newSite(t)
	w := s.start("unread", s.gated(), map[string]int{"a": 2}, harness.Settings{"max_message_size": "65536"})
	memory := w.resident()
	conn := must.Get(net.Dial("tcp", w.Addr))(t)
	defer conn.Close()
	requests := []byte(strings.Repeat(`[0,{"no":1,"type":"status"}]`+"\x04", 1000))
	taken := 0
	for taken < mayTake {
		_ = conn.SetWriteDeadline(time.Now().Add(2 * time.Second))
		n, err := conn.Write(requests)
		taken += n
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break // it does not read on
		}
		if err != nil {
			t.Fatalf("after %d bytes: %v", taken, err)
		}
	}
	atMost(t, "bytes of requests taken", taken, mayTake-1)
	atMost(t, "bytes more in memory", w.resident()-memory, 24<<20)
	w.poll(100)
	atMost(t, "goroutines", goroutines(t, w.Daemon), 1100) // a link has 1,024 requests under way at most
}

// A worker registers and never reads: what the master has for it stays what it was asked for, each target once, and
// the others are polled.
func TestMasterWithAWorkerThatNeverReads(t *testing.T) {
	t.Parallel()
	const targets = 200
	master := harness.StartMaster(t, harness.Settings{"poke_throttle_interval": "0", "log_level_console": "error"})
	names := make([]string, targets)
	for i := range names {
		names[i] = fmt.Sprintf("%0200d", i)
	}
	register := func(name string) *harness.Wire {
		w := harness.Dial(t, master.Addr)
		if answer := w.Ask(t, "register-worker", map[string]any{"name": name, "targets": names}); answer.Error != "" {
			t.Fatal(answer.Error)
		}
		return w
	}
	register("deaf")
	hears := register("hears")
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		if frame, err := hears.Receive(harness.Patience); err != nil || !strings.Contains(frame, `"poll"`) {
			t.Errorf("%.100q: %v", frame, err)
		}
	}()
	client := harness.Dial(t, master.Addr)
	memory := harness.Memory(t, master.Pid)
	for range 2000 {
		if answer := client.Ask(t, "poke", map[string]any{"targets": names}); answer.Error != "" {
			t.Fatal(answer.Error)
		}
	}
	<-polled
	atMost(t, "bytes more in memory", harness.Memory(t, master.Pid)-memory, 16<<20)
	atMost(t, "goroutines", goroutines(t, master), 40)
}
