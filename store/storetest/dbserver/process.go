package dbserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// endTimeout is how long a server may take to end in order.
const endTimeout = 2 * time.Minute

// process is a running server.
type process struct {
	command *exec.Cmd
	ended   chan struct{} // closed when it is gone
}

// run starts the server with its output in the file log. Its environment is this process's where env
// is nil.
func (p program) run(args, env []string, log string) (*process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	command := exec.Command(p.path, args...)
	command.Dir, command.Env = "/", env
	command.SysProcAttr = p.attributes()
	command.Stdout, command.Stderr = output, output
	started := &process{command: command, ended: make(chan struct{})}
	result := make(chan error)
	go started.hold(result)
	if err := <-result; err != nil {
		return nil, err
	}
	return started, nil
}

// hold starts the process and waits for its end on one and the same thread: the
// kernel sends the death signal when the thread that forked ends (golang/go#27505).
func (p *process) hold(result chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.command.Start()
	result <- err
	if err == nil {
		_ = p.command.Wait() // how it ended is in its log; that it ended is what counts
	}
	close(p.ended)
}

// end sends the signal and waits; a server that does not heed it is killed.
func (p *process) end(signal syscall.Signal) error {
	_ = p.command.Process.Signal(signal) // it may be gone already
	select {
	case <-p.ended:
		return nil
	case <-time.After(endTimeout):
	}
	_ = p.command.Process.Kill()
	<-p.ended
	return fmt.Errorf("stop database server: still there %s after %s, killed", endTimeout, signal)
}

// dirPrefix begins the name of the folder of a server that process pid started.
func dirPrefix(pid int) string { return fmt.Sprintf("jobd-db-%d-", pid) }

// sweep removes the folders of servers whose starter is gone.
func sweep(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, "jobd-db-*-*"))
	for _, dir := range dirs {
		pid, err := strconv.Atoi(strings.Split(filepath.Base(dir), "-")[2])
		if err == nil && syscall.Kill(pid, 0) == syscall.ESRCH {
			_ = os.RemoveAll(dir) // the next one tries again
		}
	}
}
