package eventlog

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"jobd/journal"
	"jobd/journal/folder"
	"jobd/journal/replay"
	"jobd/journal/segment"
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

	SegmentSize int64         // bytes from which on the next segment begins; 0: 256 MiB
	SegmentAge  time.Duration // age from which on the next segment begins; 0: 24 hours
	Retention   time.Duration // how old a sealed segment's newest event may be before it is removed; 0: for ever
	ArchiveDir  string        // an existing folder to which segments are moved instead; "": they are removed

	// uptime is the time since the boot, by a clock that nobody sets; nil: the system's, or as Now
	// tells where that is given. bootID names the boot; it is used with uptime only.
	uptime func() time.Duration
	bootID string
}

// The defaults of segments.
const (
	defaultSegmentSize = 256 << 20
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

// View calls look with the state of everything appended so far. The state is
// look's to read until it returns; look must not call the journal.
func (j *Log) View(look func(*journal.State)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	look(&j.state)
}

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

// wake wakes those who wait in Next. Callers must hold j.mu.
func (j *Log) wake() {
	if j.grown != nil {
		close(j.grown)
		j.grown = nil
	}
}
