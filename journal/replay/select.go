package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
)

// Events gives the selected events, oldest first. It ends at the first error: the events that it gave
// before are sound. With Last it gives the newest events that can be read, passes over damage among them,
// and reports the damage at the end. A job's output is left out unless the filter asks for it.
func (r *Reader) Events(ctx context.Context, f journal.Filter) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		give := func(e *journal.Event) error {
			if done, ok := e.Payload.(journal.Done); ok && !f.Output {
				done.Stdout.Kept, done.Stderr.Kept = nil, nil
				e.Payload = done
			}
			if !yield(*e, nil) {
				return errStopped
			}
			return nil
		}
		sel, err := r.resolve(ctx, f)
		switch {
		case err != nil:
		case f.Last > 0:
			err = r.newest(ctx, sel, f, give)
		default:
			err = r.selected(ctx, sel, f, give)
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(journal.Event{}, r.folder.Failed("read", err))
		}
	}
}

// errStopped says that who reads wants no more.
var errStopped = errors.New("stopped")

// selected gives the events of a selection that match the filter: those that are wanted were found to.
func (r *Reader) selected(
	ctx context.Context, sel archive.Selection, f journal.Filter, give func(*journal.Event) error,
) error {
	m, q := r.matcher(f), &sequence{folder: r.folder, sel: sel}
	return q.read(ctx, func(e *journal.Event) error {
		if sel.Wanted != nil {
			return give(e)
		}
		if ok, err := m.matches(ctx, e); err != nil || !ok {
			return err
		}
		return give(e)
	})
}

// mostDamages is how many damaged places are read past.
const mostDamages = 100

// newest gives the newest f.Last events of a selection and then the damage that was met first. Events
// behind a damaged one are still those that were written after it: their hashes rest on the one that
// the damaged event bears.
func (r *Reader) newest(
	ctx context.Context, sel archive.Selection, f journal.Filter, give func(*journal.Event) error,
) error {
	narrow, lost, err := r.narrow(ctx, sel, f)
	if err != nil {
		return err
	}
	var last []journal.Event // where damage kept narrow from counting them
	met, err := r.pastDamage(ctx, narrow, f, func(e *journal.Event) error {
		if lost == nil {
			return give(e)
		}
		if last = append(last, *e); len(last) >= 2*f.Last {
			last = append(last[:0], last[f.Last:]...)
		}
		return nil
	})
	for i := max(0, len(last)-f.Last); i < len(last) && err == nil; i++ {
		err = give(&last[i])
	}
	return cmp.Or(err, met, lost)
}

// pastDamage is selected, but goes on behind damage, of which met is what it met first.
func (r *Reader) pastDamage(
	ctx context.Context, sel archive.Selection, f journal.Filter, give func(*journal.Event) error,
) (met, err error) {
	for range mostDamages {
		err := r.selected(ctx, sel, f, give)
		var damage *journal.DamagedError
		if !errors.As(err, &damage) {
			return met, err
		}
		if met = cmp.Or(met, err); damage.Seq <= sel.After {
			break
		}
		sel.After = max(damage.Seq, damage.Last)
	}
	return met, nil
}

// resolve puts times into sequence numbers.
func (r *Reader) resolve(ctx context.Context, f journal.Filter) (sel archive.Selection, err error) {
	sel = archive.Selection{After: f.After, Job: f.Job, Kinds: f.Kinds}
	if f.After > 0 {
		if err := r.reaches(ctx, f.After); err != nil {
			return sel, err
		}
	}
	if f.Result != "" && len(f.Kinds) == 0 {
		sel.Kinds = []journal.Kind{journal.KindDone}
	}
	if f.By != "" && len(f.Kinds) == 0 {
		sel.Kinds = journal.KindsAskedFor()
	}
	if (f.Target != "" || f.Has != nil) && len(sel.Kinds) > 0 {
		sel.Kinds = append(slices.Clone(sel.Kinds), journal.KindAccepted) // which say whose target the others are
	}
	if !f.Since.IsZero() {
		var since uint64
		since, err = r.FirstAt(ctx, f.Since)
		sel.After = max(sel.After, max(since, 1)-1)
	}
	if err == nil && !f.Until.IsZero() {
		sel.End, err = r.FirstAt(ctx, f.Until)
	}
	return sel, err
}

// FirstAt is the sequence number of the first event at or after a time; one after the newest where
// there is none. It looks from the newest segment back, so that older ones matter only where they
// are needed.
func (r *Reader) FirstAt(ctx context.Context, at time.Time) (seq uint64, err error) {
	micros := at.Add(time.Microsecond - 1).UnixMicro() // rounded up: events have whole ones
	err = r.folder.Backward(ctx, false, func(s archive.Source, h archive.Header) (enough bool, err error) {
		if b, sealed := s.Bounds(); sealed && b.Begun >= micros {
			seq = h.First
			return false, nil
		}
		seq, err = archive.FirstAt(ctx, s, h, micros)
		return seq > h.First, err // then there are events before the time
	})
	return max(seq, 1), err
}

// firstWindow is how many events are looked at first where the newest that match are wanted: most often they are
// among them. Those of a job are found by index, in fewer windows.
const (
	firstWindow = 1000
	ofJob       = 8 // times as large is each next one then
)

// narrow narrows a selection to the newest events that it and the filter select now, as many as the
// filter wants. It looks at them from the newest back, in windows that grow, unverified. Where
// damage is in the way lost says so: the events behind it can be read.
func (r *Reader) narrow(ctx context.Context, sel archive.Selection, f journal.Filter) (_ archive.Selection, lost, err error) {
	newest, err := r.folder.Newest(ctx)
	if err == nil && (sel.End == 0 || sel.End > newest.Seq+1) {
		sel.End = newest.Seq + 1
	}
	if err != nil && !archive.IsDamage(err) {
		return sel, nil, err
	}
	var found []uint64
	end := sel.End // what is from here on was looked at
	err = r.folder.Backward(ctx, false, func(s archive.Source, h archive.Header) (enough bool, err error) {
		if last, _, err := s.End(ctx); err != nil || last > 0 && last+1 < end {
			return false, cmp.Or(err, error(&journal.DamagedError{Seq: last + 1, Detail: "it is missing"}))
		}
		first := max(h.First, sel.After+1)
		length, growth := uint64(firstWindow), uint64(2)
		if f.Job != 0 {
			growth = ofJob
		}
		for ; end > first && len(found) < f.Last; length *= growth {
			begin := first
			if end > first+length {
				begin = end - length
			}
			window := archive.Selection{After: begin - 1, End: end, Job: sel.Job, Kinds: sel.Kinds}
			here, err := r.matching(ctx, s, window, f)
			if archive.IsDamage(err) {
				lost, err = cmp.Or(lost, err), nil
			}
			if err != nil {
				return false, err
			}
			if found, end = append(here, found...), begin; len(found) > 0 {
				growth = 2
			}
		}
		return len(found) >= f.Last || h.First <= sel.After+1, nil
	})
	if archive.IsDamage(err) {
		lost, err = cmp.Or(lost, err), nil
	}
	if len(found) > 0 {
		found = found[max(0, len(found)-f.Last):]
		if sel.After = found[0] - 1; lost == nil {
			sel.Wanted = found
		}
	} else if lost == nil {
		sel.After = max(sel.After+1, sel.End) - 1
	}
	return sel, lost, err
}

// matching gives the numbers of the events of a segment that are selected and match, up to damage.
func (r *Reader) matching(ctx context.Context, s archive.Source, sel archive.Selection, f journal.Filter) (seqs []uint64, err error) {
	m := r.matcher(f)
	for page, err := range s.Records(ctx, sel) {
		if err != nil {
			return seqs, err
		}
		for i := range page {
			ok, err := m.has(ctx, &page[i])
			if err == nil && ok && !json.Valid(page[i].Payload) { // an older one is given in its place
				_, err = page[i].Decode()
			}
			if err != nil {
				return seqs, err
			}
			if ok {
				seqs = append(seqs, page[i].Seq)
			}
		}
	}
	return seqs, nil
}

// matcher finds the events that a filter selects whatever their number, time and job. Those of one
// target are the events of its jobs, by the newest claim before the event, and those about the target
// itself. Callers give it every accepted event of the jobs that they ask about, in order.
type matcher struct {
	journal.Filter
	reader *Reader
	claims map[int64]string // the targets of jobs, as of now; "" where there was no claim
	back   bool             // what was claimed a while before is among them
}

// maxClaims bounds what a matcher keeps; what is forgotten is looked up again.
const maxClaims = 100_000

func (r *Reader) matcher(f journal.Filter) *matcher {
	return &matcher{Filter: f, reader: r, claims: make(map[int64]string)}
}

// has tells whether the event of a record matches, which is decoded where that takes more than its kind and its job.
func (m *matcher) has(ctx context.Context, r *archive.Record) (bool, error) {
	wanted := len(m.Kinds) == 0 || slices.Contains(m.Kinds, r.Kind)
	if m.Target == "" && m.Has == nil && (!wanted || m.Result == "" && m.By == "") {
		return wanted, nil
	}
	if target, known := m.claims[r.Job]; known && r.Kind != journal.KindAccepted && r.Kind != journal.KindPlanned {
		if says := m.Result != "" || m.By != ""; !wanted || !says || !m.selects(target) {
			return wanted && m.selects(target), nil
		}
	}
	e, err := r.Decode()
	if err != nil {
		return false, err
	}
	return m.matches(ctx, &e)
}

func (m *matcher) matches(ctx context.Context, e *journal.Event) (bool, error) {
	if m.Target != "" || m.Has != nil {
		if about, err := m.isAbout(ctx, e); err != nil || !about {
			return false, err
		}
	}
	return (len(m.Kinds) == 0 || slices.Contains(m.Kinds, e.Kind())) && m.Says(e.Payload), nil
}

func (m *matcher) isAbout(ctx context.Context, e *journal.Event) (bool, error) {
	if e.Job == 0 {
		return about(e.Payload, m.Filter), nil
	}
	target, known := m.claims[e.Job]
	if p, is := e.Payload.(journal.Ignored); is && p.Target != "" {
		target, known = p.Target, true
	}
	switch p := e.Payload.(type) {
	case journal.Accepted:
		target = p.Target
	case journal.Planned: // of a row that nobody has claimed, perhaps
		target = p.Target
	default:
		if known {
			break
		}
		if err := m.lookBack(ctx, e.Seq); err != nil {
			return false, err
		}
		if target, known = m.claims[e.Job]; known {
			break
		}
		newest, _, err := m.reader.NewestOf(ctx, e.Job, e.Seq, journal.KindAccepted)
		if err != nil {
			return false, err
		}
		claim, _ := newest.Payload.(journal.Accepted)
		target = claim.Target
	}
	if len(m.claims) >= maxClaims {
		clear(m.claims)
	}
	m.claims[e.Job] = target
	return m.selects(target), nil
}

// selects tells whether events of a target's jobs are wanted.
func (m *matcher) selects(target string) bool {
	return (m.Target == "" || target == m.Target) && (m.Has == nil || m.Has(target))
}

// lookBack notes, once, the claims of a while before the first event whose job is not known: those of the jobs
// that were under way then, each of which would be looked up by itself.
func (m *matcher) lookBack(ctx context.Context, seq uint64) error {
	if m.back {
		return nil
	}
	m.back = true
	from := max(seq, 4*firstWindow) - 4*firstWindow
	err := m.reader.folder.Backward(ctx, false, func(s archive.Source, h archive.Header) (enough bool, err error) {
		before := map[int64]string{}
		for page, err := range s.Records(ctx, archive.Selection{After: from, End: seq, Kinds: []journal.Kind{journal.KindAccepted}}) {
			for i := range page {
				if e, err := page[i].Decode(); err == nil {
					before[e.Job] = e.Payload.(journal.Accepted).Target
				}
			}
			if err != nil {
				return false, err
			}
		}
		for job, target := range before {
			if _, known := m.claims[job]; !known {
				m.claims[job] = target
			}
		}
		return h.First <= from+1, nil
	})
	if archive.IsDamage(err) { // of which they tell who need what is there
		return nil
	}
	return err
}

// about reports whether an event of the worker itself is about targets that a filter selects.
func about(p journal.Payload, f journal.Filter) bool {
	var targets []string
	switch p := p.(type) {
	case journal.Opened:
		targets = slices.Collect(maps.Keys(p.Targets))
	case journal.Paused:
		targets = p.Targets
	case journal.Continued:
		targets = p.Targets
	case journal.Registered:
		targets = p.Targets
	case journal.TargetAdded:
		targets = []string{p.Target}
	case journal.TargetRemoved:
		targets = []string{p.Target}
	case journal.ConcurrencySet:
		targets = []string{p.Target}
	}
	foreign := func(target string) bool { return f.Has != nil && !f.Has(target) }
	return len(targets) > 0 && (f.Target == "" || slices.Contains(targets, f.Target)) && !slices.ContainsFunc(targets, foreign)
}

// NewestOf gives the newest event of a job before seq that is of one of these kinds, without output;
// found is false where there is none. It looks from the newest segment back.
func (r *Reader) NewestOf(ctx context.Context, job int64, seq uint64, kinds ...journal.Kind) (newest journal.Event, found bool, err error) {
	if job == 0 {
		return newest, false, nil
	}
	err = r.folder.Backward(ctx, false, func(s archive.Source, h archive.Header) (enough bool, err error) {
		if h.First >= seq {
			return false, nil
		}
		for _, after := range []uint64{max(seq, firstWindow) - firstWindow, 0} { // most often it is a moment ago
			for page, err := range s.Records(ctx, archive.Selection{Job: job, After: after, End: seq, Kinds: kinds}) {
				if err != nil {
					return found, err
				}
				if newest, err = page[len(page)-1].Decode(); err != nil {
					return found, err
				}
				found = true
			}
			if found {
				break
			}
		}
		return found, nil
	})
	return newest, found, err
}
