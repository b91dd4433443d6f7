package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// locks are the advisory locks of a table: a byte for each in a file beside the table's. They belong to the open file, not to the
// process, and end with it at the latest.
type locks struct {
	mu   sync.Mutex
	file *os.File
	held map[string]bool
}

// Hold implements store.Table. It speaks for the workers on this machine: there are no others on the file.
func (t *Table) Hold(_ context.Context, name string) (holder string, err error) {
	l := &t.locks
	l.mu.Lock()
	defer l.mu.Unlock()
	const op = "take the advisory lock "
	if err := l.open(t.path + "-jobd"); err != nil {
		return "", fmt.Errorf(op+"%s: %w", name, err)
	}
	if l.held[name] {
		return "", nil
	}
	sum := sha256.Sum256([]byte(t.config.Table + "\x00" + name))
	const positive = 1<<62 - 1
	region := unix.Flock_t{Type: unix.F_WRLCK, Start: int64(binary.BigEndian.Uint64(sum[:]) & positive), Len: 1}
	err = unix.FcntlFlock(l.file.Fd(), unix.F_OFD_SETLK, &region)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
		return "another process on this host", nil
	case err != nil:
		return "", fmt.Errorf(op+"%s: %s: %w", name, l.file.Name(), err)
	}
	l.held[name] = true
	return "", nil
}

// open opens the file, where it is not open or is not the one of that path any more: others would lock another then.
// Callers must hold l.mu.
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
