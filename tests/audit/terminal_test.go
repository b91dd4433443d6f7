package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// openTerminal opens a real terminal: what is written to its end for programs comes out of the master's.
func openTerminal(t *testing.T) (master, end *os.File) {
	t.Helper()
	master = must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0))(t)
	t.Cleanup(func() { master.Close() })
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if end, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return master, end
}

// shown runs jobctl with a terminal, or a pipe, as its stdout and its stderr, and gives what came out of each. Its stdout
// is read only after a while, so that the run is a long one.
func shown(t *testing.T, outTerminal, errTerminal bool, environ []string, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(harness.Bounded(t), harness.Program(t, "jobctl"), args...)
	cmd.Env = append(os.Environ(), environ...)
	type stream struct {
		from    io.Reader
		end     *os.File
		content bytes.Buffer
	}
	var streams [2]stream
	for i, terminal := range []bool{outTerminal, errTerminal} {
		open := func() (io.Reader, *os.File) {
			from, end, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { from.Close() })
			return from, end
		}
		if terminal {
			open = func() (io.Reader, *os.File) { master, end := openTerminal(t); return master, end }
		}
		streams[i].from, streams[i].end = open()
	}
	cmd.Stdout, cmd.Stderr = streams[0].end, streams[1].end
	must.Do(t, cmd.Start())
	read := make(chan error, 2)
	for i := range streams {
		streams[i].end.Close()
		go func() {
			if i == 0 {
				<-time.After(1500 * time.Millisecond) // longer than jobctl waits before it tells how far it is
			}
			_, err := streams[i].content.ReadFrom(streams[i].from)
			read <- err
		}()
	}
	for range streams {
		if err := <-read; err != nil && !errors.Is(err, syscall.EIO) { // a terminal's end reads like that
			t.Error(err)
		}
	}
	must.Do(t, cmd.Wait())
	return streams[0].content.String(), streams[1].content.String()
}

// Colours are for a terminal that takes them, and for nobody who wants none; how far a run is is told to a terminal on
// stderr, whatever stdout is.
func TestTerminals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, writeWeek(dir))
	const escape, progress = "\x1b[", "events exported"
	log := []string{"journal", "log", "-n", "50", "--journal", filepath.Join(dir, "node-1")}
	export := []string{"journal", "export", "--journal", filepath.Join(dir, "node-1"), "--journal", filepath.Join(dir, "node-2")}
	for name, c := range map[string]struct {
		out, err bool // is a terminal
		environ  []string
		args     []string
		colours  bool
		progress bool
	}{
		"a terminal":                       {true, true, []string{"TERM=xterm", "NO_COLOR="}, log, true, false},
		"a pipe":                           {false, true, []string{"TERM=xterm", "NO_COLOR="}, log, false, false},
		"nobody who wants colours":         {true, true, []string{"TERM=xterm", "NO_COLOR=1"}, log, false, false},
		"a dumb terminal":                  {true, true, []string{"TERM=dumb", "NO_COLOR="}, log, false, false},
		"a long run":                       {false, true, nil, export, false, true},
		"a long run, its errors in a pipe": {false, false, nil, export, false, false},
		"a terminal, its errors in a pipe": {true, false, []string{"TERM=xterm", "NO_COLOR="}, log, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr := shown(t, c.out, c.err, c.environ, c.args...)
			if strings.Contains(stdout, escape) != c.colours || !strings.Contains(stdout, "accepted") {
				t.Errorf("colours: %t, want %t: %.300q", !c.colours, c.colours, stdout)
			}
			if strings.Contains(stderr, progress) != c.progress || !c.progress && stderr != "" {
				t.Errorf("progress: %t, want %t: %.300q", !c.progress, c.progress, stderr)
			}
		})
	}
}
