package archive

import (
	"context"
	"errors"
	"iter"
	"os"
	"slices"

	"jobd/journal"
)

// Source is one segment as readers see it, open or sealed. It checks only the form of what it gives:
// the hash chain says whether that is what was appended (see Verified). fs.ErrNotExist says that the
// segment was sealed or removed meanwhile.
type Source interface {
	Header(ctx context.Context) (Header, error)
	// End gives the last event's sequence number and hash, zeros where there is no event.
	End(ctx context.Context) (uint64, journal.Hash, error)
	// Records gives what is selected in pages, in order. Records before an error come with it, and
	// nothing comes after it, unless the selection wants to go on.
	Records(ctx context.Context, sel Selection) iter.Seq2[[]Record, error]
	// CheckRest checks what the events do not tell: indexes, and sums over the file. It is given
	// where jobs occur, by page, in any order.
	CheckRest(ctx context.Context, occurring []JobBlock) error
	// Bounds is what the segment was sealed with; ok is false where it is not sealed.
	Bounds() (b Bounds, ok bool)
	// Examine looks whether the file is one that this version can read, and holds what this version
	// makes and nothing else. What is not as it should be is damage; found reports whether there is
	// anything in it.
	Examine(ctx context.Context) (found bool, err error)
	// Name is the file's name in its folder.
	Name() string
	Close() error
}

// Bounds is what is known of a sealed segment without reading its events.
type Bounds struct {
	Last         uint64       // the last sequence number
	Begun, Ended int64        // times of the first and the last event, in microseconds since 1970
	Hash         journal.Hash // of the last event
}

// Selection says which records of a segment are wanted.
type Selection struct {
	After, End uint64         // those behind after and before end (0: no end)
	Job        int64          // 0: all
	Kinds      []journal.Kind // empty: all
	Output     bool           // with stdout and stderr; the hash cannot be checked without
	Wanted     []uint64       // of Verified: the payloads of these alone are decoded, in order; nil: of all
}

// has reports whether a record is selected.
func (s *Selection) has(r *Record) bool {
	return r.Seq > s.After && (s.End == 0 || r.Seq < s.End) && (s.Job == 0 || r.Job == s.Job) &&
		(len(s.Kinds) == 0 || slices.Contains(s.Kinds, r.Kind))
}

// RecordAt is one event's record, unchecked; nil where it is not there. Who reads on from there with output, reads it
// with output, too: the block of a sealed segment is decompressed once then.
func RecordAt(ctx context.Context, s Source, seq uint64, output bool) (*Record, error) {
	for page, err := range s.Records(ctx, Selection{After: seq - 1, End: seq + 1, Output: output}) {
		if err != nil {
			return nil, err
		}
		return &page[0], nil
	}
	return nil, nil
}

// FirstAt is the sequence number of a segment's first event at or after a time in microseconds, one
// after the last where there is none: by bisection, since time grows with the sequence number.
func FirstAt(ctx context.Context, s Source, h Header, micros int64) (uint64, error) {
	last, _, err := s.End(ctx)
	low, high := h.First, last+1
	for err == nil && low < high {
		middle := low + (high-low)/2
		var r *Record
		switch r, err = RecordAt(ctx, s, middle, false); {
		case err == nil && r == nil:
			err = &journal.DamagedError{Seq: middle, Detail: "it is missing"}
		case err == nil && r.Micros < micros:
			low = middle + 1
		default:
			high = middle
		}
	}
	return low, err
}

// SyncFolder makes the names of new files durable.
func SyncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Replace writes a small file anew, durably. A crash leaves the file as it was, or the new one.
func Replace(path string, content []byte) error {
	partial := path + partialEnd
	f, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(partial, path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(partial))
	}
	return err
}
