package harness

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/exec/runner/proctest"
)

// Daemon is one running program with its output.
type Daemon struct {
	Addr   string // host:port it listens on
	Config string // its configuration file
	Pid    int

	program string
	process *exec.Cmd
	output  output
	exited  chan struct{} // closed when the process is gone
}

// Launch starts a program with a configuration file and waits for nothing. What it
// writes is shown where the test fails; it is gone when the test ends.
func Launch(t testing.TB, program, config, addr string, args ...string) *Daemon {
	t.Helper()
	return LaunchBinary(t, Program(t, program), config, addr, args...)
}

// LaunchBinary is Launch for a program's file that need not be the one that was built.
func LaunchBinary(t testing.TB, binary, config, addr string, args ...string) *Daemon {
	t.Helper()
	program := filepath.Base(binary)
	cmd := exec.Command(binary, append([]string{"--config", config}, args...)...)
	cmd.Dir = filepath.Dir(config)
	said, err := newOutput()
	if err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	d := &Daemon{
		Addr: addr, Config: config, program: program,
		process: cmd, output: said, exited: make(chan struct{}),
	}
	cmd.Stdout, cmd.Stderr = said.file, said.file
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	d.Pid = cmd.Process.Pid
	go func() {
		defer close(d.exited)
		_ = cmd.Wait() // the exit code is read from ProcessState
	}()
	t.Cleanup(func() {
		d.stop(t)
		if t.Failed() {
			t.Logf("%s (%s, pid %d) wrote:\n%s", program, config, d.Pid, d.output)
		}
	})
	return d
}

// Ready waits until the daemon answers a ping.
func (d *Daemon) Ready(t testing.TB) *Daemon {
	t.Helper()
	Until(t, func() string {
		select {
		case <-d.exited:
			t.Fatalf("%s exited with %d before it was ready:\n%s", d.program, d.process.ProcessState.ExitCode(), d.output)
		default:
		}
		conn, err := net.DialTimeout("tcp", d.Addr, time.Second)
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		return pong(conn)
	})
	return d
}

func pong(conn net.Conn) string {
	answer := make([]byte, 4)
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write([]byte("[2]\x04")); err != nil {
		return err.Error()
	}
	if _, err := conn.Read(answer); err != nil {
		return err.Error()
	}
	if !bytes.Equal(answer, []byte("[3]\x04")) {
		return fmt.Sprintf("ping was answered with %q", answer)
	}
	return ""
}

// Signal sends the daemon a signal. After SIGSTOP it stands still.
func (d *Daemon) Signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if signal == syscall.SIGSTOP {
		proctest.Stop(t, d.Pid)
	} else if err := d.process.Process.Signal(signal); err != nil {
		t.Fatalf("send %s to %s: %v", signal, d.program, err)
	}
}

// ExitCode waits until the process is gone and gives its exit code, -1 where a signal ended it.
func (d *Daemon) ExitCode(t testing.TB) int {
	t.Helper()
	select {
	case <-d.exited:
		return d.process.ProcessState.ExitCode()
	case <-time.After(Patience):
		t.Fatalf("%s still runs after %s; it wrote:\n%s", d.program, Patience, d.output)
		return 0
	}
}

// Running tells whether the process is still there.
func (d *Daemon) Running() bool {
	select {
	case <-d.exited:
		return false
	default:
		return true
	}
}

// Kill ends the process as a crash would: no handler runs.
func (d *Daemon) Kill(t testing.TB) {
	t.Helper()
	d.Signal(t, syscall.SIGKILL)
	<-d.exited
}

// Output is what the program wrote to stdout and stderr so far.
func (d *Daemon) Output() string { return d.output.String() }

// AwaitSaid waits until the program has written all of these.
func (d *Daemon) AwaitSaid(t testing.TB, texts ...string) {
	t.Helper()
	Until(t, func() string {
		for _, text := range texts {
			if !strings.Contains(d.Output(), text) {
				return fmt.Sprintf("%s did not say %q", d.program, text)
			}
		}
		return ""
	})
}

// stop asks until the process is gone, every time after the first meaning at once (signals
// that follow too closely are one), and then insists, so that nothing is left behind.
func (d *Daemon) stop(t testing.TB) {
	insist := time.After(10 * time.Second)
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		_ = d.process.Process.Signal(syscall.SIGTERM) // it may be gone
		select {
		case <-d.exited:
			return
		case <-again.C:
		case <-insist:
			d.killAll(t)
			return
		}
	}
}

// output is a file without a name that a process writes to. What the process has said before it
// answers somebody is there when that one has the answer; through a pipe it may come later.
type output struct{ file *os.File }

func newOutput() (output, error) {
	file, err := os.CreateTemp("", "jobd-test-output-")
	if err != nil {
		return output{}, err
	}
	return output{file}, os.Remove(file.Name())
}

func (o output) String() string {
	said, err := io.ReadAll(io.NewSectionReader(o.file, 0, math.MaxInt64))
	if err != nil {
		return err.Error()
	}
	return string(said)
}
