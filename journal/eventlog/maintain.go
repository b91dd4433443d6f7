package eventlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/verify"
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
	parts, err := archive.List(j.config.Dir)
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
		if name := entry.Name(); archive.IsPartial(name) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, name)))
		}
	}
	return err
}

// Usage is how many bytes the segments take on the disk, and how many they are. What cannot be
// looked at counts as nothing.
func (j *Log) Usage() (bytes int64, segments int) {
	parts, err := archive.List(j.config.Dir)
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

// sealer turns databases that nobody appends to any more into sealed segments.
type sealer struct {
	dir    string
	folder *archive.Folder
	worked time.Time // since when it has worked without a pause
}

// seal seals a segment, or, where that was done, removes the database that a crash has left beside
// it. The database goes only after the sealed file was read back and found to be the same history.
func (s *sealer) seal(ctx context.Context, p archive.Part) error {
	path := archive.DatabasePath(s.dir, p.Number)
	var err error
	if !p.Sealed {
		err = s.write(ctx, p)
	} else if _, statErr := os.Stat(path); errors.Is(statErr, fs.ErrNotExist) {
		return archive.RemoveDatabase(path) // its log may be there still
	} else {
		err = s.verify(ctx, p.Path, p.Number)
	}
	if err == nil {
		err = emptyLog(ctx, path)
	}
	if err != nil {
		return err
	}
	return errors.Join(archive.RemoveDatabase(path), archive.SyncFolder(s.dir))
}

// write writes the sealed file of a database and puts it in its place.
func (s *sealer) write(ctx context.Context, p archive.Part) error {
	partial := archive.PartialPath(s.dir, p.Number)
	err := s.copy(ctx, p, partial)
	if err == nil {
		err = s.verify(ctx, partial, p.Number)
	}
	if err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return place(partial, archive.SealedPath(s.dir, p.Number))
}

// place makes a synced file final: read-only, under its name, durably.
func place(partial, path string) error {
	if err := os.Chmod(partial, 0o400); err != nil {
		return err
	}
	if err := os.Rename(partial, path); err != nil {
		return err
	}
	return archive.SyncFolder(filepath.Dir(path))
}

func (s *sealer) copy(ctx context.Context, p archive.Part, partial string) error {
	d, err := s.folder.Open(p)
	if err != nil {
		return err
	}
	defer d.Close()
	h, err := d.Header(ctx)
	if err != nil {
		return err
	}
	w, err := archive.NewSealWriter(partial, h)
	if err != nil {
		return err
	}
	defer w.Close()
	s.worked = time.Now()
	for page, err := range d.Records(ctx, archive.Selection{Output: true}) {
		for i := range page {
			if err := w.Add(&page[i]); err != nil {
				return err
			}
		}
		if err = errors.Join(err, s.pause(ctx)); err != nil {
			return err
		}
	}
	return w.Finish()
}

// verify reads a sealed file back: every event, the index, and that the next segment's checkpoint
// agrees.
func (s *sealer) verify(ctx context.Context, path string, number int) error {
	file, err := s.folder.OpenSealed(path)
	if err != nil {
		return err
	}
	defer file.Close()
	h, err := file.Header(ctx)
	if err != nil {
		return err
	}
	s.worked = time.Now()
	state, err := verify.Segment(ctx, s.folder, file, h, func(uint64) { _ = s.pause(ctx) })
	if err != nil {
		return err
	}
	parts, err := s.folder.Behind(ctx, number)
	if err != nil || len(parts) == 0 || parts[0].Number != number+1 {
		return errors.Join(err, fmt.Errorf("segment %d, which follows it, is not there", number+1))
	}
	return s.folder.Visit(ctx, parts[0], 0, func(_ archive.Part, _ archive.Source, h archive.Header) error {
		return verify.Agrees(h, state)
	})
}

// sealShare is the part of its time that sealing works, as one in so many: appends come first.
const sealShare = 4

// pause leaves the machine to others for a multiple of the time that was worked since the last
// pause.
func (s *sealer) pause(ctx context.Context) error {
	timer := time.NewTimer((sealShare - 1) * time.Since(s.worked))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	s.worked = time.Now()
	return ctx.Err()
}

// emptyLog brings what is in a database's write-ahead log into the database, so that neither needs
// the other.
func emptyLog(ctx context.Context, path string) error {
	info, err := os.Stat(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	db := archive.OpenForWriting(path)
	err = errors.Join(truncateLog(ctx, db), db.Close())
	if info, statErr := os.Stat(path + "-wal"); err == nil && statErr == nil && info.Size() > 0 {
		err = errors.New("a reader keeps the database's write-ahead log in use")
	}
	return err
}

func truncateLog(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`)
	return err
}
