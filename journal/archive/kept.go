package archive

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"
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
