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
	now     func() time.Time
	lock    *os.File
	head    *head
	segment *segment

	mu       sync.Mutex // guards what follows; never held while the disk works
	state    State      // of everything committed
	waiting  []*appending
	leading  bool  // a goroutine commits right now
	broken   error // why nothing may be appended any more
	position uint64
	stored   uint64 // the position as the disk has it
	recent   recent
	grown    chan struct{} // closed by the next commit; nil while nobody waits
}

// Open locks the journal in a folder, makes it where it is new, verifies all of it
// and folds it into the state.
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

func (j *Journal) open(ctx context.Context, dir string) (err error) {
	if j.lock, err = lock(dir); err != nil {
		return err
	}
	acknowledged, hash, err := readHead(dir)
	if err != nil {
		return err
	}
	if j.segment, err = openSegment(ctx, dir); err != nil {
		return err
	}
	if err := fold(ctx, j.segment.write, &j.state); err != nil {
		return fmt.Errorf("open journal %s: %w", dir, err)
	}
	if err := checkHead(ctx, j.segment.write, j.state.Seq, acknowledged, hash); err != nil {
		return fmt.Errorf("open journal %s: %w", dir, err)
	}
	if j.position, err = position(ctx, j.segment.write); err != nil {
		return fmt.Errorf("open journal %s: %w", dir, err)
	}
	if j.position > j.state.Seq {
		return fmt.Errorf("open journal %s: %w", dir, &DamagedError{
			Seq: j.state.Seq + 1, Detail: fmt.Sprintf("the table shows event %d, the journal ends at %d", j.position, j.state.Seq),
		})
	}
	j.stored = j.position
	j.head, err = openHead(dir)
	return err
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

// SetPosition notes that the jobs table shows everything up to seq. It is
// written with the next commit, or by Rest or Close: after a crash some events are mirrored
// once more, which is harmless.
func (j *Journal) SetPosition(seq uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if seq > j.position {
		j.position = seq
		j.recent.drop(seq)
	}
}

// Rest writes what was only noted, and is for a moment when nothing else is to be done.
func (j *Journal) Rest() error {
	j.mu.Lock()
	noted := j.position > j.stored && j.broken == nil
	j.mu.Unlock()
	if !noted {
		return nil
	}
	_, err := j.Append()
	return err
}

// Close writes what was noted, waits for appends under way, empties the
// write-ahead log and gives the journal free for the next writer.
func (j *Journal) Close() error {
	err := j.Rest()
	j.mu.Lock()
	if errors.Is(j.broken, ErrClosed) {
		j.mu.Unlock()
		return nil
	}
	if j.broken == nil {
		j.broken = ErrClosed
	}
	j.wake()
	var last *appending
	if j.leading {
		last = &appending{done: make(chan struct{}), lead: make(chan struct{}, 1)}
		j.waiting = append(j.waiting, last)
	}
	j.mu.Unlock()
	if last != nil {
		j.await(last)
	}
	return errors.Join(err, j.release())
}

// release gives up what open took, in reverse.
func (j *Journal) release() error {
	var errs []error
	if j.segment != nil {
		errs = append(errs, j.segment.close())
	}
	if j.head != nil {
		errs = append(errs, j.head.close())
	}
	if j.lock != nil {
		errs = append(errs, j.lock.Close())
	}
	return errors.Join(errs...)
}
