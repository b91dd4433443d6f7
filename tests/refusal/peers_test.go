package refusal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// daemons starts one of each kind; both speak the same protocol to strangers.
func daemons(t *testing.T, others ...harness.Settings) map[string]*harness.Daemon {
	t.Helper()
	db := harness.NewDatabase(t)
	return map[string]*harness.Daemon{
		"worker": db.Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1}).With(others...).StartWorker(t),
		"master": harness.StartMaster(t, others...),
	}
}

func TestBinaryGarbage(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) // the same bytes in every run
	for name, daemon := range daemons(t) {
		t.Run(name, func(t *testing.T) {
			for range 50 {
				garbage := make([]byte, 1+random.IntN(4096))
				for i := range garbage {
					garbage[i] = byte(random.Uint32())
				}
				wire := harness.Dial(t, daemon.Addr)
				if err := wire.Write(garbage); err != nil {
					t.Fatalf("write: %v", err)
				}
				wire.Close()
			}
			stillServes(t, daemon)
		})
	}
}

func TestHalfFrames(t *testing.T) {
	t.Parallel()
	for name, daemon := range daemons(t) {
		t.Run(name, func(t *testing.T) {
			request := `[0,{"no":1,"type":"status"}]`
			for cut := range len(request) {
				wire := harness.Dial(t, daemon.Addr)
				if err := wire.Write([]byte(request[:cut])); err != nil {
					t.Fatalf("write: %v", err)
				}
				wire.Close()
			}
			// The same request in two halves is one request.
			wire := harness.Dial(t, daemon.Addr)
			must.Do(t, wire.Write([]byte(request[:10])))
			wire.Send(t, request[10:])
			if response, ok := wire.Answer(t); !ok || response.No != 1 || response.Error != "" {
				t.Errorf("two halves were answered with %+v", response)
			}
			stillServes(t, daemon)
		})
	}
}

// A frame of 100 MiB is refused long before it is in memory, with a word why. A
// stranger may send less than who knows the password.
func TestHundredMiBFrames(t *testing.T) {
	t.Parallel()
	const password = "s3cret"
	for name, daemon := range daemons(t, harness.Settings{"password": password}) {
		for _, authorised := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, authorised %t", name, authorised), func(t *testing.T) {
				before := harness.MemoryPeak(t, daemon.Pid)
				wire := harness.Dial(t, daemon.Addr)
				if authorised {
					wire.Authorise(t, password)
				}
				flooded := make(chan struct{})
				go func() {
					defer close(flooded)
					flood(wire, 100<<20)
				}()
				frames := wire.Closed(t)
				<-flooded
				if said := strings.Join(frames, ""); !strings.Contains(said, `"no":0`) || !strings.Contains(said, "message too long") {
					t.Errorf("it said %.300q: want an error with the number 0 that says how long a message may be", said)
				}
				if grown := harness.MemoryPeak(t, daemon.Pid) - before; grown > 64<<20 {
					t.Errorf("memory grew by %d MiB", grown>>20)
				}
				stillServesWith(t, daemon, password)
			})
		}
	}
}

// flood sends one frame that never ends, until it is all sent or nobody takes it any more.
func flood(wire *harness.Wire, size int) {
	chunk := bytes.Repeat([]byte("x"), 1<<16)
	err := wire.Write([]byte(`[0,{"no":1,"type":"poll","data":"`))
	for range size / len(chunk) {
		if err != nil {
			return
		}
		err = wire.Write(chunk)
	}
}

func TestTenThousandIdleConnections(t *testing.T) {
	t.Parallel()
	const connections = 10_000
	allowFiles(t, connections+1000)
	db := harness.NewDatabase(t)
	worker := db.Worker(t, "worker", "/bin/true {id}", map[string]int{"a": 1}).StartWorker(t)
	before := harness.Memory(t, worker.Pid)
	for i := range connections {
		// Several addresses of this machine, so that ports do not run out.
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%4))}}
		conn, err := dialer.DialContext(t.Context(), "tcp", worker.Addr)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer conn.Close()
	}
	db.Insert(t, 1, "a", "waiting")
	harness.Dial(t, worker.Addr).Ask(t, "poll", nil)
	db.AwaitDone(t, 1)
	t.Logf("%d idle connections take %d MiB", connections, (harness.Memory(t, worker.Pid)-before)>>20)
	if open := descriptors(t, worker.Pid); open < connections {
		t.Errorf("only %d of %d connections are open", open, connections)
	}
}

// allowFiles lets this process, and those that it starts, open n files.
func allowFiles(t *testing.T, n uint64) {
	t.Helper()
	var files syscall.Rlimit
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	files.Max = max(files.Max, n)
	files.Cur = files.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatalf("this test needs %d open files: raise the limit (ulimit -Hn): %v", n, err)
	}
}

func descriptors(t *testing.T, pid int) int {
	t.Helper()
	entries := must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)))(t)
	return len(entries)
}

func stillServes(t *testing.T, daemon *harness.Daemon) {
	t.Helper()
	stillServesWith(t, daemon, "")
}

func stillServesWith(t *testing.T, daemon *harness.Daemon, password string) {
	t.Helper()
	wire := harness.Dial(t, daemon.Addr)
	wire.Authorise(t, password)
	if response := wire.Ask(t, "status", nil); response.Error != "" {
		t.Errorf("status is refused: %s", response.Error)
	}
}
