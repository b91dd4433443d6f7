// Package loop drives a launcher that keeps processes, without jobd: it says on descriptor 3 what
// jobd would, and reads the answers from 4. So a loop in any language can be looked at by itself, and
// what it can do at most can be measured beside jobd.
package loop

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

// Loop is one process of a launcher.
type Loop struct {
	command  *exec.Cmd
	requests *os.File
	answers  *bufio.Reader
	ends     string // the word with which the answer about a job's end begins
}

// Ends of a job, as the protocol has them: a fork's is told by its parent, a turn's by the process.
const (
	Ended = "ended"
	Exit  = "exit"
)

// noticed takes the signals that nohup, or a shell's background, has this process ignore. What a
// process ignores its children ignore too; what it takes notice of does to them what it does to all.
var noticed = make(chan os.Signal, 1)

// Start starts a process whose jobs end with that word, its output going to stdout and stderr, and
// waits until it is ready.
func Start(ends string, stdout, stderr io.Writer, argv ...string) (*Loop, error) {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(noticed, s)
		}
	}
	theirs, requests, err := pair()
	if err != nil {
		return nil, err
	}
	answers, written, err := pair()
	if err != nil {
		return nil, errors.Join(err, theirs.Close(), requests.Close())
	}
	l := &Loop{command: exec.Command(argv[0], argv[1:]...), requests: requests, answers: bufio.NewReader(answers), ends: ends}
	l.command.Stdout, l.command.Stderr = stdout, stderr
	l.command.ExtraFiles = []*os.File{theirs, written}
	err = l.command.Start()
	theirs.Close()
	written.Close()
	if err != nil {
		return nil, err
	}
	if line, err := l.Read(); err != nil || line != "ready" {
		_ = l.command.Process.Kill()
		_ = l.command.Wait() // all that it wrote is there then
		return nil, fmt.Errorf("%s said %q in the place of ready: %w", argv, line, err)
	}
	return l, nil
}

// pair is the two ends of a socket, as jobd has them.
func pair() (one, other *os.File, err error) {
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(ends[0]), "socket"), os.NewFile(uintptr(ends[1]), "socket"), nil
}

// Pid is the process's number.
func (l *Loop) Pid() int { return l.command.Process.Pid }

// Read gives the next answer.
func (l *Loop) Read() (string, error) {
	line, err := l.answers.ReadString('\n')
	return strings.TrimSuffix(line, "\n"), err
}

// Ask asks for a job, told more by variables.
func (l *Loop) Ask(job int64, variables ...string) error {
	_, err := fmt.Fprintln(l.requests, strings.Join(append([]string{fmt.Sprintf("run %d 1", job)}, variables...), " "))
	return err
}

// Run runs a job to its end, and gives what the launcher says of it: the exit code, or the raw wait
// status of a fork.
func (l *Loop) Run(job int64, variables ...string) (end int, err error) {
	if err := l.Ask(job, variables...); err != nil {
		return 0, err
	}
	started, err := l.Read()
	if err != nil || !strings.HasPrefix(started, fmt.Sprintf("started %d", job)) {
		return 0, fmt.Errorf("%q in the place of started: %w", started, err)
	}
	ended, err := l.Read()
	if err != nil {
		return 0, err // io.EOF: the process has ended, and its end is the job's
	}
	var of int64
	if _, err := fmt.Sscanf(ended, l.ends+" %d %d", &of, &end); err != nil || of != job {
		return 0, fmt.Errorf("%q in the place of %s: %w", ended, l.ends, err)
	}
	return end, nil
}

// Quit lets the process end, and waits until it has.
func (l *Loop) Quit() error {
	if _, err := fmt.Fprintln(l.requests, "quit"); err != nil {
		return err
	}
	return l.Wait()
}

// Close ends the requests, as jobd's end would, and waits until the process has ended.
func (l *Loop) Close() error {
	l.requests.Close()
	return l.Wait()
}

// Wait waits until the process has ended.
func (l *Loop) Wait() error {
	err := l.command.Wait()
	l.requests.Close()
	return err
}
