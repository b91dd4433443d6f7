package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// locks are the advisory locks of a table: a byte for each in a file beside the table's. They
// belong to the open file, not to the process, and end with it at the latest.
type locks struct {
	mu   sync.Mutex
	file *os.File
	held map[string]bool
}

// Hold implements store.Table. It speaks for the workers on this machine: there are no others on
// the file.
func (t *Table) Hold(_ context.Context, name string) (holder string, err error) {
	if t.known.Load() {
		if _, err := os.Stat(t.path); err != nil {
			return "", t.gone(err) // no worker has a name on no table
		}
	}
	l := &t.locks
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = t.askFor(name, unix.F_OFD_SETLK)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return anotherProcess, nil
	}
	l.held[name] = err == nil
	return "", err
}

// Holder implements store.Table.
func (t *Table) Holder(_ context.Context, name string) (holder string, err error) {
	l := &t.locks
	l.mu.Lock()
	defer l.mu.Unlock()
	region, err := t.askFor(name, unix.F_OFD_GETLK)
	if err != nil || l.held[name] || region.Type == unix.F_UNLCK {
		return "", err
	}
	return anotherProcess, nil
}

// askFor asks the kernel for the byte that stands for a lock, unless it is ours. Callers must hold l.mu.
func (t *Table) askFor(name string, command int) (region unix.Flock_t, err error) {
	l := &t.locks
	sum := sha256.Sum256([]byte(t.config.Table + "\x00" + name))
	const positive = 1<<62 - 1
	region = unix.Flock_t{Type: unix.F_WRLCK, Start: int64(binary.BigEndian.Uint64(sum[:]) & positive), Len: 1}
	if err = l.open(t.lockPath()); err == nil && !l.held[name] {
		err = unix.FcntlFlock(l.file.Fd(), command, &region)
	}
	if err != nil {
		err = fmt.Errorf("the advisory lock %s in %s: %w", name, t.lockPath(), err)
	}
	return region, err
}

// lockPath is the file of the locks. It stands beside the table's file itself, whatever link the
// path is.
func (t *Table) lockPath() string {
	path, err := filepath.EvalSymlinks(t.path)
	if err != nil {
		path = t.path
	}
	return path + "-jobd"
}

// anotherProcess is all that is known of who has a lock.
const anotherProcess = "another process on this host"

// open opens the file, where it is not open or is not the one of that path any more: others would
// lock another then. Callers must hold l.mu.
func (l *locks) open(path string) error {
	if l.file != nil {
		ours, err := l.file.Stat()
		if err != nil {
			return err
		}
		if there, err := os.Stat(path); err == nil && os.SameFile(ours, there) {
			return nil
		}
		_ = l.file.Close() // its locks are worth nothing
	}
	const owner = 0o600
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, owner)
	l.file, l.held = file, map[string]bool{}
	if err != nil {
		l.file = nil
	}
	return err
}

// close gives the locks back.
func (l *locks) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}
