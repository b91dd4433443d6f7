package compat

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"jobd/exec/runner/wire"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

// dialects are the versions whose workers and runners say something else to each other than those
// of the version before. What they said is recorded here, and played by the tests of exec/runner.
var dialects = []version{
	{name: "tokens", commit: "f255742"},
}

// Each dialect's recording is there. With -update the missing ones are made.
func TestSessions(t *testing.T) {
	t.Parallel()
	for _, v := range dialects {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join(fixtures, "runner", v.name)
			switch _, err := os.Stat(folder); {
			case err == nil:
			case *update:
				v.record(t, folder)
			default:
				t.Errorf("%v: make it with -update", err)
			}
		})
	}
}

// What the jobs of the recorded sessions do, wherever they are played. The last one is running when
// its worker goes.
const recordedLauncher = "/bin/sh -c 'case $0 in 1) echo out; echo err >&2;; 2) exit 3;; 4) printf %070000d 0;; *) exec sleep 300;; esac' {id}"

// record has a worker of the version and its runner talk to each other through a recorder: one
// worker that leaves a job running, and the next one, which comes for it.
func (v version) record(t *testing.T, to string) {
	t.Helper()
	binary := filepath.Join(build(t, v.commit), "jobd")
	s := newSite(t, t.TempDir())
	dir := filepath.Join(s.dir, "journal")
	must.Do(t, os.Mkdir(dir, 0o700))
	recorder := newRecorder(t, dir, binary)
	launcher := fmt.Sprintf("launcher = %q\nlauncher_split = shell\nlauncher.cwd = /\non_stop = handover\n", recordedLauncher)
	config := s.configure(t, strings.Replace(configuration, "launcher = /bin/sh @DIR@/launcher.sh {id}\n", launcher, 1))
	// The environment is part of what is said: it is the same everywhere.
	bare := harness.Script(t, "exec env -i PATH=/usr/bin:/bin "+binary+` "$@"`)
	session := func(name string, work func(*harness.Daemon)) {
		worker := harness.LaunchBinary(t, bare, config, "127.0.0.1:"+s.port)
		work(worker.Ready(t))
		worker.Signal(t, syscall.SIGTERM)
		worker.ExitCode(t)
		recorder.save(t, to, name)
	}
	session("first-worker", func(worker *harness.Daemon) {
		for id := int64(1); id <= 5; id++ {
			s.insert(t, id, "b", "waiting")
			ask(t, worker, "poll", nil)
			if id == 3 {
				recorder.await(t, wire.Started, id)
				end(t, worker, id)
			}
			if id < 5 {
				s.await(t, id, "status = 'done'")
				recorder.await(t, wire.Forget, id)
			} else {
				recorder.await(t, wire.Started, id)
			}
		}
	})
	session("next-worker", func(worker *harness.Daemon) {
		end(t, worker, 5)
		s.await(t, 5, "status = 'done'")
		recorder.await(t, wire.Forget, 5)
	})
}

// end sends a job SIGTERM.
func end(t *testing.T, worker *harness.Daemon, id int64) {
	t.Helper()
	ask(t, worker, "send-signal", map[string]any{"jobs": map[int64]int{id: 15}})
}

// recorder stands between a runner and its workers.
type recorder struct {
	mu    sync.Mutex
	lines []string
	had   map[about]bool
}

// about is what a message is about.
type about struct {
	kind wire.Kind
	job  int64
}

// newRecorder starts a runner of a version, and listens where its workers look for it.
func newRecorder(t *testing.T, dir, binary string) *recorder {
	t.Helper()
	own := must.Get(net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(dir, "real.sock")}))(t)
	defer own.Close()
	socket := must.Get(own.File())(t)
	defer socket.Close()
	own.SetUnlinkOnClose(false)
	runner := exec.Command(binary, "runner")
	runner.Dir, runner.Env, runner.ExtraFiles = dir, []string{"PATH=/usr/bin:/bin"}, []*os.File{socket}
	must.Do(t, runner.Start())
	r := &recorder{had: map[about]bool{}}
	listener := must.Get(net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: filepath.Join(dir, wire.SocketFile)}))(t)
	t.Cleanup(func() {
		listener.Close()
		_ = runner.Process.Kill() // it has ended by itself, if all went well
		_ = runner.Wait()
	})
	go func() {
		for {
			worker, err := listener.AcceptUnix()
			if err != nil {
				return
			}
			there, err := net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: filepath.Join(dir, "real.sock")})
			if err != nil {
				worker.Close()
				continue
			}
			go r.pass("worker", worker, there)
			go r.pass("runner", there, worker)
		}
	}()
	return r
}

// pass hands on what one side says, message by message.
func (r *recorder) pass(side string, from, to *net.UnixConn) {
	defer func() { _ = to.CloseWrite() }() // the other side may be gone
	var held []byte
	piece := make([]byte, 1<<16)
	for {
		n, err := from.Read(piece)
		held = append(held, piece[:n]...)
		for {
			size := first(held)
			if size == 0 {
				break
			}
			r.note(side, held[:size])
			if _, err := to.Write(held[:size]); err != nil {
				return
			}
			held = held[size:]
		}
		if err != nil {
			r.note(side, held)
			return
		}
	}
}

// first is the length of the message at the beginning, 0 where it is not whole. Output stands
// behind the message, and its length is in it.
func first(b []byte) int {
	if len(b) < 4 {
		return 0
	}
	size := 4 + int(binary.LittleEndian.Uint32(b))
	if len(b) < size {
		return 0
	}
	m, err := wire.NewReader(io.MultiReader(bytes.NewReader(b[:size]), bytes.NewReader(make([]byte, 1<<20)))).Next()
	if err == nil && !m.Later {
		size += len(m.Done.Stdout.Kept) + len(m.Done.Stderr.Kept)
	}
	if len(b) < size {
		return 0
	}
	return size
}

// note keeps a message as a line: who said it, what kind it is, its bytes; of much that is alike
// the number of times behind the rest.
func (r *recorder) note(side string, message []byte) {
	if len(message) == 0 {
		return
	}
	var what about
	if m, err := wire.NewReader(bytes.NewReader(message)).Next(); err == nil {
		what = about{m.Kind, m.ID.Job}
	}
	same := 0
	if last := len(message) - 1; last > 1000 {
		for same = 1; message[last-same] == message[last]; same++ {
		}
	}
	text := fmt.Sprintf("%s %d %s", side, what.kind, strconv.Quote(string(message[:len(message)-same])))
	if same > 0 {
		text += fmt.Sprintf(" %d %q", same, message[len(message)-1:])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, text+"\n")
	r.had[what] = true
}

// await waits for a message of a kind about a job.
func (r *recorder) await(t *testing.T, kind wire.Kind, job int64) {
	t.Helper()
	harness.Until(t, func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.had[about{kind, job}] {
			return fmt.Sprintf("no message of kind %d was said about job %d", kind, job)
		}
		return ""
	})
}

// save writes what was said since the last time.
func (r *recorder) save(t *testing.T, dir, name string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	must.Do(t, os.MkdirAll(dir, 0o755))
	must.Do(t, os.WriteFile(filepath.Join(dir, name+".txt"), []byte(strings.Join(r.lines, "")), 0o644))
	r.lines = nil
}
