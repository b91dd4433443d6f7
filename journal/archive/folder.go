package archive

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"jobd/journal"
)

// Folder is a journal's folder for reading, while a worker in another process may write, seal and
// remove segments in it. Its methods are safe for concurrent use.
type Folder struct {
	Dir string

	kept kept
}

// Failed says in which journal something went wrong; nil stays nil.
func (f *Folder) Failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s journal %s: %w", op, f.Dir, Damaged(err))
}

// ErrNone says that a folder holds no journal, or one that was never written to.
var ErrNone = errors.New("there is no journal in this folder")

// None is the error where there is no segment.
func (f *Folder) None() error {
	head, err := ReadHead(f.Dir)
	if err = cmp.Or(err, head.Damage); err != nil {
		return err
	}
	if head.Seq > 0 {
		return &journal.DamagedError{Seq: 1, Detail: fmt.Sprintf("events up to %d were acknowledged, the database is gone or empty", head.Seq)}
	}
	return ErrNone
}

// maxLooks is how often a folder is looked at for a segment that is gone, before it is taken as
// missing: a listing may miss a file that is renamed meanwhile.
const maxLooks = 5

// again looks at a folder once more where a file of a listing was gone: it was sealed, or removed.
func again(look func() error) (err error) {
	for range maxLooks {
		if err = look(); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return err
}

// Backward has segments visited, the newest first, until visit has enough. It begins anew where one
// is gone: visit must not mind that. Damaged ones are passed over where pastDamage says so.
func (f *Folder) Backward(ctx context.Context, pastDamage bool, visit func(s Source, h Header) (enough bool, err error)) error {
	return again(func() error {
		parts, err := f.Segments(ctx)
		enough := false
		for i := len(parts) - 1; i >= 0 && err == nil && !enough; i-- {
			err = f.Visit(ctx, parts[i], 0, func(s Source, h Header) error {
				enough, err = visit(s, h)
				return err
			})
			if pastDamage && IsDamage(err) {
				err = nil
			}
		}
		return err
	})
}

// Walk opens segments, oldest first, and has each visited. The first one is the oldest that may
// hold events behind after. A segment is visited again where it was sealed or followed by another
// meanwhile, since it may have got more events until then. One that retention removed is passed
// over.
func (f *Folder) Walk(ctx context.Context, after uint64, visit func(s Source, h Header) error) error {
	begin, err := f.beginsBefore(ctx, after+1)
	if err != nil {
		return err
	}
	return f.Each(ctx, max(begin, 1)-1, func(p Part) error { return f.Visit(ctx, p, after, visit) })
}

// Each gives the segments behind a number to visit, oldest first; one again that was sealed or
// followed by another meanwhile. Some may be missing in between.
func (f *Folder) Each(ctx context.Context, done int, visit func(p Part) error) error {
	for looks, newest := 0, 0; ; { // segments by number: newest was the newest when it was visited
		parts, err := f.Behind(ctx, done)
		if err != nil || len(parts) == 0 || len(parts) == 1 && parts[0].Number == newest {
			return err
		}
		for i, p := range parts {
			if looks++; done > 0 && p.Number != done+1 && looks < maxLooks {
				break
			}
			err = visit(p)
			if errors.Is(err, fs.ErrNotExist) && looks < maxLooks {
				break
			}
			if err != nil {
				return err
			}
			if looks = 0; i == len(parts)-1 {
				newest = p.Number
			} else {
				done = p.Number
			}
		}
	}
}

// beginsBefore is the newest segment that begins with an event or before it; 0 where that is the
// oldest, or is not known. What is before it does not matter, and may be damaged.
func (f *Folder) beginsBefore(ctx context.Context, seq uint64) (number int, err error) {
	if seq <= 1 {
		return 0, nil
	}
	err = f.Backward(ctx, true, func(_ Source, h Header) (enough bool, err error) {
		if h.First <= seq {
			number = h.Number
		}
		return number > 0, nil
	})
	if errors.Is(err, fs.ErrNotExist) { // Each finds what is left of them
		err = nil
	}
	return number, err
}

// Behind lists the segments behind a number. A database without a header is not there.
func (f *Folder) Behind(ctx context.Context, number int) ([]Part, error) {
	parts, err := f.Segments(ctx)
	return slices.DeleteFunc(parts, func(p Part) bool { return p.Number <= number }), err
}

// Visit opens a part and has it visited where it may hold events behind after.
func (f *Folder) Visit(ctx context.Context, p Part, after uint64, visit func(Source, Header) error) error {
	s, err := f.open(p)
	if err != nil {
		return err
	}
	defer s.Close()
	if b, sealed := s.Bounds(); sealed && b.Last <= after {
		return nil
	}
	h, err := s.Header(ctx)
	if err != nil {
		return err
	}
	if h.Number != p.Number {
		return &journal.DamagedError{Seq: h.First, Detail: fmt.Sprintf("file %s holds segment %d", p.Path, h.Number)}
	}
	return visit(s, h)
}

// MissingError says that segments between others are not there.
type MissingError struct{ First, Last int }

// Error implements error.
func (e *MissingError) Error() string {
	if e.First == e.Last {
		return fmt.Sprintf("segment %d is missing", e.First)
	}
	return fmt.Sprintf("segments %d to %d are missing", e.First, e.Last)
}

// Overtaken reports whether retention has removed what follows a segment while it was read: then
// that segment, which is older, is gone as well. Where it is still there, what should follow was
// taken out of the middle.
func (f *Folder) Overtaken(done int) (bool, error) {
	parts, err := List(f.Dir)
	return len(parts) > 0 && parts[0].Number > done, err
}

// Position is the newest event that the jobs table is known to show, as the newest segment has it;
// found is false in a folder of sealed segments only.
func (f *Folder) Position(ctx context.Context) (position uint64, found bool, err error) {
	err = again(func() error {
		parts, err := f.Segments(ctx)
		if found = err == nil && len(parts) > 0 && !parts[len(parts)-1].Sealed; !found {
			return err
		}
		d := &database{path: parts[len(parts)-1].Path}
		position, err = d.position(ctx)
		return errors.Join(err, d.Close())
	})
	return position, found, err
}

// Newest is the newest event's sequence number and hash.
func (f *Folder) Newest(ctx context.Context) (a journal.Anchor, err error) {
	err = f.Backward(ctx, false, func(s Source, h Header) (enough bool, err error) {
		if a.Seq, a.Hash, err = s.End(ctx); err == nil && a.Seq == 0 {
			a = journal.Anchor{Seq: h.First - 1, Hash: h.Previous}
		}
		return true, err
	})
	return a, err
}

// Part is a segment as it lies in a folder.
type Part struct {
	Number int
	Path   string
	Sealed bool
}

// The ends of segment files' names.
const (
	segmentPrefix = "segment-"
	databaseEnd   = ".db"
	sealedEnd     = ".zst"
	partialEnd    = ".partial" // of a sealed file in the making
)

func SealedPath(dir string, number int) string {
	return filepath.Join(dir, fmt.Sprintf("%s%08d%s", segmentPrefix, number, sealedEnd))
}

// PartialPath is where a sealed file is made. A crash may leave it.
func PartialPath(dir string, number int) string {
	return filepath.Join(dir, fmt.Sprintf("%s%08d%s", segmentPrefix, number, partialEnd))
}

// Partials are the names of sealed files in the making, as a pattern.
const Partials = segmentPrefix + "*" + partialEnd

// List gives the segments in a folder by number. A sealed segment counts, a database of the same
// number beside it does not.
func List(dir string) ([]Part, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	byNumber := make(map[int]Part)
	for _, entry := range entries {
		end := filepath.Ext(entry.Name())
		digits := strings.TrimSuffix(strings.TrimPrefix(entry.Name(), segmentPrefix), end)
		number, err := strconv.Atoi(digits)
		if err != nil || number < 1 || entry.Name() != fmt.Sprintf("%s%08d%s", segmentPrefix, number, end) || end != databaseEnd && end != sealedEnd {
			continue
		}
		if !byNumber[number].Sealed {
			byNumber[number] = Part{number, filepath.Join(dir, entry.Name()), end == sealedEnd}
		}
	}
	return slices.SortedFunc(maps.Values(byNumber), func(a, b Part) int { return cmp.Compare(a.Number, b.Number) }), nil
}

// Segments is List without the newest database where it has no header yet: that one is not there.
// An error says that it is of another version. Its damage does not matter, since its reader will
// meet it.
func (f *Folder) Segments(ctx context.Context) (parts []Part, err error) {
	err = again(func() error {
		if parts, err = List(f.Dir); err != nil || len(parts) == 0 || parts[len(parts)-1].Sealed {
			return err
		}
		newest := len(parts) - 1
		if f.kept.knows(parts[newest].Path) {
			return nil
		}
		d := &database{path: parts[newest].Path, kept: &f.kept}
		defer d.Close()
		made, err := d.Examine(ctx)
		switch {
		case err == nil && !made:
			parts = parts[:newest]
		case err == nil:
			f.kept.note(d.path)
		}
		if IsDamage(err) {
			err = nil
		}
		return err
	})
	return parts, err
}

// open is Open with what the folder keeps.
func (f *Folder) open(p Part) (Source, error) {
	if p.Sealed {
		return f.kept.openSealed(p.Path)
	}
	return &database{path: p.Path, kept: &f.kept}, nil
}

// Open opens a part for reading. The caller closes it where there is no error.
func (p Part) Open() (Source, error) {
	if p.Sealed {
		return OpenSealed(p.Path)
	}
	return &database{path: p.Path}, nil
}

// The files beside the segments in a journal's folder.
const (
	HeadFile  = "head"  // what was acknowledged
	LockFile  = "lock"  // held by the worker; names it
	ClockFile = "clock" // what the time line of ages said
)

// kept is what a folder keeps from one reading to the next, where it is told to: connections to the databases
// that are written to, and the ends of sealed files, which don't change. A reading without it connects a dozen
// times, and opens every segment. The zero value keeps nothing.
type kept struct {
	mu        sync.Mutex
	databases map[string]keptDatabase // by path; nil: nothing is kept
	sealed    map[string]keptSealed
}

// keptDatabase is a database with connections to it.
type keptDatabase struct {
	*sql.DB
	made bool // it was examined, and is one that this version has made
}

// keptSealed is a sealed file as it was last found.
type keptSealed struct {
	info    fs.FileInfo
	trailer trailer
	header  Header // without a number: it is too large to be kept, or was not read yet
}

// The bounds of what is kept.
const (
	keptIdle   = time.Minute // for which a connection is kept that nobody uses
	keptReads  = 4           // at once, in one database
	keptFiles  = 4096        // ends of sealed files
	keptHeader = 4 << 10     // bytes of a checkpoint
)

// Keep has the folder keep what the next reading needs again. Close gives it up.
func (f *Folder) Keep() *Folder {
	f.kept.databases, f.kept.sealed = map[string]keptDatabase{}, map[string]keptSealed{}
	return f
}

// Close closes what is kept; from then on nothing is.
func (f *Folder) Close() error {
	f.kept.mu.Lock()
	defer f.kept.mu.Unlock()
	var errs []error
	for _, db := range f.kept.databases {
		errs = append(errs, db.Close())
	}
	f.kept.databases, f.kept.sealed = nil, nil
	return errors.Join(errs...)
}

// knows tells whether a database was examined before, and note notes that it was.
func (k *kept) knows(path string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.databases[path].made
}

func (k *kept) note(path string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if db, there := k.databases[path]; there {
		db.made = true
		k.databases[path] = db
	}
}

// connect gives the connections to a database beside its writer, to be closed by nobody else; nil where none are
// kept. Those to databases that are gone are closed.
func (k *kept) connect(path string, open func() *sql.DB) *sql.DB {
	k.mu.Lock()
	defer k.mu.Unlock()
	if db, there := k.databases[path]; there || k.databases == nil {
		return db.DB
	}
	for other, gone := range k.databases {
		if _, err := os.Stat(other); errors.Is(err, fs.ErrNotExist) {
			_ = gone.Close()
			delete(k.databases, other)
		}
	}
	db := open()
	db.SetMaxOpenConns(keptReads)
	db.SetMaxIdleConns(keptReads)
	db.SetConnMaxIdleTime(keptIdle)
	k.databases[path] = keptDatabase{DB: db}
	return db
}

// openSealed opens a sealed segment. Of one that was met before the file is opened where more than its end is
// wanted.
func (k *kept) openSealed(path string) (*Sealed, error) {
	k.mu.Lock()
	known, keeps := k.sealed[path], k.sealed != nil
	k.mu.Unlock()
	if !keeps {
		return OpenSealed(path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if before := known.info; before != nil && os.SameFile(before, info) && before.Size() == info.Size() && before.ModTime().Equal(info.ModTime()) {
		return &Sealed{path: path, trailer: known.trailer, header: known.header}, nil
	}
	s, err := OpenSealed(path)
	if err != nil {
		return nil, err
	}
	if h, err := s.Header(context.Background()); err == nil && len(h.Checkpoint) <= keptHeader {
		s.header = h
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.sealed) >= keptFiles {
		clear(k.sealed)
	}
	if k.sealed != nil {
		k.sealed[path] = keptSealed{info, s.trailer, s.header}
	}
	return s, nil
}
