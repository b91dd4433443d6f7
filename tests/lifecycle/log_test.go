package lifecycle

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"jobd/tests/harness"
)

// pipeSize is what Linux has a pipe hold.
const pipeSize = 64 << 10

// unread starts a daemon whose stderr is a full pipe, and gives the pipe's end to read.
func unread(t *testing.T, program string, settings harness.Settings) (*exec.Cmd, *os.File) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	// As full as a pipe gets: whoever writes more waits for the reader.
	if _, err := writer.Write(make([]byte, pipeSize)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(harness.Program(t, program), "--config", settings.Write(t))
	cmd.Stderr = writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		reader.Close()
	})
	harness.Until(t, func() string {
		if conn, err := net.Dial("tcp", settings.Addr()); err != nil {
			return err.Error()
		} else {
			conn.Close()
		}
		return ""
	})
	return cmd, reader
}

// A daemon whose log nobody takes answers, runs its jobs and stops as ever: the pipe is full, or its reader is gone.
func TestALogThatNobodyTakes(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"jobd", "jobd-master"} {
		for _, gone := range []bool{false, true} {
			t.Run(program+", gone "+strconv.FormatBool(gone), func(t *testing.T) {
				t.Parallel()
				settings := harness.Settings{"host": "127.0.0.1", "port": harness.FreePort(t)}
				var db *harness.Database
				if program == "jobd" {
					db = harness.NewDatabase(t)
					settings = db.Worker(t, "worker", harness.Script(t, "grep SigIgn /proc/self/status")+" {id}", map[string]int{"a": 1})
				}
				cmd, reader := unread(t, program, settings.With(harness.Settings{"log_level_console": "trace"}))
				if gone {
					reader.Close()
				}
				client := harness.Dial(t, settings.Addr())
				client.Ask(t, "status", nil)
				if db != nil {
					db.Insert(t, 1, "a", "waiting")
					client.Ask(t, "poll", nil)
					row := db.AwaitDone(t, 1)
					_, mask, _ := strings.Cut(harness.Text(row.Stdout), "SigIgn:")
					ignored, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
					if err != nil || ignored&(1<<(syscall.SIGPIPE-1)) != 0 {
						t.Errorf("a job ignores the signals %q", mask)
					}
				}
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				if err := cmd.Wait(); err != nil {
					t.Errorf("it ended with %v", err)
				}
			})
		}
	}
}
