package web

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"
)

// socketMode lets the service's group read what is told.
const socketMode = 0o660

// socket is a listener at a path, which it removes at its end: where it is still its own.
type socket struct {
	*net.UnixListener
	path  string
	own   fs.FileInfo
	close func() error
}

// listenUnix takes a path. A socket that a former run has left, and that nobody answers, is
// replaced.
func listenUnix(path string) (net.Listener, error) {
	at := &net.UnixAddr{Name: path, Net: "unix"}
	listener, err := net.ListenUnix(at.Net, at)
	if errors.Is(err, syscall.EADDRINUSE) && isLeft(path) {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
		listener, err = net.ListenUnix(at.Net, at)
	}
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	s := &socket{UnixListener: listener, path: path}
	s.close = sync.OnceValue(s.end)
	err = os.Chmod(path, socketMode)
	if err == nil {
		s.own, err = os.Lstat(path)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
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
