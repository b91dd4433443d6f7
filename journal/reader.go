package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/klauspost/compress/zstd"
)

// Reader reads a journal, also while a worker in another process writes it, seals and removes segments; the
// segments are one history to it. It reads archives and copies as well; a history whose beginning
// was removed begins with the oldest segment that is there. It never changes a journal: one at rest is left as it is found, file by
// file, and beside a write-ahead log only SQLite's shared index (-shm) is used. Its methods are safe for
// concurrent use. It holds a few pages in memory, and no file between two calls.
type Reader struct {
	dir     string
	decoder *zstd.Decoder
	rests   int
	writer  bool // it is the journal's own, whose start has seen the head file and holds it open
}

// OpenReader opens the journal in a folder for reading.
func OpenReader(dir string) (*Reader, error) {
	r := newReader(dir)
	parts, err := r.present(context.Background())
	if err == nil && len(parts) == 0 {
		err = r.none()
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", errNone, err)
	}
	if err != nil {
		return nil, errors.Join(r.failed("open", err), r.Close())
	}
	return r, nil
}

// GiveWay has the reader rest for about half of the time that long reading takes, and leave the processors to whatever else
// the process does. It is called before anything is read.
func (r *Reader) GiveWay() { r.rests = restsGivingWay }

// restsGivingWay is for how long is rested, in page reads: what is done with a page costs about as much as reading it.
const restsGivingWay = 2

func newReader(dir string) *Reader { return &Reader{dir: dir, decoder: newDecoder()} }

// Close ends reading.
func (r *Reader) Close() error {
	r.decoder.Close()
	return nil
}

func (r *Reader) failed(op string, err error) error {
	return fmt.Errorf("%s journal %s: %w", op, r.dir, damaged(err))
}

// errNone says that a folder holds no journal, or one that was never written to.
var errNone = errors.New("there is no journal in this folder")

// none is the error where there is no segment.
func (r *Reader) none() error {
	head, err := readHead(r.dir)
	if err != nil {
		return err
	}
	if head.seq > 0 {
		return &DamagedError{Seq: 1, Detail: fmt.Sprintf("events up to %d were acknowledged, the database is gone or empty", head.seq)}
	}
	return errNone
}

// maxLooks is how often a folder is looked at for a segment that is gone, before it is taken as missing: a
// listing may miss a file that is renamed meanwhile.
const maxLooks = 5

// walk opens segments, oldest first, and has each visited. The first one is the oldest that may hold events behind
// after. A segment is visited again where it was sealed or followed by another meanwhile, since it may
// have got more events until then. One that retention removed is passed over.
func (r *Reader) walk(ctx context.Context, after uint64, visit func(p part, s source, h header) error) error {
	done, err := r.beginsBefore(ctx, after+1)
	if err != nil {
		return err
	}
	done = max(done, 1) - 1
	for looks, newest := 0, 0; ; { // segments by number: newest was the newest when it was visited
		parts, err := r.behind(ctx, done)
		if err != nil || len(parts) == 0 || len(parts) == 1 && parts[0].number == newest {
			return err
		}
		p := parts[0]
		if done > 0 && p.number != done+1 {
			if looks++; looks < maxLooks {
				continue
			}
			if overtaken, err := r.overtaken(ctx, done); err != nil || !overtaken {
				return errors.Join(err, missing(done+1, p.number-1))
			}
		}
		err = r.visit(ctx, p, after, visit)
		if errors.Is(err, fs.ErrNotExist) && looks < maxLooks {
			looks++
			continue
		}
		if err != nil {
			return err
		}
		if looks = 0; len(parts) == 1 {
			newest = p.number
		} else {
			done = p.number
		}
	}
}

// beginsBefore is the newest segment that begins with an event or before it; 0 where that is the oldest, or can't be told. What is
// before it does not matter, and may be damaged.
func (r *Reader) beginsBefore(ctx context.Context, seq uint64) (number int, err error) {
	if seq <= 1 {
		return 0, nil
	}
	parts, err := r.present(ctx)
	for i := len(parts) - 1; i >= 0 && err == nil && number == 0; i-- {
		err = r.visit(ctx, parts[i], 0, func(p part, _ source, h header) error {
			if h.first <= seq {
				number = p.number
			}
			return nil
		})
		if isDamage(err) || errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return number, err
}

// behind lists the segments behind a number. A database without a header is not there.
func (r *Reader) behind(ctx context.Context, number int) ([]part, error) {
	parts, err := list(r.dir)
	for len(parts) > 0 && parts[0].number <= number {
		parts = parts[1:]
	}
	// Of more than two the last one says nothing of the first.
	if n := len(parts); err == nil && (n == 1 || n == 2) && !parts[n-1].sealed {
		made, err := r.examine(ctx, parts[n-1])
		if errors.Is(err, fs.ErrNotExist) {
			return parts, nil // it was sealed; who opens it will notice
		}
		if isDamage(err) {
			return parts, nil // likewise
		}
		if err != nil || !made {
			return parts[:n-1], err
		}
	}
	return parts, err
}

// visit opens a part and has it visited where it may hold events behind after.
func (r *Reader) visit(ctx context.Context, p part, after uint64, visit func(part, source, header) error) error {
	s, err := p.open(r.decoder)
	if err != nil {
		return err
	}
	defer s.close()
	s.setRests(r.rests)
	if sealed, ok := s.(*sealed); ok && sealed.trailer.Last <= after {
		return nil
	}
	h, err := s.header(ctx)
	if err != nil {
		return err
	}
	if h.number != p.number {
		return &DamagedError{Seq: h.first, Detail: fmt.Sprintf("file %s holds segment %d", p.path, h.number)}
	}
	return visit(p, s, h)
}

// missingSegment says that segments between others are not there.
type missingSegment struct{ first, last int }

// Error implements error.
func (e *missingSegment) Error() string {
	if e.first == e.last {
		return fmt.Sprintf("segment %d is missing", e.first)
	}
	return fmt.Sprintf("segments %d to %d are missing", e.first, e.last)
}

func missing(first, last int) error { return &DamagedError{Err: &missingSegment{first, last}} }

// overtaken tells whether retention has removed what follows a segment while it was read: then that segment, which is older,
// is gone as well. Where it is still there, what should follow was taken out of the middle.
func (r *Reader) overtaken(ctx context.Context, done int) (bool, error) {
	parts, err := list(r.dir)
	if err != nil || len(parts) > 0 && parts[0].number <= done {
		return false, err
	}
	n, _, err := r.notes(ctx)
	return n.kept > done+1, err
}

// notes gives what the newest segment keeps beside the events; found is false in a folder of sealed segments only.
func (r *Reader) notes(ctx context.Context) (n notes, found bool, err error) {
	for range maxLooks {
		var parts []part
		if parts, err = r.present(ctx); err != nil || len(parts) == 0 || parts[len(parts)-1].sealed {
			return n, false, err
		}
		d := &database{path: parts[len(parts)-1].path, decoder: r.decoder}
		n, err = d.notes(ctx)
		if err = errors.Join(err, d.close()); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return n, true, err
}

// Newest is the newest event's sequence number, 0 where there is none. Errors are those of Anchor.
func (r *Reader) Newest(ctx context.Context) (uint64, error) {
	anchor, err := r.Anchor(ctx)
	return anchor.Seq, err
}

// newest is the newest event's sequence number and hash.
func (r *Reader) newest(ctx context.Context) (a Anchor, err error) {
	for range maxLooks {
		var parts []part
		if parts, err = r.present(ctx); err != nil || len(parts) == 0 {
			return a, err
		}
		newest := parts[len(parts)-1]
		err = r.visit(ctx, newest, 0, func(_ part, s source, h header) error {
			if a.Seq, a.Hash, err = s.end(ctx); err == nil && a.Seq == 0 {
				a = Anchor{h.first - 1, h.previous}
			}
			return err
		})
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return a, err
}

// First is the sequence number of the oldest event that is kept: 1, or what retention has left. It is one after
// the newest where there is no event.
func (r *Reader) First(ctx context.Context) (uint64, error) {
	var first uint64
	errFound := errors.New("found")
	err := r.walk(ctx, 0, func(_ part, _ source, h header) error {
		first = h.first
		return errFound
	})
	if err != nil && !errors.Is(err, errFound) {
		return 0, r.failed("read", err)
	}
	return first, nil
}

// Position is the newest event that the jobs table is known to show. In an archive that is its newest.
func (r *Reader) Position(ctx context.Context) (uint64, error) {
	n, found, err := r.notes(ctx)
	if err == nil && !found {
		var newest Anchor
		newest, err = r.newest(ctx)
		n.position = newest.Seq
	}
	if err != nil {
		return 0, r.failed("read", err)
	}
	return n.position, nil
}
