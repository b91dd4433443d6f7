package runner

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// address is the socket's address by way of a descriptor of its folder: a
// socket's path may have 107 bytes only, a folder's any number.
func (r *Remote) address() (address *net.UnixAddr, folder *os.File, err error) {
	folder, err = os.Open(r.config.Dir)
	if err != nil {
		return nil, nil, err
	}
	name := filepath.Join("/proc/self/fd", fmt.Sprint(folder.Fd()), socketFile)
	return &net.UnixAddr{Net: "unix", Name: name}, folder, nil
}

func (r *Remote) dial() (*net.UnixConn, error) {
	address, folder, err := r.address()
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	conn, err := net.DialUnix("unix", nil, address)
	if err != nil {
		return nil, err
	}
	if err := checkPeer(conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// launch starts a runner. The socket is made here and handed over, so that
// connecting needs no waiting; the journal's lock keeps others from doing the same.
func (r *Remote) launch() (*net.UnixConn, error) {
	path := filepath.Join(r.config.Dir, socketFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("start runner: %w", err)
	}
	address, folder, err := r.address()
	if err != nil {
		return nil, fmt.Errorf("start runner: %w", err)
	}
	defer folder.Close()
	listener, err := net.ListenUnix("unix", address)
	if err != nil {
		return nil, fmt.Errorf("start runner: %w", err)
	}
	listener.SetUnlinkOnClose(false)
	defer listener.Close()
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, fmt.Errorf("start runner: %w", err)
	}
	if err := r.spawn(listener); err != nil {
		return nil, fmt.Errorf("start runner: %w", errors.Join(err, os.Remove(path)))
	}
	return r.dial()
}

// spawn starts the runner's process in a session of its own, so that nothing that
// ends the worker's session or group ends it.
func (r *Remote) spawn(listener *net.UnixListener) error {
	socket, err := listener.File()
	if err != nil {
		return err
	}
	defer socket.Close()
	log, err := os.OpenFile(filepath.Join(r.config.Dir, logFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	return withSlack(runnerSlack, func() error {
		process, err := os.StartProcess(r.config.Path, r.config.Command, &os.ProcAttr{
			Dir:   r.config.Dir,
			Env:   slices.DeleteFunc(os.Environ(), isSecret),
			Files: []*os.File{null, log, log, socket},
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
		if err == nil {
			go bury(process)
		}
		return err
	})
}

// bury waits for a runner that ends before its worker does.
func bury(process *os.Process) { _, _ = process.Wait() }

// isSecret tells variables that a runner has no use for: the worker's own, with
// passwords among them.
func isSecret(variable string) bool {
	return strings.HasPrefix(variable, "JOBD_")
}
