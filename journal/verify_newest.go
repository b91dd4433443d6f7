package journal

import (
	"context"
	"fmt"
)

// runNewest verifies all that a worker relies on: the newest segment, that it follows the one before it, head file and
// position. The time it takes is bounded by the size of a segment.
func (v *verifier) runNewest(ctx context.Context, parts []part) (err error) {
	if v.head, err = readHead(v.reader.dir); err != nil {
		return err
	}
	if v.notes, v.live, err = v.reader.notes(ctx); err != nil {
		return err
	}
	newest := parts[len(parts)-1]
	s, err := newest.open(v.reader.decoder)
	if err != nil {
		return err
	}
	defer s.close()
	h, err := s.header(ctx)
	if err != nil {
		return err
	}
	if h.number != newest.number {
		return &DamagedError{Seq: h.first, Detail: fmt.Sprintf("file %s holds segment %d", newest.path, h.number)}
	}
	if err := v.checkBefore(ctx, parts, h); err != nil {
		return err
	}
	if v.head.found {
		v.expected = []expected{{Anchor{v.head.seq, v.head.hash}, true}}
	}
	v.number = h.number // the header is what we begin with
	if err := v.events(ctx, s, h); err != nil {
		return err
	}
	return v.end()
}

// checkBefore compares the newest segment's header with the end of the segment before it, where that is kept.
func (v *verifier) checkBefore(ctx context.Context, parts []part, h header) error {
	if h.number == 1 {
		return agrees(h, &State{})
	}
	if len(parts) < 2 || parts[len(parts)-2].number != h.number-1 {
		return nil
	}
	return v.reader.visit(ctx, parts[len(parts)-2], 0, func(_ part, s source, _ header) error {
		seq, hash, err := s.end(ctx)
		if err == nil && (seq+1 != h.first || hash != h.previous) {
			err = &DamagedError{Seq: h.first, Detail: fmt.Sprintf("segment %d does not follow the one before it, which ends with event %d", h.number, seq)}
		}
		return err
	})
}
