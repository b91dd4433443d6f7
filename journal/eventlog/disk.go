package eventlog

import (
	"context"
	"errors"
	"fmt"

	"jobd/journal/segment"
)

// disk is what the journal asks of its newest segment. Only the leader calls append and next.
type disk interface {
	// Append writes records, and the notes unless they are nil, all or
	// none; they are durable when it returns.
	Append(records []segment.Record, n *segment.Notes) error
	// next makes the segment that a header opens, durably. Where it found no room
	// (see full) there is no such segment, and this one may be appended to.
	next(h segment.Header, n segment.Notes) (disk, error)
	// Size is about how many bytes the segment has.
	Size() int64
	// Checkpoint empties the write-ahead log where it has grown beyond bound bytes. It may be
	// called at any time.
	Checkpoint(bound int64) error
	Close() error
}

// onDisk is the newest segment in a folder. It implements disk.
type onDisk struct {
	*segment.Appender
	dir string
}

// openDisk opens a segment for appending.
func openDisk(ctx context.Context, dir string, number int) (onDisk, error) {
	s, err := segment.OpenAppender(ctx, dir, number)
	return onDisk{s, dir}, err
}

// next implements disk.
func (d onDisk) next(h segment.Header, n segment.Notes) (disk, error) {
	err := segment.Make(context.Background(), d.dir, h, n)
	if err == nil {
		var next onDisk
		if next, err = openDisk(context.Background(), d.dir, h.Number); err == nil {
			next.ForgetSize() // an empty database is not what a segment's size is about
			return next, nil
		}
	}
	if segment.Full(err) {
		// The journal goes on without it, so it must never be there again, not even after a power
		// cut.
		if err := errors.Join(segment.RemoveDatabase(segment.DatabasePath(d.dir, h.Number)), segment.SyncFolder(d.dir)); err != nil {
			return nil, fmt.Errorf("remove a segment that found no room: %w", err)
		}
	}
	return nil, err
}
