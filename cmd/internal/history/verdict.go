package history

import (
	"context"
	"errors"
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

	Proven   uint64         `json:"proven,omitempty"`           // an anchor proves every event up to this one that is kept
	Unproven uint64         `json:"removed_unproven,omitempty"` // nothing says that retention removed the events up to this one
	Ranges   []verify.Range `json:"ranges,omitempty"`           // all events by number; older workers tell none
	Faults   []Fault        `json:"faults,omitempty"`           // what is wrong with files, and what contradicts the events
	More     int            `json:"more,omitempty"`             // how many more of both there are
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
	v.Ranges = a.Ranges[:min(len(a.Ranges), mostRanges)]
	v.More = a.More + len(a.Ranges) - len(v.Ranges)
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
