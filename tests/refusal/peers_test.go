package refusal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
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

// nobody is the account that has no rights of its own.
const nobody = 65534

// spy is a job that looks for passwords: in what it inherits, and in the runner and the worker, which are its parent and that
// one's parent. It says what it could open.
const spy = `env
for pid in $PPID $(cut -d ' ' -f 4 /proc/$PPID/stat); do
	for name in environ mem maps auxv io; do
		(exec 3< /proc/$pid/$name) 2> /dev/null && echo "opened $name of $(cat /proc/$pid/cmdline | tr '\0' ' ')"
	done
	ls /proc/$pid/fd > /dev/null 2>&1 && echo "listed the descriptors of $(cat /proc/$pid/cmdline | tr '\0' ' ')"
	cat /proc/$pid/environ 2> /dev/null | tr '\0' '\n'
	echo "looked at $(cat /proc/$pid/cmdline | tr '\0' ' ')"
done
for fd in /proc/$$/fd/*; do echo "has $(readlink $fd)"; done
`

func TestJobsDoNotReadThePasswords(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give the worker an account of its own")
	}
	db := harness.NewDatabase(t)
	home := homeOf(t, nobody)
	launcher := filepath.Join(home, "spy.sh")
	writeFor(t, nobody, launcher, "#!/bin/sh\n"+spy, 0o755)
	settings := db.Worker(t, "worker", launcher, map[string]int{"a": 1}).
		With(harness.Settings{"journal_dir": filepath.Join(home, "journal"), "password": "wire-secret"}).
		Without("mysql_password")
	config := filepath.Join(home, "jobd.conf")
	writeFor(t, nobody, config, settings.String(), 0o600)
	worker := byNobody(t, home, "--config", config)
	worker.Env = append(os.Environ(), "JOBD_MYSQL_PASSWORD="+db.Account.Password)
	var output strings.Builder
	worker.Stdout, worker.Stderr = &output, &output
	db.Insert(t, 1, "a", "waiting")
	must.Do(t, worker.Start())
	t.Cleanup(func() {
		_ = worker.Process.Signal(syscall.SIGTERM) // it may be gone
		if err := worker.Wait(); err != nil {
			t.Errorf("jobd ended with %v; it wrote:\n%s", err, output.String())
		}
	})

	found := harness.Text(db.AwaitDone(t, 1).Stdout)
	for _, secret := range []string{db.Account.Password, "wire-secret", "JOBD_", "opened ", "listed ", "/journal", "socket:", "anon_inode:"} {
		if strings.Contains(found, secret) {
			t.Errorf("a job found %q", secret)
		}
	}
	for _, word := range []string{"looked at jobd runner", "looked at " + worker.Path, "has /dev/null"} {
		if !strings.Contains(found, word) {
			t.Errorf("the job did not say %q", word)
		}
	}
	if t.Failed() {
		t.Logf("the job found:\n%s", found)
	}
}

// byNobody is a worker of the account nobody, which is not started yet.
func byNobody(t *testing.T, home string, args ...string) *exec.Cmd {
	t.Helper()
	program := must.Get(os.ReadFile(harness.Program(t, "jobd")))(t)
	binary := filepath.Join(home, "jobd")
	writeFor(t, nobody, binary, string(program), 0o755)
	worker := exec.Command(binary, args...)
	worker.Dir = home
	worker.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return worker
}

// homeOf makes a folder for another account, which it can reach.
func homeOf(t *testing.T, account int) string {
	t.Helper()
	home := must.Get(os.MkdirTemp("", "jobd-home-"))(t)
	t.Cleanup(func() { os.RemoveAll(home) })
	must.Do(t, os.Chown(home, account, account))
	return home
}

// writeFor writes a file of another account. A file that is open for writing while
// somebody forks can't be executed.
func writeFor(t *testing.T, account int, path, content string, mode os.FileMode) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(content), mode)
	syscall.ForkLock.RUnlock()
	if err == nil {
		err = os.Chown(path, account, account)
	}
	if err != nil {
		t.Fatal(err)
	}
}
