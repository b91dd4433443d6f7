package eventlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"jobd/journal/folder"
	"jobd/journal/segment"
	"jobd/journal/verify"
)

// sealer turns databases that nobody appends to any more into sealed segments.
type sealer struct {
	dir    string
	folder *folder.Folder
	worked time.Time // since when it has worked without a pause
}

// seal seals a segment, or, where that was done, removes the database that a crash has left beside
// it. The database goes only after the sealed file was read back and found to be the same history.
func (s *sealer) seal(ctx context.Context, p folder.Part) error {
	path := segment.DatabasePath(s.dir, p.Number)
	var err error
	if !p.Sealed {
		err = s.write(ctx, p)
	} else if _, statErr := os.Stat(path); errors.Is(statErr, fs.ErrNotExist) {
		return segment.RemoveDatabase(path) // its log may be there still
	} else {
		err = s.verify(ctx, p.Path, p.Number)
	}
	if err == nil {
		err = emptyLog(ctx, path)
	}
	if err != nil {
		return err
	}
	return errors.Join(segment.RemoveDatabase(path), segment.SyncFolder(s.dir))
}

// write writes the sealed file of a database and puts it in its place.
func (s *sealer) write(ctx context.Context, p folder.Part) error {
	partial := filepath.Join(s.dir, fmt.Sprintf("%s%08d%s", folder.SegmentPrefix, p.Number, folder.PartialEnd))
	err := s.copy(ctx, p, partial)
	if err == nil {
		err = s.verify(ctx, partial, p.Number)
	}
	if err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return place(partial, folder.SealedPath(s.dir, p.Number))
}

// place makes a synced file final: read-only, under its name, durably.
func place(partial, path string) error {
	if err := os.Chmod(partial, 0o400); err != nil {
		return err
	}
	if err := os.Rename(partial, path); err != nil {
		return err
	}
	return segment.SyncFolder(filepath.Dir(path))
}

func (s *sealer) copy(ctx context.Context, p folder.Part, partial string) error {
	d, err := s.folder.Open(p)
	if err != nil {
		return err
	}
	defer d.Close()
	h, err := d.Header(ctx)
	if err != nil {
		return err
	}
	w, err := segment.NewSealWriter(partial, h)
	if err != nil {
		return err
	}
	defer w.Close()
	s.worked = time.Now()
	for page, err := range d.Records(ctx, segment.Selection{Output: true}) {
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
	return s.folder.Visit(ctx, parts[0], 0, func(_ folder.Part, _ segment.Source, h segment.Header) error {
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
	db := segment.OpenForWriting(path)
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
