package host

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"jobd/exec/program"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
	"jobd/journal"
)

// spec says what to start.
type spec struct {
	argv      []string
	dir       string // "": the runner's own
	env       []string
	maxOutput int // bytes kept of stdout and of stderr, each
	limit     wire.Limit
}

// spawner makes processes whose stdin is empty and whose output goes into pipes.
type spawner struct {
	null   *os.File // /dev/null, for jobs to read
	sink   *os.File // the same, to write
	rest   rest
	bootID string
	killer killer
}

func newSpawner() (*spawner, error) {
	bootID, err := proc.BootID()
	if err != nil {
		return nil, err
	}
	if err := proc.KeepDescriptors(); err != nil {
		return nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	sink, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, errors.Join(err, null.Close())
	}
	s := &spawner{null: null, sink: sink, rest: rest{sink: int(sink.Fd())}, bootID: bootID}
	s.killer.look()
	return s, nil
}

func (s *spawner) close() error { return errors.Join(s.null.Close(), s.sink.Close()) }

// refusedError says why a start did not happen.
type refusedError struct {
	text  string
	class wire.Class
}

func (e *refusedError) Error() string { return e.text }

// refusal says what could not be started, and names the folder where that is what is missing.
// Whatever went wrong, no program was executed.
func refusal(what spec, err error) error {
	refused := &refusedError{fmt.Sprintf("start %s: %v", what.argv[0], err), wire.ClassOf(err)}
	if refused.class == wire.Short {
		return refused
	}
	if what.dir != "" {
		if _, statErr := os.Stat(what.dir); statErr != nil {
			refused.text = fmt.Sprintf("start %s: working folder: %v", what.argv[0], statErr)
			return refused
		}
	}
	if seen := program.Check(what.dir, what.argv[0]); seen != nil {
		refused.text = fmt.Sprintf("start %s: %s", what.argv[0], about(what.argv[0], seen))
	}
	return refused
}

// about is an error about a path as it reads behind that path.
func about(path string, err error) string {
	rest, begins := strings.CutPrefix(err.Error(), path)
	if cause, told := strings.CutPrefix(rest, ": "); told || !begins {
		return cause
	}
	return "it" + rest
}

// spawn starts a process. An error is a *refusedError.
func (s *spawner) spawn(what spec, w watcher) (*child, error) {
	c := &child{watcher: w, killer: &s.killer, kills: s.killer.known.Load(), pidfd: -1, place: -1}
	if err := s.pipeAndFork(what, c); err != nil {
		return nil, refusal(what, err)
	}
	return c, nil
}

// pipeAndFork makes the pipes and the process. Descriptors are plain numbers: the reactor's epoll
// watches them, and Go's would be told of each for nothing.
func (s *spawner) pipeAndFork(what spec, c *child) error {
	stdout, err := newPipe()
	if err != nil {
		return err
	}
	stderr, err := newPipe()
	if err != nil {
		stdout.close()
		return err
	}
	err = s.fork(what, c, stdout.writer, stderr.writer)
	unix.Close(stdout.writer)
	unix.Close(stderr.writer)
	if err != nil {
		unix.Close(stdout.reader)
		unix.Close(stderr.reader)
		return err
	}
	c.stdout = capture{pipe: stdout.reader, limit: what.maxOutput, rest: &s.rest}
	c.stderr = capture{pipe: stderr.reader, limit: what.maxOutput, rest: &s.rest}
	return nil
}

// fork starts the process as the leader of a group of its own.
func (s *spawner) fork(what spec, c *child, stdout, stderr int) error {
	before, pid := proc.Uptime(), 0
	err := proc.WithTimers(proc.UsualTimers, func() (err error) {
		pid, err = family.fork(what.argv, &syscall.ProcAttr{
			Dir: what.dir, Env: what.env,
			Files: []uintptr{s.null.Fd(), uintptr(stdout), uintptr(stderr)},
			Sys:   &syscall.SysProcAttr{Setpgid: true, PidFD: &c.pidfd},
		})
		return err
	})
	if err != nil {
		return err
	}
	c.born, c.forked, c.over = proc.Uptime(), before, what.limit.From(before)
	c.started = journal.Started{Pid: pid, BootID: s.bootID, StartTime: startedAt(pid, before, c.born)}
	return nil
}

// startedAt is the start time of a process that was made between two uptimes. Where both are in the
// same tick, so was the start; else the kernel is asked.
func startedAt(pid int, before, after int64) uint64 {
	if before/proc.Tick == after/proc.Tick {
		return uint64(after / proc.Tick)
	}
	return proc.StartTime(pid)
}
