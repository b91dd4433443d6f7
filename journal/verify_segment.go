package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
)

// part verifies one segment of a folder, before others.
func (v *verifier) part(ctx context.Context, p part, following []part) error {
	again := v.number == p.number // it was sealed, or followed by another, while we read it
	if again {
		v.progress = v.before
	}
	v.before = v.progress
	bound, err := v.bound(ctx, following)
	if err != nil {
		return err
	}
	s, err := p.open(v.reader.decoder)
	if isDamage(err) {
		return v.unreadable(p, err, 0, bound)
	}
	if err != nil {
		return err
	}
	defer s.close()
	s.setRests(v.reader.rests)
	if d, ok := s.(*database); ok && p.path != v.examined {
		_, err := d.examine(ctx)
		if err := v.faulty(filepath.Base(p.path), err); err != nil {
			return err
		}
	}
	h, err := s.header(ctx)
	if isDamage(err) {
		return v.headless(ctx, p, s, err, bound)
	}
	if err == nil && h.number != p.number {
		return v.unreadable(p, &DamagedError{Detail: fmt.Sprintf("file %s holds segment %d", p.path, h.number)}, 0, bound)
	}
	if err != nil {
		return err
	}
	if again && v.state != nil {
		if v.state, err = h.state(); err != nil {
			return err
		}
	}
	return v.segment(ctx, s, h, bound)
}

// bound is the first event of the segment that follows, as far as that can be told; 0 where it can't.
func (v *verifier) bound(ctx context.Context, following []part) (first uint64, err error) {
	for _, p := range following {
		err := v.reader.visit(ctx, p, 0, func(_ part, _ source, h header) error {
			first = h.first
			return nil
		})
		if err == nil || !isDamage(err) && !errors.Is(err, fs.ErrNotExist) {
			return first, err
		}
	}
	return 0, nil
}

// unreadable notes that nothing of a segment can be read. Its events are those between its neighbours'.
func (v *verifier) unreadable(p part, cause error, first, bound uint64) error {
	var d *DamagedError
	errors.As(cause, &d)
	switch {
	case v.number > 0 && v.number+1 == p.number:
		first = v.links.next
	case v.number > 0:
		v.missingBefore(p.number, max(bound, v.links.next+1)-1)
		first = v.links.next
	case first == 0 && p.number == 1:
		first = 1
	case first == 0:
		first = max(bound, 2) - 1 // the last one: where it begins nobody can tell
	}
	if bound > 0 && first >= bound { // what is missing was told of the segment before
		v.fault(Fault{First: first, File: filepath.Base(p.path), Detail: d.Detail, Err: d.Err})
		v.number = p.number
		return nil
	}
	last := max(first, v.known())
	if bound > 0 {
		last = max(first, bound-1)
	}
	v.links.cut()
	v.links.next, v.state, v.unknown = last+1, nil, true
	v.fault(Fault{First: first, Last: last, File: filepath.Base(p.path), Detail: d.Detail, Err: d.Err})
	if v.number == 0 {
		v.oldest = header{number: p.number, first: first}
	}
	v.number, v.header = p.number, header{number: p.number, first: first}
	return nil
}

// headless verifies the events of a segment whose header can't be read.
func (v *verifier) headless(ctx context.Context, p part, s source, cause error, bound uint64) error {
	h := header{number: p.number}
	sealed, ok := s.(*sealed)
	switch {
	case ok:
		h.first = sealed.trailer.First
	case v.number+1 == p.number && v.number > 0:
		h.first = v.links.next
	case p.number == 1:
		h.first = 1
	default:
		return v.unreadable(p, cause, 0, bound)
	}
	if v.number > 0 && h.first != v.links.next {
		return v.unreadable(p, cause, h.first, bound)
	}
	if err := v.faulty(filepath.Base(p.path), cause); err != nil {
		return err
	}
	if v.number == 0 {
		v.oldest, v.links.next = h, h.first
	}
	v.links.cut()
	v.state, v.unknown, v.number, v.header, v.occurring = nil, true, h.number, h, v.occurring[:0]
	return v.rest(v.reader.verified(ctx, s, 0, 0, linked{after: h.first - 1, unknown: true, bound: bound, known: v.known()}))
}

// segment verifies one segment, from its beginning.
func (v *verifier) segment(ctx context.Context, s source, h header, bound uint64) error {
	before := len(v.faults)
	if err := v.events(ctx, s, h, bound); err != nil {
		return err
	}
	file, ok := s.(*sealed)
	if end := v.links.next - 1; ok && before == len(v.faults) {
		if t := file.trailer; t.Last != end || t.Hash != v.last || v.state != nil && t.Ended != v.state.Time.UnixMicro() {
			v.fault(Fault{
				First: end + 1, Last: t.Last, Missing: t.Last > end, File: filepath.Base(file.file.Name()),
				Detail: fmt.Sprintf("segment %d was sealed with event %d as its last, and holds %d", h.number, t.Last, end),
			})
			v.links.next = max(v.links.next, t.Last+1)
		}
	}
	if before == len(v.faults) {
		if err := v.faulty(fileOf(s), s.checkRest(ctx, v.occurring)); err != nil {
			return err
		}
	}
	v.tell()
	return nil
}

func fileOf(s source) string {
	switch s := s.(type) {
	case *sealed:
		return filepath.Base(s.file.Name())
	case *database:
		return filepath.Base(s.path)
	}
	return ""
}

func (v *verifier) tell() {
	if v.audit.Progress != nil && v.links.next > 0 {
		v.audit.Progress(v.links.next - 1)
	}
}

// events verifies a segment's header and events.
func (v *verifier) events(ctx context.Context, s source, h header, bound uint64) error {
	if err := v.begin(h); err != nil {
		return err
	}
	v.occurring = v.occurring[:0]
	return v.rest(v.reader.verified(ctx, s, 0, 0, linked{after: h.first - 1, previous: h.opening(), bound: bound, known: v.known()}))
}

// rest takes in pages of checked events.
func (v *verifier) rest(pages iter.Seq2[checked, error]) error {
	for page, err := range pages {
		if err != nil {
			return err
		}
		for _, s := range page.stretches {
			for _, f := range s.faults {
				v.damaged(f)
			}
			for i := range s.events {
				v.event(&s.events[i])
			}
		}
		v.occurring = appendJobs(v.occurring, page.jobs, page.index)
		v.tell()
	}
	return nil
}

// damaged takes in what is wrong with the next events.
func (v *verifier) damaged(f Fault) {
	v.fault(f)
	if f.surplus || f.Last < f.First {
		return
	}
	v.state = nil
	if f.linked {
		v.links.sound(f.First)
		v.compare(Anchor{f.First, f.stored})
		v.last, v.other, v.unknown = f.stored, f.stored, false
		return
	}
	if len(v.expected) > 0 && v.expected[0].Seq == f.First && !v.expected[0].head &&
		v.expected[0].Hash == f.computed && f.computed != f.stored && v.links.run.first > 0 {
		v.links.agrees(f.First - 1) // only the hash was changed: the event, and all before it, are what the anchor was made of
	}
	v.links.cut()
	v.links.next = f.Last + 1
	v.last, v.other, v.unknown = f.stored, f.computed, f.stored == Hash{} && f.computed == Hash{}
	for ; len(v.expected) > 0 && v.expected[0].Seq <= f.Last; v.expected = v.expected[1:] {
		want := v.expected[0]
		if want.Seq == f.First && f.Last == f.First && !f.Missing && want.Hash != f.stored && want.Hash != f.computed && !want.head {
			v.links.disagrees(want.Seq, rewritten)
		}
	}
}

// event takes in the next event, whose hash is right.
func (v *verifier) event(e *Event) {
	v.links.sound(e.Seq)
	v.last, v.other, v.unknown = e.Hash, e.Hash, false
	if e.Seq == v.header.first {
		v.begun = e.Time
		if v.doubt != nil { // the header that contradicts what is before it is what the events behind it go on from
			v.links.against = append(v.links.against, *v.doubt)
		}
	}
	if v.state != nil {
		if err := v.state.Apply(*e); err != nil {
			v.fault(Fault{First: e.Seq, Last: e.Seq, Err: err, linked: true})
			v.state = nil
		}
	}
	v.weight += weight(*e)
	if p, ok := e.Payload.(Retention); ok {
		v.removes(e, p)
	}
	if v.waypoint != nil && v.waypoint.anchor.Seq == e.Seq {
		if err := v.waypoint.agrees(e.Hash, v.state); err != nil {
			_ = v.faulty(waypointFile, err) // it is damage
		}
		v.waypoint = nil
	}
	if len(v.expected) > 0 && v.expected[0].Seq <= e.Seq {
		v.compare(Anchor{e.Seq, e.Hash})
	}
}

// removes takes in what an event says of retention, which must be true of the segments that are still here.
func (v *verifier) removes(e *Event, p Retention) {
	if end, here := v.ends[p.Last+1]; here && p.Last > 0 && (end.Seq != p.Seq || end.Hash.String() != p.Hash) {
		v.fault(Fault{First: e.Seq, Last: e.Seq, linked: true, Detail: fmt.Sprintf("it says that segment %d ended with event %d, which is not what it ended with", p.Last, p.Seq)})
		return
	}
	v.removal = v.removal.after(p)
}

// rewritten is what is said of events between one that an anchor agrees with and one that it does not.
const rewritten = "an anchor knows another history: this is not what was written"

// expected is a hash that an event must have.
type expected struct {
	Anchor
	head bool // it is what the head file says
}

// compare compares an event with what is expected of its number, and passes what is before it.
func (v *verifier) compare(event Anchor) {
	for ; len(v.expected) > 0 && v.expected[0].Seq <= event.Seq; v.expected = v.expected[1:] {
		want := v.expected[0]
		switch {
		case want.Seq < event.Seq || want.Seq == 0:
			continue
		case want.Hash != event.Hash && want.head:
			v.fault(Fault{First: event.Seq, File: headFile, Detail: "it is not the event that was acknowledged under this number"})
		case want.Hash != event.Hash:
			v.links.disagrees(event.Seq, rewritten)
			v.fault(Fault{First: event.Seq, Detail: "it is not the event that the anchor knows under this number: the history was rewritten"})
		case !want.head:
			v.compared++
			v.links.agrees(event.Seq)
		}
	}
}
