package eventlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"jobd/journal/archive"
)

// disk is what the journal asks of its newest segment. Only the leader calls append and next.
type disk interface {
	// Append writes records, and the mirror's position unless it is nil, all or
	// none; they are durable when it returns.
	Append(records []archive.Record, position *uint64) error
	// next makes the segment that a header opens, durably. Where it found no room
	// (see full) there is no such segment, and this one may be appended to.
	next(h archive.Header, position uint64) (disk, error)
	// Size is about how many bytes the segment has.
	Size() int64
	// Checkpoint empties the write-ahead log where it has grown beyond bound bytes. It may be
	// called at any time.
	Checkpoint(bound int64) error
	Close() error
}

// onDisk is the newest segment in a folder. It implements disk.
type onDisk struct {
	*archive.Appender
	dir string
}

// openDisk opens a segment for appending.
func openDisk(ctx context.Context, dir string, number int) (onDisk, error) {
	s, err := archive.OpenAppender(ctx, dir, number)
	return onDisk{s, dir}, err
}

// next implements disk.
func (d onDisk) next(h archive.Header, position uint64) (disk, error) {
	err := archive.Make(context.Background(), d.dir, h, position)
	if err == nil {
		var next onDisk
		if next, err = openDisk(context.Background(), d.dir, h.Number); err == nil {
			return next, nil
		}
	}
	if archive.Full(err) {
		// The journal goes on without it, so it must never be there again, not even after a power
		// cut.
		if err := errors.Join(archive.RemoveDatabase(archive.DatabasePath(d.dir, h.Number)), archive.SyncFolder(d.dir)); err != nil {
			return nil, fmt.Errorf("remove a segment that found no room: %w", err)
		}
	}
	return nil, err
}

// reserveFile holds blocks that are given back when the disk is full, so that what was begun can
// be ended.
const reserveFile = "reserve"

// Reserve watches the room that a journal has. Its methods are safe for
// concurrent use.
type Reserve struct {
	dir       string
	threshold int64
	size      int64
	free      func(dir string) (free, total int64, err error)

	mu   sync.Mutex
	held bool      // the reserve's blocks are allocated
	low  time.Time // since when Check fails; zero: it does not
}

// OpenReserve watches over the disk of a journal's folder. Below threshold free
// bytes, or a tenth of the disk where that is less, nothing new may begin; a quarter of it is
// reserved for what is under way.
func OpenReserve(dir string, threshold int64) (*Reserve, error) {
	r := &Reserve{dir: dir, threshold: threshold, free: freeSpace}
	_, total, err := r.free(dir)
	if err != nil {
		return nil, fmt.Errorf("open reserve: %w", err)
	}
	r.threshold = min(threshold, total/10)
	r.size = r.threshold / 4
	return r, nil
}

// Check fails, in words for an operator, where too little room is left to begin anything new.
func (r *Reserve) Check() error {
	_, why := r.Low()
	return why
}

// Low is Check, and tells since when that fails, as far as anybody has asked.
func (r *Reserve) Low() (since time.Time, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	why = r.check()
	switch {
	case why == nil:
		r.low = time.Time{}
	case r.low.IsZero():
		r.low = time.Now()
	}
	return r.low, why
}

// check is Check for callers that hold r.mu.
func (r *Reserve) check() error {
	free, _, err := r.free(r.dir)
	if err != nil {
		return fmt.Errorf("check the journal's disk: %w", err)
	}
	if !r.held && free >= r.threshold+r.size {
		r.held = r.allocate() == nil
		return nil
	}
	if free < r.threshold {
		return fmt.Errorf("journal %s: only %d MiB of its disk are free, and %d MiB are needed: no job is claimed", r.dir, free>>20, r.threshold>>20)
	}
	return nil
}

// Release gives the reserve's blocks back to the disk. Check reserves them again when there is
// room.
func (r *Reserve) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = false
	_ = os.Truncate(filepath.Join(r.dir, reserveFile), 0) // what cannot be given back was not there
}

// allocate takes the blocks. A file system that knows no preallocation does without a reserve.
func (r *Reserve) allocate() error {
	f, err := os.OpenFile(filepath.Join(r.dir, reserveFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return syscall.Fallocate(int(f.Fd()), 0, 0, r.size)
}

// Close gives the blocks back.
func (r *Reserve) Close() error {
	if err := os.Remove(filepath.Join(r.dir, reserveFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// freeSpace is what an ordinary user may still write on a folder's disk, and its size, in bytes.
func freeSpace(dir string) (free, total int64, err error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(s.Bavail) * s.Bsize, int64(s.Blocks) * s.Bsize, nil
}
