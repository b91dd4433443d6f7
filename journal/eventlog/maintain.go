package eventlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
	"jobd/journal/verify"
)

// maintainInterval is how often Run maintains the journal where nothing else wakes it.
const maintainInterval = time.Minute

// Run maintains the journal until ctx ends or the journal is closed: see Maintain. It does so each
// minute, and when a segment was begun. Failures are logged and tried again; they never end it.
func (j *Log) Run(ctx context.Context) error {
	ticker := time.NewTicker(maintainInterval)
	defer ticker.Stop()
	for {
		err := j.Maintain(ctx)
		if ctx.Err() != nil || errors.Is(err, journal.ErrClosed) {
			return nil
		}
		if err != nil {
			j.config.Logger.Error("the upkeep of the journal's older segments failed; trying again", "error", err, "in", maintainInterval)
		}
		select {
		case <-j.nudge:
		case <-ticker.C:
		case <-ctx.Done():
		case <-j.life.Done():
		}
	}
}

// Maintain seals the segments before the newest, and archives or removes those that are older than
// the retention and mirrored. It runs beside appends, and can be stopped and taken up again at any
// point. Run does it whenever it is due.
func (j *Log) Maintain(ctx context.Context) (err error) {
	j.maintained.Lock()
	defer j.maintained.Unlock()
	if j.life.Err() != nil {
		return journal.ErrClosed
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(j.life, cancel)()

	j.noteClock(false)
	j.tended.Lock()
	err = j.closeFormer()
	j.tended.Unlock()
	if err == nil {
		err = j.sealFormer(ctx)
	}
	if err == nil {
		err = j.retire(ctx)
	}
	if j.life.Err() != nil {
		return journal.ErrClosed
	}
	if err != nil && !errors.Is(err, journal.ErrClosed) {
		err = fmt.Errorf("maintain journal %s: %w", j.config.Dir, err)
	}
	return err
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
	for _, p := range parts {
		if p.Number >= newest {
			break
		}
		if err := j.seal(ctx, p); err != nil {
			return fmt.Errorf("seal segment %d: %w", p.Number, err)
		}
	}
	return nil
}

// removePartial removes files that a crash has left half written.
func removePartial(dir string) error {
	names, err := fs.Glob(os.DirFS(dir), archive.Partials)
	for _, name := range names {
		err = errors.Join(err, os.Remove(filepath.Join(dir, name)))
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

// seal seals a segment, or, where that was done, removes the database that a crash has left beside
// it. The database goes only after the sealed file was read back and found to be the same history.
func (j *Log) seal(ctx context.Context, p archive.Part) error {
	path := archive.DatabasePath(j.config.Dir, p.Number)
	var err error
	if !p.Sealed {
		err = j.writeSealed(ctx, p)
	} else if _, statErr := os.Stat(path); errors.Is(statErr, fs.ErrNotExist) {
		return archive.RemoveDatabase(path) // its log may be there still
	} else {
		err = j.verifySealed(ctx, p.Path, p.Number)
	}
	if err == nil {
		err = j.emptyLog(ctx, p.Number)
	}
	if err != nil {
		return err
	}
	return errors.Join(archive.RemoveDatabase(path), archive.SyncFolder(j.config.Dir))
}

// writeSealed writes the sealed file of a database and puts it in its place.
func (j *Log) writeSealed(ctx context.Context, p archive.Part) error {
	partial := archive.PartialPath(j.config.Dir, p.Number)
	err := j.copySealed(ctx, p, partial)
	if err == nil {
		err = j.verifySealed(ctx, partial, p.Number)
	}
	if err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return place(partial, archive.SealedPath(j.config.Dir, p.Number))
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

func (j *Log) copySealed(ctx context.Context, p archive.Part, partial string) error {
	d, err := p.Open()
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
	for page, err := range d.Records(ctx, archive.Selection{Output: true}) {
		for i := range page {
			if err := w.Add(&page[i]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
	return w.Finish()
}

// verifySealed reads a sealed file back: every event, the index, and that the next segment's checkpoint
// agrees.
func (j *Log) verifySealed(ctx context.Context, path string, number int) error {
	file, err := archive.OpenSealed(path)
	if err != nil {
		return err
	}
	defer file.Close()
	h, err := file.Header(ctx)
	if err != nil {
		return err
	}
	parts, err := j.folder.Behind(ctx, number)
	if err != nil || len(parts) == 0 || parts[0].Number != number+1 {
		return errors.Join(err, fmt.Errorf("segment %d, which follows it, is not there", number+1))
	}
	return j.folder.Visit(ctx, parts[0], 0, func(_ archive.Source, next archive.Header) error {
		return verify.Segment(ctx, j.folder, file, h, next)
	})
}

// emptyLog brings what is in a database's write-ahead log into the database, so that neither needs
// the other. A crash may have left the log.
func (j *Log) emptyLog(ctx context.Context, number int) error {
	log := archive.DatabasePath(j.config.Dir, number) + "-wal"
	if info, err := os.Stat(log); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	d, err := openDisk(ctx, j.config.Dir, number)
	if err != nil {
		return err
	}
	err = errors.Join(d.Checkpoint(0), d.Close())
	if info, statErr := os.Stat(log); err == nil && statErr == nil && info.Size() > 0 {
		err = errors.New("a reader keeps the database's write-ahead log in use")
	}
	return err
}

// retire archives or removes sealed segments that are old enough, the oldest first. Their age goes
// by the time that is known to have really passed.
func (j *Log) retire(ctx context.Context) error {
	parts, err := archive.List(j.config.Dir)
	if err == nil && len(parts) > 0 {
		err = j.adopt(ctx, parts[0])
	}
	if err != nil || j.config.Retention <= 0 {
		return err
	}
	old, err := j.outdated(ctx, parts)
	if len(old) > 0 {
		if err := j.journalRemoval(old); err != nil {
			return fmt.Errorf("remove segments: %w", err)
		}
	}
	for _, p := range old {
		if err := errors.Join(os.Remove(p.Path), archive.SyncFolder(j.config.Dir)); err != nil {
			return fmt.Errorf("remove segment %d: %w", p.Number, err)
		}
	}
	return err
}

// retired is a segment that retention removes.
type retired struct {
	archive.Part
	bounds archive.Bounds
}

// outdated gives the segments that may go now, archived where there is an archive. Those before an
// error are among them.
func (j *Log) outdated(ctx context.Context, parts []archive.Part) (old []retired, err error) {
	real := j.clock.read().real
	for _, p := range parts {
		if !p.Sealed || ctx.Err() != nil {
			return old, ctx.Err()
		}
		b, err := j.bounds(p)
		if err != nil || real.Sub(j.ended(p.Number, time.UnixMicro(b.Ended))) < j.config.Retention {
			return old, err
		}
		if mirrored, err := j.mirrored(b.Last); err != nil || !mirrored {
			return old, err
		}
		if j.config.ArchiveDir != "" {
			if err := j.archive(ctx, p); err != nil {
				return old, fmt.Errorf("archive segment %d: %w", p.Number, err)
			}
		}
		old = append(old, retired{p, b})
	}
	return old, nil
}

// journalRemoval appends the event that says which segments go, unless the history says so already:
// a run that died has left some.
func (j *Log) journalRemoval(old []retired) error {
	newest := old[len(old)-1]
	var gone int
	j.View(func(s *journal.State) { gone = s.Removed.Last() })
	if gone >= newest.Number {
		return nil
	}
	_, err := j.Append(journal.Draft{Payload: journal.Retention{
		First: max(old[0].Number, gone+1), Last: newest.Number, Seq: newest.bounds.Last, Hash: newest.bounds.Hash.String(),
		Reason: "older than " + j.config.Retention.String(), Archive: j.config.ArchiveDir,
	}})
	return err
}

// Reasons of the retention event that a journal of an older version begins with.
const (
	reasonBefore  = "removed by a version that did not journal it"
	reasonNothing = "nothing was removed so far; from here on it is journalled"
)

// adopt journals what is missing at the beginning of a journal of a version that did not journal
// what it removed. From then on whatever is missing beyond that is a hole.
func (j *Log) adopt(ctx context.Context, oldest archive.Part) error {
	var known bool
	if j.View(func(s *journal.State) { known = s.Removed != nil }); known {
		return nil
	}
	event := journal.Retention{Reason: reasonNothing}
	err := j.folder.Visit(ctx, oldest, 0, func(_ archive.Source, h archive.Header) error {
		if h.Number > 1 {
			event = journal.Retention{First: 1, Last: h.Number - 1, Seq: h.First - 1, Hash: h.Previous.String(), Reason: reasonBefore}
		}
		return nil
	})
	if err == nil {
		_, err = j.Append(journal.Draft{Payload: event})
	}
	return err
}

func (j *Log) bounds(p archive.Part) (archive.Bounds, error) {
	s, err := archive.OpenSealed(p.Path)
	if err != nil {
		return archive.Bounds{}, err
	}
	b, _ := s.Bounds()
	return b, s.Close()
}

// mirrored reports whether the disk says that the jobs table shows an event.
func (j *Log) mirrored(seq uint64) (bool, error) {
	if j.config.NoTable {
		return true, nil
	}
	if j.Position() < seq {
		return false, nil
	}
	return true, j.note()
}

// archive copies a segment to the archive, which may be another file system. One that is there
// already is taken for the copy if its bytes are the same.
func (j *Log) archive(ctx context.Context, p archive.Part) error {
	path := archive.SealedPath(j.config.ArchiveDir, p.Number)
	if _, err := os.Stat(path); err == nil {
		return j.compare(ctx, p, path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	partial := archive.PartialPath(j.config.ArchiveDir, p.Number)
	err := copyFile(p.Path, partial)
	if err == nil {
		err = j.compare(ctx, p, partial)
	}
	if err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return place(partial, path)
}

// copyFile copies a file and makes its content durable.
func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(target, source); err == nil {
		err = target.Sync()
	}
	return errors.Join(err, target.Close())
}

// compare checks that a file is a sound copy of a segment.
func (j *Log) compare(ctx context.Context, p archive.Part, path string) error {
	original, err := archive.OpenSealed(p.Path)
	if err != nil {
		return err
	}
	defer original.Close()
	s, err := archive.OpenSealed(path)
	if err != nil {
		return err
	}
	defer s.Close()
	same, err := s.IsCopyOf(ctx, original)
	if err == nil && !same {
		err = fmt.Errorf("%s is another segment than the one to be archived; every worker needs an archive of its own", path)
	}
	return err
}
