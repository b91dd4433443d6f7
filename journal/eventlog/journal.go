package eventlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"jobd/journal"
	"jobd/journal/folder"
	"jobd/journal/replay"
	"jobd/journal/segment"
	"jobd/journal/verify"
)

// Config says how to open a journal.
type Config struct {
	Dir    string               // the journal's folder, which exists
	Now    func() time.Time     // the wall clock; nil: time.Now
	Uptime func() time.Duration // since the boot, by a clock that nobody sets; nil: the system's, or as Now tells where that is given
	BootID string               // names the boot that Uptime counts from; used with Uptime only
	Logger *slog.Logger         // for what Run cannot tell otherwise; nil: none

	SegmentSize int64         // bytes from which on the next segment begins; 0: 256 MiB
	SegmentAge  time.Duration // age from which on the next segment begins; 0: 24 hours
	Retention   time.Duration // how old a sealed segment's newest event may be before it is removed; 0: for ever
	ArchiveDir  string        // an existing folder to which segments are moved instead; "": they are removed
}

// The defaults of segments.
const (
	DefaultSegmentSize = 256 << 20
	DefaultSegmentAge  = 24 * time.Hour
)

func (c *Config) fill() {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.SegmentSize <= 0 {
		c.SegmentSize = DefaultSegmentSize
	}
	if c.SegmentAge <= 0 {
		c.SegmentAge = DefaultSegmentAge
	}
}

// Log is the append-only log of one worker, open for writing. There is one
// writer at a time, whatever process; readers are not bounded (see Reader).
// All methods are safe for concurrent use.
type Log struct {
	config Config
	lock   *os.File
	head   *folder.Head
	folder *folder.Folder
	reader *replay.Reader // of the folder
	clock  *clock
	nudge  chan struct{} // tells Run that there is something to maintain
	life   context.Context
	end    context.CancelFunc // called by Close

	maintained sync.Mutex // held while segments are sealed and removed
	tended     sync.Mutex // held, for a moment, while segments are checkpointed or closed
	holding    int        // the jumps of the clock that a hold of retention was told after, and one; maintained guards it

	clockNoted int        // the newest segment that the clock file was to know; maintained guards it
	noting     sync.Mutex // held while the clock file is written

	// The leader's: only who commits touches these.
	newest    segment.Header // of the newest segment; changed under mu
	together  bool           // the last commit was of several appends
	retryRoll time.Time      // when to try again a roll-over that found no room, by the clock's time line
	noted     time.Time      // when notes were written last; likewise

	mu      sync.Mutex    // guards what follows; never held while the disk works
	disk    disk          // the newest segment; changed by the leader
	former  []disk        // segments that were rolled over, to be closed
	state   journal.State // of everything committed
	ages    ages          // of the same
	waiting []*appending
	leading bool  // a goroutine commits right now
	broken  error // why nothing may be appended any more
	closed  bool
	notes   segment.Notes
	stored  segment.Notes // as the disk has them
	awaited uint64        // the position that retention waits for; 0: none
	recent  recent
	grown   chan struct{} // closed by the next commit; nil while nobody waits
}

// Open locks the journal in a folder, makes it where it is new, verifies its newest segment
// and folds it into the state. A damaged journal is left as it was found.
//
// Errors: a *HeldError where another process writes it, a *DamagedError where it does not
// hold what was once acknowledged.
func Open(ctx context.Context, c Config) (*Log, error) {
	c.fill()
	j := &Log{config: c, clock: newClock(&c), nudge: make(chan struct{}, 1), recent: recent{heavy: make(chan struct{}, 1)}}
	j.life, j.end = context.WithCancel(context.Background())
	if err := j.open(ctx); err != nil {
		return nil, errors.Join(err, j.release())
	}
	return j, nil
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
	parts, err := j.folder.Settled(ctx)
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
	parts, err := j.folder.Settled(ctx)
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

// View calls look with the state of everything appended so far. The state is
// look's to read until it returns; look must not call the journal.
func (j *Log) View(look func(*journal.State)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	look(&j.state)
}

// Position is the newest event that the jobs table is known to show.
func (j *Log) Position() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.notes.Position
}

// SetPosition notes that the jobs table shows everything up to seq, which was appended. It is
// written with a commit ten times a second, and by Rest and Close: after a crash some events are
// mirrored once more, which is harmless.
func (j *Log) SetPosition(seq uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if seq = min(seq, j.state.Seq); seq <= j.notes.Position {
		return
	}
	j.notes.Position = seq
	j.recent.drop(seq)
	if j.awaited > 0 && seq >= j.awaited {
		j.awaited = 0
		j.wakeRun()
	}
}

// maxLog is how large the write-ahead log may stay when the worker rests. SQLite uses
// it over and over from about 4 MiB on; it grows further behind a long reader or large output.
const maxLog = 16 << 20

// Rest writes what was only noted and empties a write-ahead log that has grown large
//. It is for a moment when nothing else is to be done. Its errors are Append's.
func (j *Log) Rest() error {
	if err := j.note(); err != nil {
		return err
	}
	return j.checkpoint(maxLog)
}

// note writes the notes where they are not written yet.
func (j *Log) note() error {
	j.mu.Lock()
	noted := j.notes != j.stored
	j.mu.Unlock()
	if !noted {
		return nil
	}
	_, err := j.Append()
	return err
}

// checkpoint empties a write-ahead log larger than bound.
func (j *Log) checkpoint(bound int64) error {
	j.tended.Lock()
	defer j.tended.Unlock()
	j.mu.Lock()
	newest := j.disk
	j.mu.Unlock()
	err := newest.Checkpoint(bound)
	if err == nil {
		return nil
	}
	if segment.Full(err) {
		return fmt.Errorf("checkpoint journal: %w: %w", journal.ErrFull, err)
	}
	err = fmt.Errorf("checkpoint journal: %w", segment.Damaged(err))
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fail(err)
	return err
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
