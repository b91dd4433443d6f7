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
	l := &t.locks
	l.mu.Lock()
	defer l.mu.Unlock()
	const op = "take the advisory lock "
	if err := l.open(t.lockPath()); err != nil {
		return "", fmt.Errorf(op+"%s: %w", name, err)
	}
	if l.held[name] {
		return "", nil
	}
	region := t.region(name)
	err = unix.FcntlFlock(l.file.Fd(), unix.F_OFD_SETLK, &region)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
		return anotherProcess, nil
	case err != nil:
		return "", fmt.Errorf(op+"%s: %s: %w", name, l.file.Name(), err)
	}
	l.held[name] = true
	return "", nil
}

// region is the byte that stands for a lock.
func (t *Table) region(name string) unix.Flock_t {
	sum := sha256.Sum256([]byte(t.config.Table + "\x00" + name))
	const positive = 1<<62 - 1
	return unix.Flock_t{Type: unix.F_WRLCK, Start: int64(binary.BigEndian.Uint64(sum[:]) & positive), Len: 1}
}

// Holder implements store.Table.
func (t *Table) Holder(_ context.Context, name string) (holder string, err error) {
	l := &t.locks
	l.mu.Lock()
	defer l.mu.Unlock()
	const op = "look at the advisory lock "
	if err := l.open(t.lockPath()); err != nil {
		return "", fmt.Errorf(op+"%s: %w", name, err)
	}
	region := t.region(name)
	if err := unix.FcntlFlock(l.file.Fd(), unix.F_OFD_GETLK, &region); err != nil {
		return "", fmt.Errorf(op+"%s: %s: %w", name, l.file.Name(), err)
	}
	if region.Type == unix.F_UNLCK {
		return "", nil
	}
	return anotherProcess, nil
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
