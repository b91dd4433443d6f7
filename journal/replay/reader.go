package replay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"time"

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

// errEnough ends a walk early: nobody wants more, or nothing more is selected.
var errEnough = errors.New("enough")

// Read gives decoded and verified events to yield until it has enough, with their output. Kinds are
// looked at only where a job is selected, whose events are found by an index.
func (r *Reader) Read(ctx context.Context, sel archive.Selection, yield func(journal.Event) bool) error {
	q := &sequence{folder: r.folder, sel: sel}
	return q.read(ctx, func(e *journal.Event) error {
		if !yield(*e) {
			return errEnough
		}
		return nil
	})
}

// sequence reads the selected events one after the other, and verifies what it reads: that it is
// what the hashes were made of, that nothing is missing in it, that segments go on from each other,
// and that it ends where the head file says. What was given before an error is sound in that sense;
// that all of it was rewritten only package verify tells, with anchors.
type sequence struct {
	folder *archive.Folder
	sel    archive.Selection // After moves on with what was read
	state  *journal.State    // folds the events, from the checkpoint on with which reading begins; nil: nobody wants it

	number int          // of the segment in hand; 0: none
	hash   journal.Hash // of the event sel.After, where it was read
	head   archive.Acknowledgement
}

// read gives the events to use until that has enough.
func (q *sequence) read(ctx context.Context, use func(*journal.Event) error) (err error) {
	if q.head, err = archive.ReadHead(q.folder.Dir); err != nil {
		return err
	}
	err = q.folder.Walk(ctx, q.sel.After, func(s archive.Source, h archive.Header) error {
		return q.segment(ctx, s, h, use)
	})
	switch {
	case errors.Is(err, errEnough):
		return nil
	case err == nil && q.number == 0:
		return q.head.Damage
	case err == nil:
		_, err = q.folder.Ending(ctx, q.head, q.sel.End)
	}
	return err
}

// segment reads what is wanted of a segment.
func (q *sequence) segment(ctx context.Context, s archive.Source, h archive.Header, use func(*journal.Event) error) error {
	past := q.sel.End > 0 && h.First >= q.sel.End
	if past && q.number > 0 {
		return errEnough
	}
	if err := q.enter(h); err != nil {
		return err
	}
	if past {
		return errEnough
	}
	last, hash, err := s.End(ctx)
	if err != nil || last < q.sel.After {
		return err // nothing that is wanted is there yet
	}
	start := archive.From{After: h.First - 1}
	if q.sel.After < h.First {
		start.Previous = h.Opening()
	} else {
		before, err := archive.RecordAt(ctx, s, q.sel.After, true)
		if archive.IsDamage(err) { // of output, perhaps
			before, err = archive.RecordAt(ctx, s, q.sel.After, false)
		}
		if err != nil {
			return err
		}
		if before == nil {
			return &journal.DamagedError{Seq: q.sel.After, Detail: "it is missing"}
		}
		q.hash = before.Hash
		start = archive.From{After: q.sel.After, Previous: before.Hash}
	}
	sel := q.sel
	sel.After = start.After
	if sel.Job != 0 && last > 0 && (sel.End == 0 || sel.End > last) {
		sel.End = last + 1 // what is appended from now on is read when the segment is looked at again
	}
	for page, err := range archive.Verified(ctx, s, sel, start) {
		if err != nil {
			return err
		}
		for i := range page.Events {
			e := &page.Events[i]
			q.sel.After, q.hash = e.Seq, e.Hash
			if e.Seq == q.head.Seq && e.Hash != q.head.Hash {
				return &journal.DamagedError{Seq: e.Seq, Detail: archive.DetailHeadDiffer}
			}
			if q.state != nil {
				if err := q.state.Apply(*e); err != nil {
					return &journal.DamagedError{Seq: e.Seq, Err: err}
				}
			}
			if e.Payload == nil { // it is not wanted
				continue
			}
			if err := use(e); err != nil {
				return err
			}
		}
		if page.Damage != nil {
			return page.Damage
		}
	}
	if sel.Job != 0 && last > q.sel.After {
		q.sel.After, q.hash = last, hash
	}
	if _, sealed := s.Bounds(); sealed && q.sel.End == 0 && (last != q.sel.After || hash != q.hash) {
		return &journal.DamagedError{
			Seq: q.sel.After + 1, Detail: fmt.Sprintf("segment %d was sealed at event %d, but ends at event %d", h.Number, last, q.sel.After),
		}
	}
	return nil
}

// enter compares a segment's header with what was read before it.
func (q *sequence) enter(h archive.Header) error {
	before, after := q.number, q.sel.After
	q.number = h.Number
	switch {
	case before == 0 && h.Number == 1 && h.First != 1:
		return &journal.DamagedError{Seq: 1, Detail: "it is missing"}
	case before == 0:
		q.sel.After = max(after, h.First-1)
		q.hash = h.Previous
		return q.fold(h)
	case h.Number > before+1:
		overtaken, err := q.folder.Overtaken(before)
		if err == nil && !overtaken {
			missing := &archive.MissingError{First: before + 1, Last: h.Number - 1}
			err = &journal.DamagedError{Seq: after + 1, Err: missing}
		}
		if err != nil {
			return err
		}
		if h.First > after+1 {
			return fmt.Errorf("events %d to %d were removed before they were read", after+1, h.First-1)
		}
	case h.First > after+1:
		return &journal.DamagedError{Seq: after + 1, Detail: fmt.Sprintf("it is missing; segment %d begins with event %d", h.Number, h.First)}
	}
	if h.First == after+1 && h.Previous != q.hash {
		return &journal.DamagedError{Seq: h.First, Detail: fmt.Sprintf("segment %d does not follow the one before it", h.Number)}
	}
	return nil
}

// fold begins the state with what held before a segment.
func (q *sequence) fold(h archive.Header) error {
	if q.state == nil {
		return nil
	}
	before, err := h.State()
	if err == nil {
		before.KeepEnded = q.state.KeepEnded
		*q.state = *before
	}
	return err
}

// Jobs gives every job as it stood at a time, once: first those at their end, by the event that
// changed them last, then the others by id. The zero time means now. It reads the history twice and
// takes some ten bytes of memory a job, up to a hundred where ids lie far apart, and more for the
// jobs under way and those that come to an end again. It ends at the first error, which is a
// *RemovedError where the history does not go back so far.
func (r *Reader) Jobs(ctx context.Context, at time.Time) iter.Seq2[journal.Job, error] {
	return func(yield func(journal.Job, error) bool) {
		end, err := uint64(0), error(nil)
		if !at.IsZero() {
			end, err = r.FirstAt(ctx, at.Truncate(time.Microsecond).Add(time.Microsecond))
			if removed, _ := r.Kept(ctx); err == nil && removed != nil && at.Before(removed.Since) {
				err = removed
			}
		}
		var last lastEvents
		if err == nil {
			last, err = r.lastEvents(ctx, end)
			if archive.IsDamage(err) {
				err = nil // it is met again where it matters
			}
		}
		more := true
		q := &sequence{folder: r.folder, sel: archive.Selection{End: end}, state: &journal.State{KeepEnded: true}}
		state := q.state
		if err == nil {
			err = q.read(ctx, func(e *journal.Event) error {
				if job, ok := state.Jobs[e.Job]; ok && job.Status.Ended() && last.of(e.Job) <= e.Seq {
					delete(state.Jobs, e.Job)
					more = job.Status == journal.StatusNone || yield(*job, nil) // a conflict alone makes no job
				}
				if !more {
					return errEnough
				}
				return nil
			})
		}
		if err != nil {
			yield(journal.Job{}, r.folder.Failed("replay", err))
			return
		}
		for _, job := range state.Unfinished() {
			if !more || !yield(job, nil) {
				return
			}
		}
	}
}

// lastEvents has the number of the newest event that may bring a job to its end or change that
// end, for each job, by eight ids: an application counts its ids up.
type lastEvents map[int64][8]uint64

func (l lastEvents) of(job int64) uint64 {
	return l[job>>3][job&7]
}

// lastEvents reads the events before end (0: all), without verifying them.
func (r *Reader) lastEvents(ctx context.Context, end uint64) (lastEvents, error) {
	last := lastEvents{}
	sel := archive.Selection{End: end, Kinds: []journal.Kind{
		journal.KindAccepted, journal.KindIgnored, journal.KindReleased, journal.KindDone, journal.KindCancelled,
		journal.KindRetried, journal.KindPlanned, journal.KindReplanned, journal.KindConflict,
	}}
	err := r.folder.Walk(ctx, 0, func(s archive.Source, h archive.Header) error {
		if sel.End > 0 && h.First >= sel.End {
			return errEnough
		}
		for page, err := range s.Records(ctx, sel) {
			for i := range page {
				eight := last[page[i].Job>>3]
				eight[page[i].Job&7] = page[i].Seq
				last[page[i].Job>>3] = eight
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return last, err
}

// UnderWay gives the jobs that were under way just before a time, by id; before the zero time, and
// before a time that the history does not go back to, those of its first checkpoint. It reads from
// the newest checkpoint before that time on.
func (r *Reader) UnderWay(ctx context.Context, at time.Time) ([]journal.Job, error) {
	end, err := uint64(1), error(nil)
	if !at.IsZero() {
		end, err = r.FirstAt(ctx, at)
	}
	var oldest archive.Header
	if err == nil {
		oldest, err = r.oldest(ctx, end-1)
	}
	state := &journal.State{}
	if first := oldest.First; first > 0 && err == nil {
		q := &sequence{folder: r.folder, sel: archive.Selection{After: first - 1, End: max(end, first)}, state: state}
		err = q.read(ctx, func(*journal.Event) error { return nil })
	}
	return state.Unfinished(), r.folder.Failed("replay", err)
}
