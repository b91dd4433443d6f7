package folder

import (
	"context"
	"fmt"
	"slices"

	"jobd/journal"
	"jobd/journal/segment"
)

// LacksBefore tells what is missing before the oldest header of a history, where retention has not
// removed it; nil: nothing.
func LacksBefore(oldest segment.Header, removal *journal.Removal, n segment.Notes, live bool) *segment.Fault {
	if removal != nil {
		if f := leaves(removal, oldest); f != nil && (oldest.Previous != journal.Hash{} || f.Missing) {
			return f
		}
		return nil
	}
	// Only versions that noted what they removed, and did not journal it, wrote this one.
	if oldest.Number > 1 && oldest.First > 1 && live && oldest.Number > n.Kept {
		return &segment.Fault{First: 1, Last: oldest.First - 1, Missing: true, Detail: fmt.Sprintf(
			"the history begins with segment %d, and segments from %d on were not removed by jobd", oldest.Number, n.Kept)}
	}
	return nil
}

// leaves reports whether a history that was shortened so may begin with a header; nil: it may.
func leaves(r *journal.Removal, h segment.Header) *segment.Fault {
	switch {
	case h.Number == 1:
		return nil
	case h.Number > r.Segment+1:
		first, last := r.Seq+1, h.First-1
		return &segment.Fault{First: first, Last: max(first, last), Missing: true, Detail: fmt.Sprintf(
			"the history begins with segment %d, and no event says that retention removed those from %d on", h.Number, r.Segment+1)}
	case h.Number == r.Segment+1 && (h.First != r.Seq+1 || h.Previous.String() != r.Hash):
		return &segment.Fault{First: h.First, Last: h.First, Linked: true, Detail: fmt.Sprintf(
			"segment %d does not follow event %d, which is the newest that retention has removed", h.Number, r.Seq)}
	}
	return nil
}

// CheckSchema looks whether the newest segment's database is as it was made.
func (f *Folder) CheckSchema(ctx context.Context) error {
	_, err := f.Segments(ctx)
	return err
}

// NewestDatabase is the path of the newest segment where that is not sealed; else "".
func (f *Folder) NewestDatabase() (string, error) {
	parts, err := List(f.Dir)
	if err != nil || len(parts) == 0 || parts[len(parts)-1].Sealed {
		return "", err
	}
	return parts[len(parts)-1].Path, nil
}

// Beginning reports whether retention has removed what is missing before a header, which is the
// oldest; else that is damage.
func (f *Folder) Beginning(ctx context.Context, oldest segment.Header) error {
	if oldest.Number == 1 {
		return nil
	}
	removal, n, err := f.removal(ctx, oldest)
	if err != nil {
		return err
	}
	if lacks := LacksBefore(oldest, removal, n.notes, n.live); lacks != nil {
		return lacks.Damage()
	}
	return nil
}

type noted struct {
	notes segment.Notes
	live  bool
}

// removal is what the history says of retention: the newest segment's checkpoint, and, where that
// does not explain what the history begins with, the events behind it.
func (f *Folder) removal(ctx context.Context, oldest segment.Header) (removal *journal.Removal, n noted, err error) {
	if n.notes, n.live, err = f.Notes(ctx); err != nil && !segment.IsDamage(err) {
		return nil, n, err
	}
	err = again(func() error {
		parts, err := f.Present(ctx)
		for _, p := range slices.Backward(parts) {
			err = f.Visit(ctx, p, 0, func(_ Part, s segment.Source, h segment.Header) error {
				removal, err = removalIn(ctx, s, h, oldest)
				return err
			})
			if !segment.IsDamage(err) {
				break
			}
		}
		return err
	})
	return removal, n, err
}

// removalIn is what one segment says of retention.
func removalIn(ctx context.Context, s segment.Source, h, oldest segment.Header) (*journal.Removal, error) {
	state, err := h.State()
	if err != nil {
		return nil, err
	}
	removal := state.Removed
	if removal.Last() >= oldest.Number-1 && (h.Number != oldest.Number || removal != nil) {
		return removal, nil
	}
	for page, err := range s.Records(ctx, segment.Selection{Kinds: []journal.Kind{journal.KindRetention}}) {
		if err != nil {
			return removal, err
		}
		for i := range page {
			payload, err := journal.PayloadOf[journal.Retention](page[i].Payload)
			if err != nil {
				return removal, err
			}
			removal = removal.After(payload)
		}
	}
	return removal, nil
}
