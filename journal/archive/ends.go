package archive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"jobd/journal"
)

// The head file holds the highest sequence number that was acknowledged, and its
// hash, outside the database: a write-ahead log that lost its end reads like a shorter
// but sound journal, and only this file tells.
//
// It is made, and synced, before the first event, so that a journal with events and without a
// head is a damaged one. It is written after each commit and before anyone is told, without an
// fsync: after a power cut it may be older than the journal, which is harmless, never newer.

// headContent is what the file says: the number in 20 digits, the hash in hexadecimal.
func headContent(seq uint64, hash journal.Hash) []byte {
	return fmt.Appendf(nil, "jobd-head %020d %x\n", seq, hash[:])
}

type Head struct{ f *os.File }

// OpenHead opens the head file for writing, making it where it is missing or
// empty, which verification found to be legal.
func OpenHead(dir string) (*Head, error) {
	f, err := os.OpenFile(filepath.Join(dir, HeadFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open journal head: %w", err)
	}
	h := &Head{f: f}
	if info, err := f.Stat(); err != nil {
		return nil, errors.Join(fmt.Errorf("open journal head: %w", err), f.Close())
	} else if info.Size() > 0 {
		return h, nil
	}
	if err := errors.Join(h.Write(0, journal.Hash{}), f.Sync(), SyncFolder(dir)); err != nil {
		return nil, errors.Join(fmt.Errorf("make journal head: %w", err), f.Close())
	}
	return h, nil
}

// Write replaces the content; it is for one goroutine at a time; it is shorter than a sector, so it
// is never torn.
func (h *Head) Write(seq uint64, hash journal.Hash) error {
	if _, err := h.f.WriteAt(headContent(seq, hash), 0); err != nil {
		return fmt.Errorf("write journal head: %w", err)
	}
	return nil
}

func (h *Head) Close() error {
	return errors.Join(h.f.Sync(), h.f.Close())
}

// Acknowledgement is what the head file says. It is read before the events: what is appended while
// they are read must not look missing.
type Acknowledgement struct {
	Found  bool // there is a head
	Seq    uint64
	Hash   journal.Hash
	Damage error // it is not readable, which matters at the end of the events only
}

// ReadHead reads the head file.
func ReadHead(dir string) (Acknowledgement, error) {
	data, err := readSettled(filepath.Join(dir, HeadFile))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(data) == 0 {
		return Acknowledgement{}, nil
	}
	if err != nil {
		return Acknowledgement{}, fmt.Errorf("read journal head: %w", err)
	}
	a := Acknowledgement{Found: true}
	var hash []byte
	_, err = fmt.Sscanf(string(data), "jobd-head %d %x\n", &a.Seq, &hash)
	copy(a.Hash[:], hash)
	if err != nil || a.Seq > lastSeq || !bytes.Equal(data, headContent(a.Seq, a.Hash)) {
		a = Acknowledgement{Found: true, Damage: &journal.DamagedError{Detail: "the head file is not readable"}}
	}
	return a, nil
}

// readSettled reads a small file that a worker may be writing at the moment, until
// it reads the same twice.
func readSettled(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	for {
		before := data
		if err != nil {
			return nil, err
		}
		if data, err = os.ReadFile(path); bytes.Equal(before, data) {
			return data, err
		}
	}
}

// NewestDatabase is the path of the newest segment where that is not sealed; else "".
func (f *Folder) NewestDatabase() (string, error) {
	parts, err := List(f.Dir)
	if err != nil || len(parts) == 0 || parts[len(parts)-1].Sealed {
		return "", err
	}
	return parts[len(parts)-1].Path, nil
}

// Details of damage to a journal's end, which are the same words wherever it is met.
const (
	DetailCut        = "events up to %d were acknowledged, the journal ends at %d"
	DetailNoHead     = "the head file is missing, so newer events may be missing, too"
	DetailAllSealed  = "the newest segment is missing: all others are sealed"
	DetailHeadDiffer = "it is not the event that was acknowledged under this number"
)

// Ending reports whether a history that was read up to before end (0: all of it) reaches what is
// known of its end from elsewhere: the head file, and that a folder which a worker has used has a
// newest database. What ends earlier does not depend on it.
func (f *Folder) Ending(ctx context.Context, head Acknowledgement, end uint64) (newest journal.Anchor, err error) {
	if newest, err = f.Newest(ctx); err == nil && (end == 0 || end > newest.Seq) {
		err = f.endsAt(head, newest)
	}
	return newest, cmp.Or(err, head.Damage)
}

// endsAt is Ending of a history whose newest event is known.
func (f *Folder) endsAt(head Acknowledgement, newest journal.Anchor) error {
	if head.Seq > newest.Seq {
		return &journal.DamagedError{Seq: newest.Seq + 1, Detail: fmt.Sprintf(DetailCut, head.Seq, newest.Seq)}
	}
	if head.Seq == newest.Seq && head.Seq > 0 && head.Hash != newest.Hash {
		return &journal.DamagedError{Seq: newest.Seq, Detail: DetailHeadDiffer}
	}
	database, err := f.NewestDatabase()
	switch {
	case err != nil:
		return err
	case database == "" && (head.Found || UsedByWorker(f.Dir)):
		return &journal.DamagedError{Seq: newest.Seq + 1, Detail: DetailAllSealed}
	case database == "" || head.Found || newest.Seq == 0:
		return nil
	}
	// A worker may have made it, and events, since it was looked for.
	if head, err = ReadHead(f.Dir); err == nil && !head.Found {
		err = &journal.DamagedError{Detail: DetailNoHead}
	}
	return err
}

// UsedByWorker reports whether a folder is one that a worker writes to, and no archive, which holds
// sealed segments only.
func UsedByWorker(dir string) bool {
	for _, name := range []string{LockFile, ClockFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}
