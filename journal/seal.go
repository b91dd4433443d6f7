package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// sealer turns databases that nobody appends to any more into sealed segments.
type sealer struct {
	dir    string
	reader *Reader
	worked time.Time // since when it has worked without a pause
}

// seal seals a segment, or, where that was done, removes the database that a crash has left beside it. The
// database goes only after the sealed file was read back and found to be the same history.
func (s *sealer) seal(ctx context.Context, p part) error {
	path := databasePath(s.dir, p.number)
	var err error
	if !p.sealed {
		err = s.write(ctx, p)
	} else if _, statErr := os.Stat(path); errors.Is(statErr, fs.ErrNotExist) {
		return removeDatabase(path) // its log may be there still
	} else {
		err = s.verify(ctx, p.path, p.number)
	}
	if err == nil {
		err = emptyLog(ctx, path)
	}
	if err != nil {
		return err
	}
	return errors.Join(removeDatabase(path), syncFolder(s.dir))
}

// write writes the sealed file of a database and puts it in its place.
func (s *sealer) write(ctx context.Context, p part) error {
	partial := filepath.Join(s.dir, fmt.Sprintf("%s%08d%s", segmentPrefix, p.number, partialEnd))
	err := s.copy(ctx, p, partial)
	if err == nil {
		err = s.verify(ctx, partial, p.number)
	}
	if err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return place(partial, sealedPath(s.dir, p.number))
}

// place makes a synced file final: read-only, under its name, durably.
func place(partial, path string) error {
	if err := os.Chmod(partial, 0o400); err != nil {
		return err
	}
	if err := os.Rename(partial, path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

func (s *sealer) copy(ctx context.Context, p part, partial string) error {
	d := &database{path: p.path, decoder: s.reader.decoder}
	defer d.close()
	h, err := d.header(ctx)
	if err != nil {
		return err
	}
	w, err := newSealedWriter(partial, h)
	if err != nil {
		return err
	}
	defer w.close()
	s.worked = time.Now()
	for page, err := range d.records(ctx, selection{output: true}) {
		for i := range page {
			if err := w.add(&page[i]); err != nil {
				return err
			}
		}
		if err = errors.Join(err, s.pause(ctx)); err != nil {
			return err
		}
	}
	return w.finish()
}

// verify reads a sealed file back: every event, the index, and that the next segment's checkpoint agrees.
func (s *sealer) verify(ctx context.Context, path string, number int) error {
	file, err := openSealed(path, s.reader.decoder)
	if err != nil {
		return err
	}
	defer file.close()
	h, err := file.header(ctx)
	if err != nil {
		return err
	}
	s.worked = time.Now()
	v := newVerifier(s.reader, Audit{Progress: func(uint64) { _ = s.pause(ctx) }})
	if err := v.sealing(ctx, file, h); err != nil {
		return err
	}
	next := &database{path: databasePath(s.dir, number+1), decoder: s.reader.decoder}
	defer next.close()
	following, err := next.header(ctx)
	if errors.Is(err, fs.ErrNotExist) { // it was sealed first, by a run that died
		return s.agrees(ctx, number+1, v.state)
	}
	if err != nil {
		return err
	}
	return agrees(following, v.state)
}

// agrees compares a state with the checkpoint of the sealed segment that follows.
func (s *sealer) agrees(ctx context.Context, number int, state *State) error {
	file, err := openSealed(sealedPath(s.dir, number), s.reader.decoder)
	if err != nil {
		return err
	}
	defer file.close()
	h, err := file.header(ctx)
	if err != nil {
		return err
	}
	return agrees(h, state)
}

// sealShare is the part of its time that sealing works, as one in so many: appends come first.
const sealShare = 4

// pause leaves the machine to others for a multiple of the time that was worked since the last pause.
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

// emptyLog brings what is in a database's write-ahead log into the database, so that neither needs the other.
func emptyLog(ctx context.Context, path string) error {
	info, err := os.Stat(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	db := openForWriting(path)
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
