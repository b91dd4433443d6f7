package executors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/tests/harness"
)

// peer is a service that runs jobs, in a process of its own.
type peer struct {
	url, addr, dir string
	process        *exec.Cmd
}

// asPeer says to this program that it is to be a peer, where, and whose jobs it runs.
const asPeer = "JOBD_TEST_PEER"

func startPeer(t *testing.T, dir string) *peer {
	t.Helper()
	p := &peer{addr: net.JoinHostPort("127.0.0.1", harness.FreePort(t)), dir: dir}
	p.url = "http://" + p.addr
	p.start(t)
	t.Cleanup(p.kill)
	return p
}

// start starts it, or starts it again, and waits until it can be reached.
func (p *peer) start(t *testing.T) {
	t.Helper()
	p.process = exec.Command(os.Args[0])
	p.process.Env = append(os.Environ(), asPeer+"="+p.addr+" "+p.dir)
	p.process.Stderr = os.Stderr
	if err := p.process.Start(); err != nil {
		t.Fatal(err)
	}
	awaitAddress(t, "tcp", p.addr)
}

// awaitAddress waits until somebody takes connections there.
func awaitAddress(t *testing.T, network, addr string) {
	t.Helper()
	harness.Until(t, func() string {
		conn, err := net.DialTimeout(network, addr, time.Second)
		if err != nil {
			return err.Error()
		}
		conn.Close()
		return ""
	})
}

// kill ends it as a crash would. Its jobs run on.
func (p *peer) kill() {
	_ = p.process.Process.Kill() // it may have been killed
	_ = p.process.Wait()
}

// runPeer is the peer: POST /VERSION/ID runs a job.
func runPeer(task string) int {
	addr, dir, _ := strings.Cut(task, " ")
	listener, err := net.Listen("tcp", addr)
	for errors.Is(err, syscall.EADDRINUSE) { // a child of the one that was killed, on its way to its program, has it still
		<-time.After(time.Millisecond)
		listener, err = net.Listen("tcp", addr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	err = http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		words := strings.Split(r.URL.Path, "/")
		if r.Method != http.MethodPost || len(words) != 3 {
			http.NotFound(w, r)
			return
		}
		turn(r.Context(), w, dir, words[2], words[1], r.Header.Get("Jobd-Attempt"))
	}))
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// turn runs a job as long as somebody waits for its answer. What it writes goes into files: so
// nobody waits for what it has left behind.
func turn(ctx context.Context, w http.ResponseWriter, dir, id, version, attempt string) {
	job := exec.CommandContext(ctx, dir+"/job.sh", id, version)
	job.Env = append(os.Environ(), "JOBD_ATTEMPT="+attempt)
	job.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	job.Cancel = func() error { return syscall.Kill(-job.Process.Pid, syscall.SIGKILL) }
	var output [2]*os.File
	for i := range output {
		var err error
		if output[i], err = os.CreateTemp(dir, "output"); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer output[i].Close()
	}
	job.Stdout, job.Stderr = output[0], output[1]
	err := job.Run()
	if job.Process != nil {
		_ = syscall.Kill(-job.Process.Pid, syscall.SIGKILL) // what it has left
	}
	if err == nil {
		_, _ = w.Write(written(output[0]))
		return
	}
	if code := job.ProcessState.ExitCode(); code >= 0 {
		w.Header().Set("Jobd-Exit-Code", strconv.Itoa(code))
	}
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = w.Write(append(written(output[0]), written(output[1])...))
}

func written(file *os.File) []byte {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, math.MaxInt64))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return text
}
