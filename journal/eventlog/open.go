package eventlog

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"jobd/journal"
	"jobd/journal/folder"
	"jobd/journal/replay"
	"jobd/journal/segment"
	"jobd/journal/verify"
)

// Open locks the journal in a folder, makes it where it is new, verifies its newest segment
// and folds it into the state. A damaged journal is left as it was found.
//
// Errors: one that names the holder where another process writes it, a *journal.DamagedError where
// it does not hold what was once acknowledged, journal.ErrFull where its disk has no room to open it.
func Open(ctx context.Context, c Config) (*Log, error) {
	c.fill()
	j := &Log{config: c, clock: newClock(&c), nudge: make(chan struct{}, 1), recent: recent{heavy: make(chan struct{}, 1)}}
	j.life, j.end = context.WithCancel(context.Background())
	if err := j.open(ctx); err != nil {
		return nil, errors.Join(told(c.Dir, err), j.release())
	}
	return j, nil
}

// fullError says that there is no room to open a journal.
type fullError struct {
	Dir  string
	Free int64 // bytes on its disk
	Err  error // the cause
}

// Error implements error.
func (e *fullError) Error() string {
	return fmt.Sprintf("journal %s: its disk is full: %d KiB are free; make room there: %v", e.Dir, e.Free>>10, e.Err)
}

// Unwrap gives the cause.
func (e *fullError) Unwrap() error { return e.Err }

// told is why a journal in a folder can't be opened, which says so where its disk is full: SQLite only
// tells of an I/O error then, by a number.
func told(dir string, err error) error {
	free, _, statErr := freeSpace(dir)
	if !segment.NoRoom(err) || statErr != nil {
		return err
	}
	return &fullError{Dir: dir, Free: free, Err: fmt.Errorf("%w: %w", journal.ErrFull, err)}
}

func (j *Log) open(ctx context.Context) error {
	var err error
	if j.lock, err = lock(j.config.Dir); err != nil {
		return err
	}
	j.folder = folder.OpenOwn(j.config.Dir)
	j.reader = replay.In(j.folder)
	if err := j.make(ctx); err != nil {
		return j.folder.Failed("open", err)
	}
	parts, err := j.folder.Segments(ctx)
	if err == nil {
		err = j.resume(ctx, parts)
	}
	if err != nil {
		return j.folder.Failed("open", err)
	}
	if j.head, err = folder.OpenHead(j.config.Dir); err != nil {
		return err
	}
	newest, err := openDisk(ctx, j.config.Dir, j.newest.Number)
	if err != nil {
		return err
	}
	j.disk, j.stored = newest, j.notes
	j.wakeRun()
	return nil
}

// make makes the journal where there is none and never was one.
func (j *Log) make(ctx context.Context) error {
	parts, err := j.folder.Segments(ctx)
	if err != nil || len(parts) > 0 {
		return err
	}
	if err := j.folder.None(); !errors.Is(err, folder.ErrNone) {
		return err
	}
	h, err := segment.NewHeader(1, &journal.State{Removed: &journal.Removal{}})
	if err != nil {
		return err
	}
	return segment.Make(ctx, j.config.Dir, h, segment.Notes{Kept: 1})
}

// resume verifies and folds the newest segment, and removes what a roll-over that died has left
// behind it.
func (j *Log) resume(ctx context.Context, parts []folder.Part) error {
	newest := parts[len(parts)-1]
	if newest.Sealed {
		return &journal.DamagedError{Detail: folder.DetailAllSealed}
	}
	v, err := verify.Newest(ctx, j.folder, parts, j.config.Logger)
	if err != nil {
		return err
	}
	if v.Weight >= verify.WaypointWeight {
		j.recent.heavy <- struct{}{}
	}
	j.recent.since = v.Weight % verify.WaypointWeight
	j.newest, j.state, j.notes = v.Header, *v.State, v.Notes
	if err := j.startClock(v.Begun); err != nil {
		return err
	}
	if v.Unfit {
		if err := segment.RemoveIfThere(filepath.Join(j.config.Dir, folder.WaypointFile)); err != nil {
			return err
		}
	}
	all, err := folder.List(j.config.Dir)
	if err != nil || all[len(all)-1].Number == newest.Number {
		return err
	}
	return errors.Join(segment.RemoveDatabase(all[len(all)-1].Path), segment.SyncFolder(j.config.Dir))
}

// Close writes what was noted, waits for appends under way, empties the
// write-ahead log and gives the journal free for the next writer. Appends that have not
// begun get ErrClosed. A second Close does nothing.
func (j *Log) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	j.end()
	j.mu.Unlock()

	err := j.note()
	last := newAppending(nil)
	j.mu.Lock()
	failed := j.broken != nil
	if !failed {
		j.broken = journal.ErrClosed
		j.wake()
	}
	j.enqueue(last)
	j.mu.Unlock()
	j.await(last)
	if !failed && err == nil {
		err = j.checkpoint(0)
		j.tryNoteClock()
	}
	return errors.Join(err, j.release())
}

// release gives up what open took, in reverse.
func (j *Log) release() error {
	j.end()
	j.maintained.Lock()
	defer j.maintained.Unlock()
	j.tended.Lock()
	defer j.tended.Unlock()
	errs := []error{j.closeFormer()}
	if j.disk != nil {
		errs = append(errs, j.disk.Close())
	}
	if j.head != nil {
		errs = append(errs, j.head.Close())
	}
	if j.folder != nil {
		errs = append(errs, j.folder.Close())
	}
	if j.lock != nil {
		errs = append(errs, j.lock.Close())
	}
	return errors.Join(errs...)
}
