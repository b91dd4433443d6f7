package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"jobd/journal"
	"jobd/journal/archive"
)

// Audited is what a verification found.
type Audited struct {
	Sound      bool      `json:"ok"`
	First      uint64    `json:"first"`  // the first event that was verified: 1, or what retention has left
	Events     uint64    `json:"events"` // the newest event before anything that is damaged or missing
	Time       time.Time `json:"time,omitzero"`
	Hash       string    `json:"hash"`
	Compared   int       `json:"anchors_compared"`    // how many anchors agree
	Unanswered int       `json:"anchors_unanswered"`  // their events were removed by retention
	FirstBad   uint64    `json:"first_bad,omitempty"` // the first event that is wrong, where that can be told
	Error      string    `json:"error,omitempty"`

	Proven   uint64 `json:"proven,omitempty"`           // an anchor proves every event up to this one that is kept
	Unproven uint64 `json:"removed_unproven,omitempty"` // nothing says that retention removed those up to this one

	State *journal.State `json:"-"` // before anything that is wrong; without jobs at their end
}

// Audit reads the whole history and checks sequence, hash chain, transitions, times, segments and
// their checkpoints, the head file, the mirror's position, and that the indexes agree with the
// events. It compares the history with anchors, heads noted earlier and kept elsewhere, in any
// order: a history that was cut off, or rewritten with all its hashes, is sound in itself and
// disagrees with them. A *DamagedError says what is wrong first, and the verification ends with it. Where
// progress is not nil, it is called now and then with the newest verified event.
func Audit(ctx context.Context, f *archive.Folder, anchors []journal.Anchor, progress func(seq uint64)) (*Audited, error) {
	v := newVerifier(f)
	v.anchors, v.tell = anchors, progress
	err := f.Failed("verify", v.run(ctx))
	return v.audited(err), err
}

func (v *verifier) run(ctx context.Context) (err error) {
	if err := v.prepare(ctx); err != nil {
		return err
	}
	err = v.folder.Each(ctx, 0, func(p archive.Part) error { return v.part(ctx, p) })
	if err != nil {
		return err
	}
	if err := v.atEnd(); err != nil {
		return err
	}
	if err := v.atBeginning(); err != nil {
		return err
	}
	return ctx.Err()
}

// prepare reads what the history is compared with. Head and position go first: what a worker
// appends while we read must not look missing.
func (v *verifier) prepare(ctx context.Context) (err error) {
	if v.head, err = archive.ReadHead(v.folder.Dir); err != nil {
		return err
	}
	if v.head.Damage != nil {
		return v.head.Damage
	}
	if v.examined, err = v.folder.NewestDatabase(); err == nil && v.examined != "" {
		newest := archive.Part{Path: v.examined}
		var s archive.Source
		if s, err = newest.Open(); err == nil {
			err = cmp.Or(examine(ctx, s), s.Close())
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it was sealed meanwhile
		return err
	}
	v.position, v.live, err = v.folder.Position(ctx)
	if err != nil {
		return about(filepath.Base(v.examined), err)
	}
	for _, anchor := range v.anchors {
		v.expect(expected{anchor, false})
		v.newest = max(v.newest, anchor.Seq)
	}
	if v.head.Found {
		v.expect(expected{journal.Anchor{Seq: v.head.Seq, Hash: v.head.Hash}, true})
	}
	return nil
}

// restart forgets what was verified: retention has removed it meanwhile, and the history begins
// later.
func (v *verifier) restart() {
	v.progress = progress{expected: v.expected, compared: v.compared, state: &journal.State{}}
	v.number = 0
}

// audited is what was found.
func (v *verifier) audited(err error) *Audited {
	a := &Audited{
		Sound: err == nil, First: v.oldest.First, State: v.state,
		Events: v.state.Seq, Time: v.state.Time, Hash: v.state.Hash.String(),
		Compared: v.compared, Unproven: v.unproven,
	}
	if v.proven >= a.First {
		a.Proven = v.proven
	}
	for _, anchor := range v.anchors {
		if anchor.Seq+1 < a.First && anchor.Seq <= v.removed {
			a.Unanswered++
		}
	}
	if err == nil {
		return a
	}
	var d *journal.DamagedError
	if a.Error = err.Error(); errors.As(err, &d) {
		a.FirstBad = d.Seq
	}
	sound := a.Events
	if a.FirstBad > 0 {
		sound = min(sound, a.FirstBad-1)
	}
	if v.doubtful {
		sound = min(sound, v.proven)
	}
	if sound != a.Events {
		a.Events, a.Hash = sound, ""
	}
	return a
}

// verifier verifies a journal, segment by segment, up to the first thing that is wrong.
type verifier struct {
	folder   *archive.Folder
	anchors  []journal.Anchor // heads noted earlier and kept elsewhere, in any order
	newest   uint64           // the newest event that an anchor knows
	tell     func(seq uint64) // called now and then with the newest verified event; may be nil
	head     archive.Acknowledgement
	position uint64           // the newest event that the jobs table is known to show
	examined string           // the database whose definitions were looked at
	live     bool             // there is a newest segment, so this is no archive
	oldest   archive.Header   // what the history begins with
	removal  *journal.Removal // what retention has removed, as the newest event that was verified knows it
	removed  uint64           // the newest event that retention has removed
	unproven uint64

	progress
	before progress               // the same, when the newest segment was begun
	ends   map[int]journal.Anchor // the last event before a segment, by its number

	number    int                // of the newest segment begun; 0: none
	header    archive.Header     // of the newest segment begun
	begun     time.Time          // of its first event
	occurring []archive.JobBlock // where jobs occur in the segment in hand
}

// progress is how far a verification is.
type progress struct {
	next     uint64                // the number of the next event; 0: nothing is known yet
	expected map[uint64][]expected // hashes of events that were not met yet, by sequence number
	compared int
	proven   uint64         // the newest event that an anchor agrees with
	doubtful bool           // somebody knows events behind that otherwise
	state    *journal.State // after the events so far
	last     journal.Hash   // of the newest event
}

func newVerifier(f *archive.Folder) *verifier {
	begun := progress{state: &journal.State{}, expected: map[uint64][]expected{}}
	return &verifier{folder: f, ends: map[int]journal.Anchor{}, progress: begun}
}

// about names the file that an error is about, where that is damaged.
func about(file string, err error) error {
	var d *journal.DamagedError
	if err = archive.Damaged(err); !errors.As(err, &d) {
		return err
	}
	detail := file
	if d.Detail != "" {
		detail += ": " + d.Detail
	}
	return &journal.DamagedError{Seq: d.Seq, Last: d.Last, Detail: detail, Err: d.Err}
}

// damaged is what is wrong with an event.
func damaged(seq uint64, format string, args ...any) error {
	return &journal.DamagedError{Seq: seq, Detail: fmt.Sprintf(format, args...)}
}

// expected is a hash that an event must have.
type expected struct {
	journal.Anchor
	head bool // it is what the head file says
}

// expect has an event compared with a hash. There is no event 0.
func (v *verifier) expect(e expected) {
	if e.Seq > 0 {
		v.expected[e.Seq] = append(v.expected[e.Seq], e)
	}
}

func (v *verifier) reportProgress() {
	if v.tell != nil && v.next > 0 {
		v.tell(v.next - 1)
	}
}
