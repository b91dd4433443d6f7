package replay

import (
	"context"
	"slices"

	"jobd/journal"
	"jobd/journal/segment"
)

// matcher finds the events of one target: of its jobs, by the newest claim before the event, and
// those about the target itself; and those with a result, or asked for by somebody. A nil matcher matches everything. It is to be given every accepted
// event of the jobs it is asked about, in order.
type matcher struct {
	reader *Reader
	target string
	kinds  []journal.Kind
	says   journal.Filter   // of which Result and By count
	claims map[int64]string // the targets of jobs, as of now; "" where there was no claim
}

// maxClaims bounds what a matcher keeps; what is forgotten is looked up again.
const maxClaims = 100_000

func (r *Reader) matcher(f journal.Filter) *matcher {
	if f.Target == "" && f.Result == "" && f.By == "" {
		return nil
	}
	return &matcher{reader: r, target: f.Target, kinds: f.Kinds, says: f, claims: make(map[int64]string)}
}

func (m *matcher) matches(ctx context.Context, r *segment.Record) (bool, error) {
	if m == nil {
		return true, nil
	}
	return m.has(ctx, r.Seq, r.Job, r.Kind, r.DecodePayload)
}

// matchesEvent is matches of an event.
func (m *matcher) matchesEvent(ctx context.Context, e *journal.Event) (bool, error) {
	if m == nil {
		return true, nil
	}
	return m.has(ctx, e.Seq, e.Job, e.Kind(), func() (journal.Payload, error) { return e.Payload, nil })
}

func (m *matcher) has(ctx context.Context, seq uint64, job int64, kind journal.Kind, payload func() (journal.Payload, error)) (bool, error) {
	if m.target != "" {
		if about, err := m.isAbout(ctx, seq, job, kind, payload); err != nil || !about {
			return false, err
		}
	}
	switch {
	case len(m.kinds) > 0 && !slices.Contains(m.kinds, kind), m.says.Result != "" && kind != journal.KindDone:
		return false, nil
	case m.says.Result == "" && m.says.By == "":
		return true, nil
	}
	p, err := payload()
	return err == nil && m.says.Says(p), err
}

func (m *matcher) isAbout(ctx context.Context, seq uint64, job int64, kind journal.Kind, payload func() (journal.Payload, error)) (bool, error) {
	if job == 0 {
		p, err := payload()
		return err == nil && about(p, m.target), err
	}
	target, known := m.claims[job]
	switch {
	case kind == journal.KindAccepted:
		p, err := payload()
		if err != nil {
			return false, err
		}
		target = p.(journal.Accepted).Target
	case kind == journal.KindPlanned: // of a row that nobody has claimed, perhaps
		p, err := payload()
		if err != nil {
			return false, err
		}
		target = p.(journal.Planned).Target
	case !known:
		claim, _, err := m.reader.Claim(ctx, job, seq)
		if err != nil {
			return false, err
		}
		target = claim.Target
	}
	if len(m.claims) >= maxClaims {
		clear(m.claims)
	}
	m.claims[job] = target
	return target == m.target, nil
}

// about reports whether an event of the worker itself is about a target.
func about(p journal.Payload, target string) bool {
	switch p := p.(type) {
	case journal.Opened:
		_, ok := p.Targets[target]
		return ok
	case journal.Paused:
		return slices.Contains(p.Targets, target)
	case journal.Continued:
		return slices.Contains(p.Targets, target)
	case journal.TargetAdded:
		return p.Target == target
	case journal.TargetRemoved:
		return p.Target == target
	case journal.ConcurrencySet:
		return p.Target == target
	}
	return false
}

// Claim gives the newest accepted event of a job before seq; found is false where there is none. It
// looks from the newest segment back.
func (r *Reader) Claim(ctx context.Context, job int64, seq uint64) (claim journal.Accepted, found bool, err error) {
	newest, found, err := r.NewestOf(ctx, job, seq, journal.KindAccepted)
	if found {
		claim, _ = newest.(journal.Accepted)
	}
	return claim, found, err
}

// NewestOf gives what the newest event of a job before seq says that is of one of these kinds; found is
// false where there is none. It looks from the newest segment back.
func (r *Reader) NewestOf(ctx context.Context, job int64, seq uint64, kinds ...journal.Kind) (newest journal.Payload, found bool, err error) {
	if job == 0 {
		return nil, false, nil
	}
	err = r.folder.Backward(ctx, false, func(s segment.Source, h segment.Header) (enough bool, err error) {
		if h.First >= seq {
			return false, nil
		}
		for page, err := range s.Records(ctx, segment.Selection{Job: job, End: seq, Kinds: kinds}) {
			if err != nil {
				return found, err
			}
			if newest, err = page[len(page)-1].DecodePayload(); err != nil {
				return found, err
			}
			found = true
		}
		return found, nil
	})
	return newest, found, err
}
