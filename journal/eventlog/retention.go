package eventlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
)

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
