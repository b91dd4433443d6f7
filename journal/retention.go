package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// retire archives or removes sealed segments that are old enough, the oldest first, and says in how long the
// next one will be; 0: that is not known. Their age goes by the time that is known to have really passed.
func (j *Journal) retire(ctx context.Context) (next time.Duration, err error) {
	if j.config.Retention <= 0 {
		return 0, nil
	}
	parts, err := list(j.config.Dir)
	if err != nil {
		return 0, err
	}
	for _, p := range parts {
		if !p.sealed || ctx.Err() != nil {
			return 0, ctx.Err()
		}
		t, err := j.trailer(p)
		if err != nil {
			return 0, err
		}
		if left := j.left(p.number, moment(t.Ended)); left > 0 {
			return left, nil
		}
		if mirrored, err := j.mirrored(t.Last); err != nil || !mirrored {
			return 0, err
		}
		if err := j.remove(ctx, p); err != nil {
			return 0, fmt.Errorf("remove segment %d: %w", p.number, err)
		}
	}
	return 0, nil
}

// left is for how long a segment is still to be kept, whose last event bears a stamp. Where by the clock it would go now, that is
// told, once after each jump.
func (j *Journal) left(segment int, stamped time.Time) time.Duration {
	at := j.clock.read()
	j.mu.Lock()
	ended := j.ages.ended(segment, stamped)
	j.mu.Unlock()
	left := j.config.Retention - at.real.Sub(ended)
	if told := j.clock.jumpCount() + 1; left > 0 && at.wall.Sub(stamped) >= j.config.Retention && j.holding != told {
		j.holding = told
		j.config.Logger.Warn("a segment of the journal is old enough to go by the clock, but that much time is not known to have passed; it is kept until it has",
			"segment", segment, "left", left.Round(time.Second), "until", stamp(at.wall.Add(left)))
	}
	return left
}

func (j *Journal) trailer(p part) (trailer, error) {
	s, err := openSealed(p.path, j.reader.decoder)
	if err != nil {
		return trailer{}, err
	}
	return s.trailer, s.close()
}

// mirrored tells whether the disk says that the jobs table shows an event. If not, Run wakes when it does.
func (j *Journal) mirrored(seq uint64) (bool, error) {
	j.mu.Lock()
	passed := j.notes.position >= seq
	if !passed {
		j.awaited = seq
	}
	j.mu.Unlock()
	if !passed {
		return false, nil
	}
	return true, j.note()
}

// remove archives a segment where there is an archive, notes that the journal begins behind it, and removes it.
func (j *Journal) remove(ctx context.Context, p part) error {
	if j.config.ArchiveDir != "" {
		if err := j.archive(ctx, p); err != nil {
			return fmt.Errorf("archive: %w", err)
		}
	}
	j.mu.Lock()
	j.notes.kept = max(j.notes.kept, p.number+1)
	j.mu.Unlock()
	if err := j.note(); err != nil {
		return err
	}
	return errors.Join(os.Remove(p.path), syncFolder(j.config.Dir))
}

// archive copies a segment to the archive, which may be another file system. One that is there already is
// taken for the copy if its bytes are the same.
func (j *Journal) archive(ctx context.Context, p part) error {
	path := sealedPath(j.config.ArchiveDir, p.number)
	if _, err := os.Stat(path); err == nil {
		return j.compare(ctx, p, path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	partial := filepath.Join(j.config.ArchiveDir, fmt.Sprintf("%s%08d%s", segmentPrefix, p.number, partialEnd))
	err := copyFile(ctx, p.path, partial)
	if err == nil {
		err = j.compare(ctx, p, partial)
	}
	if err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return place(partial, path)
}

// copyFile copies a file and makes its content durable.
func copyFile(ctx context.Context, from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	for err == nil {
		if err = ctx.Err(); err == nil {
			_, err = io.CopyN(target, source, 1<<20)
		}
	}
	if errors.Is(err, io.EOF) {
		err = target.Sync()
	}
	return errors.Join(err, target.Close())
}

// compare checks that a file is a sound copy of a segment.
func (j *Journal) compare(ctx context.Context, p part, path string) error {
	original, err := j.trailer(p)
	if err != nil {
		return err
	}
	s, err := openSealed(path, j.reader.decoder)
	if err != nil {
		return err
	}
	defer s.close()
	if s.trailer != original {
		return fmt.Errorf("%s is another segment than the one to be archived; every worker needs an archive of its own", path)
	}
	return s.checkSum(ctx)
}
