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
	parts, err := list(j.config.Dir)
	if err == nil && len(parts) > 0 {
		err = j.adopt(ctx, parts[0])
	}
	if err != nil || j.config.Retention <= 0 {
		return 0, err
	}
	old, next, err := j.outdated(ctx, parts)
	if len(old) > 0 {
		if err := j.journalRemoval(old); err != nil {
			return 0, fmt.Errorf("remove segments: %w", err)
		}
	}
	for _, p := range old {
		if err := j.remove(p.part); err != nil {
			return 0, fmt.Errorf("remove segment %d: %w", p.number, err)
		}
	}
	return next, err
}

// retired is a segment that is to go.
type retired struct {
	part
	trailer trailer
}

// outdated gives the segments that may go now, archived where there is an archive, and says in how long the next one will. Those
// before an error are among them.
func (j *Journal) outdated(ctx context.Context, parts []part) (old []retired, next time.Duration, err error) {
	for _, p := range parts {
		if !p.sealed || ctx.Err() != nil {
			return old, 0, ctx.Err()
		}
		t, err := j.trailer(p)
		if err != nil {
			return old, 0, err
		}
		if left := j.left(p.number, moment(t.Ended)); left > 0 {
			return old, left, nil
		}
		if mirrored, err := j.mirrored(t.Last); err != nil || !mirrored {
			return old, 0, err
		}
		if j.config.ArchiveDir != "" {
			if err := j.archive(ctx, p); err != nil {
				return old, 0, fmt.Errorf("archive segment %d: %w", p.number, err)
			}
		}
		old = append(old, retired{p, t})
	}
	return old, 0, nil
}

// journalRemoval appends the event that says which segments go, unless the history says so already: a run that died has left some.
func (j *Journal) journalRemoval(old []retired) error {
	newest := old[len(old)-1]
	var gone int
	j.View(func(s *State) { gone = s.Removed.segment() })
	if gone >= newest.number {
		return nil
	}
	_, err := j.Append(Draft{Payload: Retention{
		First: max(old[0].number, gone+1), Last: newest.number, Seq: newest.trailer.Last, Hash: newest.trailer.Hash.String(),
		Reason: "older than " + j.config.Retention.String(), Archive: j.config.ArchiveDir,
	}})
	return err
}

// Reasons of the retention event that a journal of an older version begins with.
const (
	reasonBefore  = "removed by a version that did not journal it"
	reasonNothing = "nothing was removed so far; from here on it is journalled"
)

// adopt journals what was removed from a journal by versions that only noted it. From then on whatever is missing beyond that
// is a hole. What was not even noted stays one.
func (j *Journal) adopt(ctx context.Context, oldest part) error {
	var known bool
	var noted int
	j.View(func(s *State) { known = s.Removed != nil })
	j.mu.Lock()
	noted = j.notes.kept
	j.mu.Unlock()
	switch {
	case known:
		return nil
	case oldest.number > noted:
		return &DamagedError{Detail: fmt.Sprintf("the history begins with segment %d, and segments from %d on were not removed by jobd", oldest.number, noted)}
	}
	event := Retention{Reason: reasonNothing}
	err := j.reader.visit(ctx, oldest, 0, func(_ part, _ source, h header) error {
		if h.number > 1 {
			event = Retention{First: 1, Last: h.number - 1, Seq: h.first - 1, Hash: h.previous.String(), Reason: reasonBefore}
		}
		return nil
	})
	if err == nil {
		_, err = j.Append(Draft{Payload: event})
	}
	return err
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

// remove notes that the journal begins behind a segment, and removes it. That is journalled.
func (j *Journal) remove(p part) error {
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
