package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"

	"jobd/journal"
	"jobd/journal/folder"
	"jobd/journal/segment"
)

// part verifies one segment of a folder, before others.
func (v *verifier) part(ctx context.Context, p folder.Part, following []folder.Part) error {
	again := v.number == p.Number // it was sealed, or followed by another, while we read it
	if again {
		v.progress = v.before
	}
	v.before = v.progress
	bound, err := v.bound(ctx, following)
	if err != nil {
		return err
	}
	s, err := v.folder.Open(p)
	if segment.IsDamage(err) {
		return v.unreadable(p, err, 0, bound)
	}
	if err != nil {
		return err
	}
	defer s.Close()
	if p.Path != v.examined {
		_, err := s.Examine(ctx)
		if err := v.faulty(filepath.Base(p.Path), err); err != nil {
			return err
		}
	}
	h, err := s.Header(ctx)
	if segment.IsDamage(err) {
		return v.headless(ctx, p, s, err, bound)
	}
	if err == nil && h.Number != p.Number {
		return v.unreadable(p, &journal.DamagedError{Detail: fmt.Sprintf("file %s holds segment %d", p.Path, h.Number)}, 0, bound)
	}
	if err != nil {
		return err
	}
	if again && v.state != nil {
		if v.state, err = h.State(); err != nil {
			return err
		}
	}
	return v.segment(ctx, s, h, bound)
}

// bound is the first event of the segment that follows, as far as that can be told; 0 where it
// can't.
func (v *verifier) bound(ctx context.Context, following []folder.Part) (first uint64, err error) {
	for _, p := range following {
		err := v.folder.Visit(ctx, p, 0, func(_ folder.Part, _ segment.Source, h segment.Header) error {
			first = h.First
			return nil
		})
		if err == nil || !segment.IsDamage(err) && !errors.Is(err, fs.ErrNotExist) {
			return first, err
		}
	}
	return 0, nil
}

// unreadable notes that nothing of a segment can be read. Its events are those between its
// neighbours'.
func (v *verifier) unreadable(p folder.Part, cause error, first, bound uint64) error {
	var d *journal.DamagedError
	errors.As(cause, &d)
	switch {
	case v.number > 0 && v.number+1 == p.Number:
		first = v.links.next
	case v.number > 0:
		v.missingBefore(p.Number, max(bound, v.links.next+1)-1)
		first = v.links.next
	case first == 0 && p.Number == 1:
		first = 1
	case first == 0:
		first = max(bound, 2) - 1 // the last one: where it begins nobody can tell
	}
	if bound > 0 && first >= bound { // what is missing was told of the segment before
		v.fault(segment.Fault{First: first, File: filepath.Base(p.Path), Detail: d.Detail, Err: d.Err})
		v.number = p.Number
		return nil
	}
	last := max(first, v.known())
	if bound > 0 {
		last = max(first, bound-1)
	}
	v.links.cut()
	v.links.next, v.state, v.unknown = last+1, nil, true
	v.fault(segment.Fault{First: first, Last: last, File: filepath.Base(p.Path), Detail: d.Detail, Err: d.Err})
	if v.number == 0 {
		v.oldest = segment.Header{Number: p.Number, First: first}
	}
	v.number, v.header = p.Number, segment.Header{Number: p.Number, First: first}
	return nil
}

// headless verifies the events of a segment whose header can't be read.
func (v *verifier) headless(ctx context.Context, p folder.Part, s segment.Source, cause error, bound uint64) error {
	h := segment.Header{Number: p.Number}
	sealing, sealed := s.Bounds()
	switch {
	case sealed:
		h.First = sealing.First
	case v.number+1 == p.Number && v.number > 0:
		h.First = v.links.next
	case p.Number == 1:
		h.First = 1
	default:
		return v.unreadable(p, cause, 0, bound)
	}
	if v.number > 0 && h.First != v.links.next {
		return v.unreadable(p, cause, h.First, bound)
	}
	if err := v.faulty(filepath.Base(p.Path), cause); err != nil {
		return err
	}
	if v.number == 0 {
		v.oldest, v.links.next = h, h.First
	}
	v.links.cut()
	v.state, v.unknown, v.number, v.header, v.occurring = nil, true, h.Number, h, v.occurring[:0]
	return v.addPages(segment.Verified(ctx, s, 0, 0, segment.From{After: h.First - 1, Unknown: true, Bound: bound, Known: v.known()}))
}

// segment verifies one segment, from its beginning.
func (v *verifier) segment(ctx context.Context, s segment.Source, h segment.Header, bound uint64) error {
	before := len(v.faults)
	if err := v.events(ctx, s, h, bound); err != nil {
		return err
	}
	sealing, sealed := s.Bounds()
	if end := v.links.next - 1; sealed && before == len(v.faults) {
		if sealing.Last != end || sealing.Hash != v.last || v.state != nil && sealing.Ended != v.state.Time.UnixMicro() {
			v.fault(segment.Fault{
				First: end + 1, Last: sealing.Last, Missing: sealing.Last > end, File: s.Name(),
				Detail: fmt.Sprintf("segment %d was sealed with event %d as its last, and holds %d", h.Number, sealing.Last, end),
			})
			v.links.next = max(v.links.next, sealing.Last+1)
		}
	}
	if before == len(v.faults) {
		if err := v.faulty(s.Name(), s.CheckRest(ctx, v.occurring)); err != nil {
			return err
		}
	}
	v.reportProgress()
	return nil
}

// events verifies a segment's header and events.
func (v *verifier) events(ctx context.Context, s segment.Source, h segment.Header, bound uint64) error {
	if err := v.beginSegment(h); err != nil {
		return err
	}
	v.occurring = v.occurring[:0]
	return v.addPages(segment.Verified(ctx, s, 0, 0, segment.From{After: h.First - 1, Previous: h.Opening(), Bound: bound, Known: v.known()}))
}

// addPages takes in pages of checked events.
func (v *verifier) addPages(pages iter.Seq2[segment.Checked, error]) error {
	for page, err := range pages {
		if err != nil {
			return err
		}
		for _, s := range page.Stretches {
			for _, f := range s.Faults {
				v.addDamage(f)
			}
			for i := range s.Events {
				v.addEvent(&s.Events[i])
			}
		}
		v.occurring = segment.AppendJobs(v.occurring, page.Jobs, page.Index)
		v.reportProgress()
	}
	return nil
}
