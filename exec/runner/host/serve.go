package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
)

// Serve is the runner process: it serves the socket that it finds at wire.SocketDescriptor, with
// the journal's folder as working folder. It starts jobs for the worker that is connected, keeps
// their outcomes across workers until they are forgotten, and returns when there is neither a
// worker nor a job.
func Serve(logger *slog.Logger) error {
	makeThreads()
	socket, err := listen()
	if err != nil {
		return fmt.Errorf("jobd runner is started by jobd itself, with a unix socket as descriptor %d: %w", wire.SocketDescriptor, err)
	}
	// The list of runners that ended is opened now: at its end the runner only writes one line, to a folder
	// that may be about to go.
	ended, err := os.OpenFile(wire.EndedFile, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("start runner: %w", err)
	}
	known := newJobs(wire.NameOf(rand.Text(), os.Getpid(), proc.StartTime(os.Getpid())))
	reactor, err := newReactor(known)
	if err != nil {
		return errors.Join(fmt.Errorf("start runner: %w", err), ended.Close())
	}
	s := &server{jobs: known, reactor: reactor, ended: ended, logger: logger}
	s.home, _ = os.Stat(wire.SocketFile)
	return s.run(socket)
}

// listen listens on the socket. As a socket's peer the kernel names the process that called listen last:
// that was the worker, which made the socket, and is the runner from now on.
func listen() (*net.UnixListener, error) {
	if err := unix.Listen(wire.SocketDescriptor, unix.SOMAXCONN); err != nil {
		return nil, err
	}
	file := os.NewFile(wire.SocketDescriptor, "runner socket")
	defer file.Close()
	listener, err := net.FileListener(file)
	if err != nil {
		return nil, err
	}
	if socket, ok := listener.(*net.UnixListener); ok {
		return socket, nil
	}
	return nil, errors.New("it is another kind of socket")
}

// server is the runner between workers.
type server struct {
	jobs    *jobs
	reactor *reactor
	ended   *os.File    // takes the instance at the end
	home    os.FileInfo // the socket by which workers find the runner; nil: it is not in the folder
	logger  *slog.Logger
}

// reachInterval is how often a runner without a worker checks whether one can still come.
const reachInterval = 30 * time.Second

// run serves one worker after the other until nothing is left to be done for anybody.
//
// Each worker is served to the end of what it sent: a start that a killed worker still had on its
// way is known before the next one asks.
func (s *server) run(listener *net.UnixListener) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	workers := make(chan *net.UnixConn)
	failed := make(chan error, 2)
	go func() { failed <- accept(ctx, listener, workers) }()
	go func() { failed <- s.reactor.run() }()
	defer s.reactor.stop()
	defer s.reactor.pools.shutdown()
	defer listener.Close()
	for {
		select {
		case conn := <-workers:
			err := admit(conn)
			if err == nil {
				err = s.serve(conn)
			}
			if err != nil {
				s.logger.Warn("worker was refused or lost", "error", err)
			}
			conn.Close()
		case <-s.jobs.empty:
		case <-time.After(reachInterval):
			if s.abandoned() {
				return nil
			}
		case err := <-failed:
			return err
		}
		if s.jobs.idle() {
			return noteEnd(s.ended, s.jobs.instance)
		}
	}
}

// abandoned tells whether nothing runs, and no worker can come for the outcomes any more.
func (s *server) abandoned() bool { return !reachable(s.home) && !s.jobs.running() }

// acceptDelay is how long a runner that has no descriptor left waits for one.
const acceptDelay = 100 * time.Millisecond

// accept passes connections on until ctx ends.
func accept(ctx context.Context, listener *net.UnixListener, workers chan<- *net.UnixConn) error {
	for {
		conn, err := listener.AcceptUnix()
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
			time.Sleep(acceptDelay) // jobs that end give some back
			continue
		}
		if err != nil {
			return fmt.Errorf("accept worker: %w", err)
		}
		select {
		case workers <- conn:
		case <-ctx.Done():
			conn.Close()
			return nil
		}
	}
}

// serve serves one worker until it is gone.
func (s *server) serve(conn *net.UnixConn) error {
	reader := wire.NewReader(conn)
	hello, err := reader.Next()
	if err != nil {
		return fmt.Errorf("receive hello: %w", err)
	}
	if err := hello.CheckHello(); err != nil {
		return err
	}
	out := wire.NewOutbox(conn)
	defer func() {
		out.Close()
		<-out.Written()
	}()
	s.jobs.connect(out, &hello)
	s.reactor.pools.joined()
	defer s.reactor.pools.left()
	defer s.jobs.disconnect()
	return s.receive(reader)
}

// admit fails where the process that has connected does not hold the journal's lock: it is no worker of
// this journal, and has no orders to give. The kernel lists who has taken which lock; where that list is
// not to be seen the peer's account alone counts.
func admit(conn *net.UnixConn) error {
	pid, err := wire.Peer(conn)
	if err != nil {
		return err
	}
	var lock unix.Stat_t
	if err := unix.Stat(wire.LockFile, &lock); err != nil {
		return fmt.Errorf("refused: process %d can't hold the journal's lock: %w", pid, err)
	}
	locks, err := os.ReadFile("/proc/locks")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("refused: the holder of the journal's lock is not known: %w", err)
	}
	for line := range strings.Lines(string(locks)) { // 7: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF
		f := strings.Fields(line)
		if len(f) > 5 && f[1] == "FLOCK" && f[3] == "WRITE" && f[4] == strconv.Itoa(pid) &&
			strings.HasSuffix(f[5], ":"+strconv.FormatUint(lock.Ino, 10)) {
			return nil
		}
	}
	return fmt.Errorf("refused: process %d (%s) does not hold the journal's lock", pid, proc.Program(pid))
}

// receive does what the worker asks for until it is gone.
func (s *server) receive(reader *wire.Reader) error {
	r := requests{jobs: s.jobs, reactor: s.reactor, places: make(chan struct{}, maxStarts)}
	defer r.starts.Wait()
	for {
		m, err := reader.Next()
		if wire.HungUp(err) {
			return nil
		}
		if err == nil {
			err = r.do(&m)
		}
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
	}
}

// reachable tells whether workers can still come: the path of the working folder, which is the journal's,
// leads to the runner's socket. It does not if the folder was removed, or its file system detached or
// covered by another, or another process has put its socket there. A folder that was renamed is found
// under its new name.
func reachable(socket os.FileInfo) bool {
	folder, err := unix.Getwd()
	if err != nil || socket == nil {
		return false
	}
	there, err := os.Stat(filepath.Join(folder, wire.SocketFile))
	return err == nil && os.SameFile(there, socket)
}

// noteEnd adds a runner to the list, and closes it.
func noteEnd(list *os.File, instance string) error {
	if _, err := fmt.Fprintln(list, instance); err != nil {
		return fmt.Errorf("note the end: %w", err)
	}
	return list.Close()
}
