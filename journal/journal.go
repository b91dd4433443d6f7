package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Config says how to open a journal.
type Config struct {
	Dir string           // the journal's folder, which exists
	Now func() time.Time // the clock; nil: time.Now
}

// Journal is the append-only log of one worker, open for writing. There is one
// writer at a time, whatever process; readers are not bounded (see Reader).
// All methods are safe for concurrent use.
type Journal struct {
	now    func() time.Time
	lock   *os.File
	head   *head
	disk   disk
	reader *Reader

	mu       sync.Mutex // guards what follows; never held while the disk works
	state    State      // of everything committed
	waiting  []*appending
	leading  bool  // a goroutine commits right now
	broken   error // why nothing may be appended any more
	closed   bool
	position uint64
	stored   uint64 // the position as the disk has it
	recent   recent
	grown    chan struct{} // closed by the next commit; nil while nobody waits
}

// Open locks the journal in a folder, makes it where it is new, verifies all of it
// and folds it into the state. A damaged journal is left as it was found.
//
// Errors: a *HeldError where another process writes it, a *DamagedError where it does not
// hold what was once acknowledged.
func Open(ctx context.Context, c Config) (*Journal, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	j := &Journal{now: c.Now}
	if err := j.open(ctx, c.Dir); err != nil {
		return nil, errors.Join(err, j.release())
	}
	return j, nil
}

func (j *Journal) open(ctx context.Context, dir string) error {
	var err error
	if j.lock, err = lock(dir); err != nil {
		return err
	}
	j.reader = newReader(dir)
	if err := j.make(ctx, dir); err != nil {
		return err
	}
	if j.position, err = j.reader.verify(ctx, &j.state); err != nil {
		return j.reader.failed("open", err)
	}
	j.stored = j.position
	if j.head, err = openHead(dir); err != nil {
		return err
	}
	segment, err := openSegment(ctx, dir)
	if err != nil {
		return err
	}
	j.disk = segment
	return nil
}

// make makes the journal where there is none and never was one.
func (j *Journal) make(ctx context.Context, dir string) error {
	err := j.reader.examine(ctx)
	if errors.Is(err, errNone) {
		return makeSegment(ctx, dir)
	}
	if err != nil {
		return j.reader.failed("open", err)
	}
	return nil
}

// View calls look with the state of everything appended so far. The state is
// look's to read until it returns; look must not call the journal.
func (j *Journal) View(look func(*State)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	look(&j.state)
}

// Position is the newest event that the jobs table is known to show.
func (j *Journal) Position() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.position
}

// SetPosition notes that the jobs table shows everything up to seq, which was appended. It is
// written with the next commit, or by Rest or Close: after a crash some events are mirrored
// once more, which is harmless.
func (j *Journal) SetPosition(seq uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if seq = min(seq, j.state.Seq); seq > j.position {
		j.position = seq
		j.recent.drop(seq)
	}
}

// maxLog is how large the write-ahead log may stay when the worker rests. SQLite uses
// it over and over from about 4 MiB on; it grows further behind a long reader or large output.
const maxLog = 16 << 20

// Rest writes what was only noted and empties a write-ahead log that has grown large
// (pitfall 25). It is for a moment when nothing else is to be done. Its errors are Append's.
func (j *Journal) Rest() error {
	if err := j.note(); err != nil {
		return err
	}
	return j.checkpoint(maxLog)
}

// note writes the position where it is not written yet.
func (j *Journal) note() error {
	j.mu.Lock()
	noted := j.position > j.stored
	j.mu.Unlock()
	if !noted {
		return nil
	}
	_, err := j.Append()
	return err
}

// checkpoint empties a write-ahead log larger than bound.
func (j *Journal) checkpoint(bound int64) error {
	err := j.disk.checkpoint(bound)
	if err == nil {
		return nil
	}
	if full(err) {
		return fmt.Errorf("checkpoint journal: %w: %w", ErrFull, err)
	}
	err = fmt.Errorf("checkpoint journal: %w", damaged(err))
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fail(err)
	return err
}

// Close writes what was noted, waits for appends under way, empties the
// write-ahead log and gives the journal free for the next writer. Appends that have not
// begun get ErrClosed. A second Close does nothing.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	j.mu.Unlock()

	err := j.note()
	last := &appending{done: make(chan struct{}), lead: make(chan struct{}, 1)}
	j.mu.Lock()
	failed := j.broken != nil
	if !failed {
		j.broken = ErrClosed
		j.wake()
	}
	j.enqueue(last)
	j.mu.Unlock()
	j.await(last)
	if !failed && err == nil {
		err = j.checkpoint(0)
	}
	return errors.Join(err, j.release())
}

// release gives up what open took, in reverse.
func (j *Journal) release() error {
	var errs []error
	if j.disk != nil {
		errs = append(errs, j.disk.close())
	}
	if j.head != nil {
		errs = append(errs, j.head.close())
	}
	if j.reader != nil {
		errs = append(errs, j.reader.Close())
	}
	if j.lock != nil {
		errs = append(errs, j.lock.Close())
	}
	return errors.Join(errs...)
}
