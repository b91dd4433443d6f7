package history

import (
	"context"
	"errors"
	"iter"
	"time"

	"jobd/journal"
	"jobd/journal/replay"
	"jobd/journal/verify"
)

// Verdict is what a verification found.
type Verdict struct {
	Sound      bool      `json:"ok"`
	First      uint64    `json:"first"`  // the first event that was verified: 1, or what retention has left
	Events     uint64    `json:"events"` // the newest event before anything that is damaged or missing
	Time       time.Time `json:"time,omitzero"`
	Hash       string    `json:"hash"`
	Compared   int       `json:"anchors_compared"`
	Unanswered int       `json:"anchors_unanswered"`  // their events were removed by retention
	FirstBad   uint64    `json:"first_bad,omitempty"` // the first event that is wrong, where that can be told
	Error      string    `json:"error,omitempty"`

	Proven   uint64  `json:"proven,omitempty"`           // an anchor proves every event up to this one that is kept
	Unproven uint64  `json:"removed_unproven,omitempty"` // nothing says that retention removed the events up to this one
	Ranges   []Range `json:"ranges,omitempty"`           // all events by number; older workers tell none
	Faults   []Fault `json:"faults,omitempty"`           // what is wrong with files, and what contradicts the events
	More     int     `json:"more,omitempty"`             // how many more of both there are
}

// Audit verifies a journal and compares it with anchors; progress is told now and then which event is verified. Its error is
// about the reading: what is wrong with the journal is in the verdict.
func Audit(ctx context.Context, r *replay.Reader, anchors []journal.Anchor, progress func(seq uint64)) (Verdict, error) {
	audited, err := verify.Audit(ctx, r.Folder(), anchors, progress)
	var damaged *journal.DamagedError
	if err != nil && !errors.As(err, &damaged) {
		return Verdict{}, err
	}
	state := audited.State
	if state == nil {
		state = &journal.State{}
	}
	v := Verdict{
		Sound: err == nil, First: audited.First, Events: state.Seq, Time: state.Time, Hash: state.Hash.String(),
		Compared: audited.Compared, Unanswered: len(audited.Unanswered),
	}
	if err != nil {
		v.Error, v.FirstBad = err.Error(), damaged.Seq
	}
	v.add(audited)
	return v, nil
}

// AuditStep is an item of a verification's stream: how far it is, and at last what it found.
type AuditStep struct {
	Verified uint64   `json:"verified"`
	Verdict  *Verdict `json:"verdict,omitempty"`
}

// AnchorAnswer is the answer to journal-anchor: the newest event's number and hash, and where the history begins.
type AnchorAnswer struct {
	Seq     uint64    `json:"seq"`
	Hash    string    `json:"hash"`
	First   uint64    `json:"first,omitempty"`        // the oldest event that is kept, where retention has removed any
	Removed time.Time `json:"removed_until,omitzero"` // when the newest event happened that was removed
}

// Kept is what the answer says of retention; nil where nothing was removed.
func (a AnchorAnswer) Kept() *journal.RemovedError {
	if a.First == 0 {
		return nil
	}
	return &journal.RemovedError{First: a.First, Since: a.Removed}
}

// Anchor is the answer of a journal.
func Anchor(ctx context.Context, r *replay.Reader) (AnchorAnswer, error) {
	removed, err := r.Kept(ctx)
	if err != nil {
		return AnchorAnswer{}, err
	}
	anchor, err := r.Anchor(ctx)
	answer := AnchorAnswer{Seq: anchor.Seq, Hash: anchor.Hash.String()}
	if removed != nil {
		answer.First, answer.Removed = removed.First, removed.Since
	}
	return answer, err
}

// Range is events that follow each other and of which the same is known.
type Range struct {
	First   uint64         `json:"first"`
	Last    uint64         `json:"last"`
	Verdict verify.Verdict `json:"verdict"`          // proven, consistent, damaged, missing or removed
	Detail  string         `json:"detail,omitempty"` // what is wrong, or who removed it
}

// Fault is something that is wrong with a file, or what shows that a range is not what was written.
type Fault struct {
	Event  uint64 `json:"event,omitempty"` // where it was met; 0 where no event can be named
	File   string `json:"file,omitempty"`  // the file that is damaged, by its name in the folder
	Detail string `json:"detail"`
}

// Bounds of what a verdict lists.
const (
	mostRanges = 1000
	mostFaults = 100
)

// add adds to a verdict what is known range by range.
func (v *Verdict) add(a *verify.Audited) {
	v.Proven, v.Unproven = a.Proven, a.Unproven
	for _, r := range a.Ranges {
		if len(v.Ranges) == mostRanges {
			v.More++
			continue
		}
		v.Ranges = append(v.Ranges, Range{r.First, r.Last, r.Verdict, r.Detail})
	}
	v.More += a.More
	for i := range a.Faults {
		f := &a.Faults[i]
		if f.Last > 0 && f.File == "" {
			continue // its range says so
		}
		if len(v.Faults) == mostFaults {
			v.More++
			continue
		}
		v.Faults = append(v.Faults, Fault{f.First, f.File, f.Text()})
	}
	if v.Sound {
		return
	}
	for _, r := range a.Ranges {
		if r.Verdict == verify.Damaged || r.Verdict == verify.Missing {
			if v.Events = r.First - 1; v.Events != a.State.Seq {
				v.Hash = ""
			}
			return
		}
	}
	if n := len(a.Ranges); n > 0 {
		v.Events = a.Ranges[n-1].Last
	}
}

// read gives the events that a filter selects, and ends at the first error.
type read func(journal.Filter) iter.Seq2[journal.Event, error]

// mostDamages is how many damaged places one query reads past.
const mostDamages = 100

// newest gives the newest f.Last events that can be read, however the journal is damaged among them, and
// then the damage. Events behind a damaged one are still those that were written after it: their hashes
// rest on the one that the damaged event bears. Where all that was wanted is damaged, the newest events
// before that are given.
func (r read) newest(f journal.Filter) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		given := 0
		for e, err := range r.pastDamage(f) {
			if err != nil && given == 0 && damageOf(err) != nil {
				for _, before := range r.lastOf(f) {
					if !yield(before, nil) {
						return
					}
				}
			}
			if given++; !yield(e, err) {
				return
			}
		}
	}
}

// lastOf reads everything that can be read, and keeps the newest f.Last events of it.
func (r read) lastOf(f journal.Filter) []journal.Event {
	wanted := f.Last
	f.Last = 0
	var last []journal.Event
	for e, err := range r.pastDamage(f) {
		if err != nil {
			break
		}
		if last = append(last, e); len(last) >= 2*wanted {
			last = append(last[:0], last[len(last)-wanted:]...)
		}
	}
	return last[max(0, len(last)-wanted):]
}

// pastDamage goes on behind damaged events, and ends with the first error that it met.
func (r read) pastDamage(f journal.Filter) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		var first error
		for range mostDamages {
			var met error
			for e, err := range r(f) {
				if met = err; err == nil && !yield(e, nil) {
					return
				}
			}
			if first == nil {
				first = met
			}
			damage := damageOf(met)
			if damage == nil || damage.Seq <= f.After {
				break
			}
			// What the filter selects behind the damage is among the newest that it selected before.
			f.After, f.Last = max(damage.Seq, damage.Last), 0
		}
		if first != nil {
			yield(journal.Event{}, first)
		}
	}
}

// damageOf is the damage that an error tells of; nil where it tells of another thing.
func damageOf(err error) *journal.DamagedError {
	var damage *journal.DamagedError
	errors.As(err, &damage)
	return damage
}
