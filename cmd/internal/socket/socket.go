// Package socket makes the unix sockets on which a daemon listens. It keeps nothing on disk but their
// names; one that a process which was killed has left there is found and replaced by the next start.
package socket

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// mode lets the daemon's group connect.
const mode = 0o660

// socket is a listener at a path, which it removes at its end: where it is still its own.
type socket struct {
	*net.UnixListener
	path  string
	own   fs.FileInfo
	close func() error
}

// Listen takes a path. A socket that a former run has left, and that nobody answers, is
// replaced.
func Listen(path string) (net.Listener, error) {
	defer alone(filepath.Dir(path))()
	listener, err := bind(path)
	if errors.Is(err, syscall.EADDRINUSE) && isLeft(path) {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
		listener, err = bind(path)
	}
	if err != nil {
		return nil, err
	}
	s := &socket{UnixListener: listener, path: path}
	s.close = sync.OnceValue(s.end)
	err = os.Chmod(path, mode)
	if err == nil {
		s.own, err = os.Lstat(path)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// bind makes the socket. It lets in nobody whom mode does not, from its first moment on, whatever the
// umask: its name has the mode of its descriptor, less the umask's bits.
func bind(path string) (*net.UnixListener, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		_ = raw.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), mode) })
		return err
	}}
	made, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	listener := made.(*net.UnixListener)
	listener.SetUnlinkOnClose(false)
	return listener, nil
}

// aloneTime is how long a daemon waits for others that make sockets in the folder; they take a moment. Any account
// may hold a lock of a folder: so then it goes on without.
const aloneTime = 2 * time.Second

// alone locks a folder, so that nobody removes a socket that another daemon has just made, until end is called.
func alone(folder string) (end func()) {
	file, err := os.Open(folder)
	if err != nil {
		return func() {}
	}
	for late := time.Now().Add(aloneTime); time.Now().Before(late); time.Sleep(time.Millisecond) {
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			break
		}
	}
	return func() { _ = file.Close() }
}

// Close implements net.Listener.
func (s *socket) Close() error { return s.close() }

// end removes the path, unless somebody else has taken it meanwhile. No other socket has the same
// number before this one is closed.
func (s *socket) end() error {
	if now, err := os.Lstat(s.path); err == nil && s.own != nil && os.SameFile(now, s.own) {
		if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, s.UnixListener.Close())
		}
	}
	return s.UnixListener.Close()
}

// isLeft tells whether a path is that of a socket that nobody listens on any more.
func isLeft(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return false
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
