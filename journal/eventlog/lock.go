package eventlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"jobd/journal/folder"
)

// The lock is a file of its own: closing any descriptor of a database file would drop
// the locks that SQLite holds on it. The kernel releases it when the holder dies.

// lockWait is how long a new worker waits for the one before it to be gone.
const lockWait = 500 * time.Millisecond

// heldError says that another process has the journal open for writing.
type heldError struct {
	Dir    string
	Holder string // what the holder wrote into the lock file
}

// Error implements error.
func (e *heldError) Error() string {
	return fmt.Sprintf("journal %s is in use by %s; every worker needs a journal_dir of its own", e.Dir, e.Holder)
}

// lock takes the journal for this process, waiting a moment for a holder that is
// on its way out.
func lock(dir string) (*os.File, error) {
	path := filepath.Join(dir, folder.LockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock journal: %w", err)
	}
	for deadline := time.Now().Add(lockWait); ; time.Sleep(10 * time.Millisecond) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock journal %s: %w", path, err)
		}
		if time.Now().After(deadline) {
			defer f.Close()
			return nil, &heldError{Dir: dir, Holder: holder(f)}
		}
	}
	if err := sign(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock journal %s: %w", path, err)
	}
	return f, nil
}

// sign writes who holds the lock.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(fmt.Appendf(nil, "process %d (%s)\n", os.Getpid(), filepath.Base(os.Args[0])), 0)
	return err
}

func holder(f *os.File) string {
	buf := make([]byte, 256)
	n, _ := f.ReadAt(buf, 0)
	if name := strings.TrimSpace(string(buf[:n])); name != "" {
		return name
	}
	return "another process"
}
