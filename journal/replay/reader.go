package replay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"jobd/journal"
	"jobd/journal/archive"
)

// Reader reads a journal, also while a worker in another process writes it, seals and removes
// segments; the segments are one history to it. It reads archives and copies as well; a history
// whose beginning was removed begins with the oldest segment that is there. It never changes a
// journal: one at rest is left as it is found, file by file, and beside a write-ahead log only
// SQLite's shared index (-shm) is used. Its methods are safe for concurrent use.
type Reader struct {
	folder *archive.Folder
}

// ErrNone says that a folder holds no journal, or one that was never written to.
var ErrNone = archive.ErrNone

// Open opens the journal in a folder for reading.
func Open(dir string) (*Reader, error) {
	f := &archive.Folder{Dir: dir}
	parts, err := f.Segments(context.Background())
	if err == nil && len(parts) == 0 {
		err = f.None()
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", archive.ErrNone, err)
	}
	if err != nil {
		return nil, f.Failed("open", err)
	}
	return &Reader{f}, nil
}

// In reads in a folder.
func In(f *archive.Folder) *Reader { return &Reader{f} }

// Folder is the journal's folder, for its verification.
func (r *Reader) Folder() *archive.Folder { return r.folder }

// Newest is the newest event's sequence number, 0 where there is none. Errors are those of Anchor.
func (r *Reader) Newest(ctx context.Context) (uint64, error) {
	anchor, err := r.Anchor(ctx)
	return anchor.Seq, err
}

// First is the sequence number of the oldest event that is kept: 1, or what retention has left. It
// is one after the newest where there is no event.
func (r *Reader) First(ctx context.Context) (uint64, error) {
	oldest, err := r.oldest(ctx, 0)
	return oldest.First, r.folder.Failed("read", err)
}

// oldest is the header of the oldest segment that may hold events behind after; the zero value where
// there is none.
func (r *Reader) oldest(ctx context.Context, after uint64) (oldest archive.Header, err error) {
	err = r.folder.Walk(ctx, after, func(_ archive.Source, h archive.Header) error {
		oldest = h
		return errEnough
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return oldest, err
}

// Anchor gives the newest event's number and hash, to be kept elsewhere; both are zero where there
// is no event. It is an error where the journal does not reach what the head file knows: an anchor
// of a history that was cut would vouch for the cut.
func (r *Reader) Anchor(ctx context.Context) (journal.Anchor, error) {
	head, err := archive.ReadHead(r.folder.Dir)
	var a journal.Anchor
	if err == nil {
		a, err = r.folder.Ending(ctx, head, 0)
	}
	return a, r.folder.Failed("read", err)
}

// Name is the name of the worker whose journal this is, as its newest segment has it; "" where no
// worker has opened it yet.
func (r *Reader) Name(ctx context.Context) (name string, err error) {
	err = r.folder.Backward(ctx, true, func(s archive.Source, h archive.Header) (enough bool, err error) {
		name, err = nameIn(ctx, s, h) // where it is damaged the segment before knows it too
		return name != "", err
	})
	return name, r.folder.Failed("read", err)
}

func nameIn(ctx context.Context, s archive.Source, h archive.Header) (string, error) {
	state, err := h.State()
	if err != nil {
		return "", err
	}
	if state.Name != "" {
		return state.Name, nil
	}
	for page, err := range s.Records(ctx, archive.Selection{Kinds: []journal.Kind{journal.KindOpened}}) {
		if err != nil || len(page) == 0 {
			return "", err
		}
		payload, err := page[0].DecodePayload()
		opened, _ := payload.(journal.Opened)
		return opened.Name, err
	}
	return "", nil
}

// Kept says what retention has removed; nil where the history is whole, from its first event on.
func (r *Reader) Kept(ctx context.Context) (*journal.RemovedError, error) {
	oldest, err := r.oldest(ctx, 0)
	if err == nil && oldest.First <= 1 {
		return nil, nil
	}
	var before *journal.State
	if err == nil {
		before, err = oldest.State()
	}
	if err != nil {
		return nil, r.folder.Failed("read", err)
	}
	return &journal.RemovedError{First: oldest.First, Since: before.Time}, nil
}

// reaches fails with a *RemovedError where the event behind seq is not kept any more. Damage of the
// oldest segment does not matter to what is behind it.
func (r *Reader) reaches(ctx context.Context, seq uint64) error {
	removed, err := r.Kept(ctx)
	switch {
	case archive.IsDamage(err) || err == nil && (removed == nil || seq+1 >= removed.First):
		return nil
	case err != nil:
		return err
	}
	return removed
}
