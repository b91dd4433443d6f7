package eventlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"jobd/journal"
	"jobd/journal/folder"
)

// maintainRetry is how long Run waits after something failed, such as a disk without room.
const maintainRetry = time.Minute

// Run maintains the journal until ctx ends or the journal is closed: see Maintain. It wakes when a
// segment was begun, when one becomes old enough to be removed, and when the mirror has passed what
// was waited for. Failures are logged and tried again; they never end it. Beside that it writes
// waypoints, so that the next start is quick.
func (j *Log) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() { j.placeWaypoints(ctx) })
	group.Go(func() { j.watchClock(ctx) })
	for {
		next, err := j.maintain(ctx)
		if ctx.Err() != nil || errors.Is(err, journal.ErrClosed) {
			return nil
		}
		if err != nil {
			j.config.Logger.Error("the journal's older segments are not as they should be; trying again", "error", err, "in", maintainRetry)
			next = maintainRetry
		}
		if !j.rest(ctx, next) {
			return nil
		}
	}
}

// rest waits for a nudge or until a duration is over (0: no bound), and reports whether to go on.
func (j *Log) rest(ctx context.Context, d time.Duration) bool {
	var over <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-j.nudge:
	case <-over:
	case <-ctx.Done():
		return false
	case <-j.life.Done():
		return false
	}
	return true
}

// Maintain seals the segments before the newest, and archives or removes those that are older than
// the retention and mirrored. It runs beside appends, resting three quarters of its time, and can
// be stopped and taken up again at any point. Run does it whenever it is due.
func (j *Log) Maintain(ctx context.Context) error {
	_, err := j.maintain(ctx)
	return err
}

// maintain is Maintain. It also says in how long there will be something to remove; 0: that is not
// known.
func (j *Log) maintain(ctx context.Context) (next time.Duration, err error) {
	j.maintained.Lock()
	defer j.maintained.Unlock()
	if j.life.Err() != nil {
		return 0, journal.ErrClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(j.life, cancel)()

	j.tended.Lock()
	err = j.closeFormer()
	j.tended.Unlock()
	if err == nil {
		err = j.sealFormer(ctx)
	}
	if err == nil {
		next, err = j.retire(ctx)
	}
	if err == nil {
		j.noteSegment()
	}
	if j.life.Err() != nil {
		err = journal.ErrClosed
	}
	if err != nil && !errors.Is(err, journal.ErrClosed) {
		err = fmt.Errorf("maintain journal %s: %w", j.config.Dir, err)
	}
	return next, err
}

// sealFormer seals every segment before the newest that is not yet.
func (j *Log) sealFormer(ctx context.Context) error {
	if err := removePartial(j.config.Dir); err != nil {
		return err
	}
	parts, err := folder.List(j.config.Dir)
	if err != nil {
		return err
	}
	j.mu.Lock()
	newest := j.newest.Number
	j.mu.Unlock()
	s := sealer{dir: j.config.Dir, folder: j.folder}
	for _, p := range parts {
		if p.Number >= newest {
			break
		}
		if err := s.seal(ctx, p); err != nil {
			return fmt.Errorf("seal segment %d: %w", p.Number, err)
		}
	}
	return nil
}

// removePartial removes files that a crash has left half written.
func removePartial(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if name := entry.Name(); strings.HasPrefix(name, folder.SegmentPrefix) && strings.HasSuffix(name, folder.PartialEnd) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, name)))
		}
	}
	return err
}

// Usage is how many bytes the segments take on the disk, and how many they are. What cannot be
// looked at counts as nothing.
func (j *Log) Usage() (bytes int64, segments int) {
	parts, err := folder.List(j.config.Dir)
	if err != nil {
		return 0, 0
	}
	for _, p := range parts {
		for _, path := range []string{p.Path, p.Path + "-wal"} {
			if info, err := os.Stat(path); err == nil {
				bytes += info.Size()
			}
		}
	}
	return bytes, len(parts)
}
