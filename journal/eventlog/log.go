package eventlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/replay"
	"jobd/journal/verify"
)

// Config says how to open a journal.
type Config struct {
	Dir    string           // the journal's folder, which exists
	Now    func() time.Time // the wall clock; nil: time.Now
	Logger *slog.Logger     // for what Run cannot tell otherwise; nil: none

	// Committed is called after each commit that has events, with them, with how many bytes they take
	// in the segment, and how long it took until they were durable. Everybody who appends waits for
	// it: it must be fast, and must not call the journal. It may be nil.
	Committed func(events []journal.Event, bytes int64, took time.Duration)

	SegmentSize int64         // bytes from which on the next segment begins; 0: 64 MiB
	SegmentAge  time.Duration // age from which on the next segment begins; 0: 24 hours
	Retention   time.Duration // how old a sealed segment's newest event may be before it is removed; 0: for ever
	NoTable     bool          // no jobs table shows the events: retention waits for none
	ArchiveDir  string        // an existing folder to which segments are moved instead; "": they are removed

	// uptime is the time since the boot, by a clock that nobody sets; nil: the system's, or as Now
	// tells where that is given. bootID names the boot; it is used with uptime only.
	uptime func() time.Duration
	bootID string
}

// The defaults of segments.
const (
	defaultSegmentSize = 64 << 20
	defaultSegmentAge  = 24 * time.Hour
)

func (c *Config) fill() {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.SegmentSize <= 0 {
		c.SegmentSize = defaultSegmentSize
	}
	if c.SegmentAge <= 0 {
		c.SegmentAge = defaultSegmentAge
	}
}

// Log is the append-only log of one worker, open for writing. There is one
// writer at a time, whatever process; readers are not bounded (see package replay).
// All methods are safe for concurrent use.
type Log struct {
	config Config
	lock   *os.File
	head   *archive.Head
	folder *archive.Folder
	reader *replay.Reader // of the folder
	clock  *clock
	nudge  chan struct{} // tells Run that there is something to maintain
	life   context.Context
	end    context.CancelFunc // called by Close

	maintained sync.Mutex // held while segments are sealed and removed
	tended     sync.Mutex // held, for a moment, while segments are checkpointed or closed

	clockSegment int       // the newest segment that the clock file was to know; maintained guards it
	clockNoted   time.Time // when it was written, by the time line; likewise

	// The leader's: only who commits touches these.
	newest    archive.Header // of the newest segment; changed under mu
	together  bool           // the last commit was of several appends
	retryRoll time.Time      // when to try again a roll-over that found no room, by the clock's time line
	noted     time.Time      // when the position was written last; likewise

	mu      sync.Mutex    // guards what follows; never held while the disk works
	disk    disk          // the newest segment; changed by the leader
	former  []disk        // segments that were rolled over, to be closed
	state   journal.State // of everything committed
	begun   map[int]int64 // when segments began, by the time line, in microseconds
	waiting []*appending
	leading bool  // a goroutine commits right now
	broken  error // why nothing may be appended any more
	closed  bool
	recent  recent
	grown   chan struct{} // closed by the next commit; nil while nobody waits

	position uint64 // the newest event that the jobs table is known to show
	stored   uint64 // the same, as the disk has it
}

// View calls look with the state of everything appended so far. The state is
// look's to read until it returns; look must not call the journal.
func (j *Log) View(look func(*journal.State)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	look(&j.state)
}

// Reader reads the history beside the appends. What it needs again and again, such as connections, it keeps until
// the log is closed.
func (j *Log) Reader() *replay.Reader { return j.reader }

// wakeRun tells Run that there may be something to do.
func (j *Log) wakeRun() {
	select {
	case j.nudge <- struct{}{}:
	default:
	}
}

// fail ends appending, for the reason that came first. Callers must hold j.mu.
func (j *Log) fail(err error) {
	if j.broken == nil {
		j.broken = fmt.Errorf("journal failed and takes no more events: %w", err)
		j.wake()
	}
}

// wake wakes the calls that wait in Next. Callers must hold j.mu.
func (j *Log) wake() {
	if j.grown != nil {
		close(j.grown)
		j.grown = nil
	}
}

// Open locks the journal in a folder, makes it where it is new, verifies its newest segment
// and folds it into the state. A damaged journal is left as it was found.
//
// Errors: one that names the holder where another process writes it, a *journal.DamagedError where
// it does not hold what was once acknowledged, journal.ErrFull where its disk has no room to open it.
func Open(ctx context.Context, c Config) (*Log, error) {
	c.fill()
	j := &Log{config: c, clock: newClock(&c), nudge: make(chan struct{}, 1)}
	j.life, j.end = context.WithCancel(context.Background())
	if err := j.open(ctx); err != nil {
		return nil, errors.Join(told(c.Dir, err), j.release())
	}
	return j, nil
}

// told is why a journal in a folder can't be opened, which says so where its disk is full: SQLite only
// tells of an I/O error then, by a number.
func told(dir string, err error) error {
	free, _, statErr := freeSpace(dir)
	if !archive.NoRoom(err) || statErr != nil {
		return err
	}
	return fmt.Errorf("journal %s: its disk is full: %d KiB are free; make room there: %w: %w", dir, free>>10, journal.ErrFull, err)
}

func (j *Log) open(ctx context.Context) error {
	var err error
	if j.lock, err = lock(j.config.Dir); err != nil {
		return err
	}
	j.folder = (&archive.Folder{Dir: j.config.Dir}).Keep()
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
	if j.head, err = archive.OpenHead(j.config.Dir); err != nil {
		return err
	}
	newest, err := openDisk(ctx, j.config.Dir, j.newest.Number)
	if err != nil {
		return err
	}
	j.disk, j.stored = newest, j.position
	j.wakeRun()
	return nil
}

// make makes the journal where there is none and never was one.
func (j *Log) make(ctx context.Context) error {
	parts, err := j.folder.Segments(ctx)
	if err != nil || len(parts) > 0 {
		return err
	}
	if err := j.folder.None(); !errors.Is(err, archive.ErrNone) {
		return err
	}
	h, err := archive.NewHeader(1, &journal.State{Removed: &journal.Removal{}})
	if err != nil {
		return err
	}
	return archive.Make(ctx, j.config.Dir, h, 0)
}

// resume verifies and folds the newest segment, and removes what a roll-over that died has left
// behind it.
func (j *Log) resume(ctx context.Context, parts []archive.Part) error {
	newest := parts[len(parts)-1]
	v, err := verify.Newest(ctx, j.folder, parts)
	if err != nil {
		return err
	}
	j.newest, j.state, j.position = v.Header, *v.State, v.Position
	j.startClock(v.Begun)
	all, err := archive.List(j.config.Dir)
	if err != nil || all[len(all)-1].Number == newest.Number {
		return err
	}
	return errors.Join(archive.RemoveDatabase(all[len(all)-1].Path), archive.SyncFolder(j.config.Dir))
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
		j.maintained.Lock()
		j.noteClock(true)
		j.maintained.Unlock()
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
	var errs []error
	if j.folder != nil { // the last connection is to be the writer's, which empties the write-ahead log
		errs = append(errs, j.folder.Close())
	}
	errs = append(errs, j.closeFormer())
	if j.disk != nil {
		errs = append(errs, j.disk.Close())
	}
	if j.head != nil {
		errs = append(errs, j.head.Close())
	}
	if j.lock != nil {
		errs = append(errs, j.lock.Close())
	}
	return errors.Join(errs...)
}

// The lock is a file of its own: closing any descriptor of a database file would drop
// the locks that SQLite holds on it. The kernel releases it when the holder dies.

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
