package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
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

	Proven   uint64    `json:"proven,omitempty"`           // an anchor proves every event up to this one that is kept
	Unproven uint64    `json:"removed_unproven,omitempty"` // nothing says that retention removed those up to this one
	Ranges   []Range   `json:"ranges,omitempty"`           // all events by number; older workers tell none
	Faults   []Finding `json:"faults,omitempty"`           // what is wrong with files, and what contradicts the events
	More     int       `json:"more,omitempty"`             // how many more of both there are

	State *journal.State `json:"-"` // after the last event before anything is wrong; without jobs at their end
}

// Finding is something that is wrong with a file, or what shows that a range is not what was written.
type Finding struct {
	Event  uint64 `json:"event,omitempty"` // where it was met; 0 where no event can be named
	File   string `json:"file,omitempty"`  // the file that is damaged, by its name in the folder
	Detail string `json:"detail"`
}

// Bounds of what is listed.
const (
	mostRanges   = 1000
	mostFindings = 100
)

// Audit reads the whole history and checks sequence, hash chain, transitions, times, segments and
// their checkpoints, the head file, the mirror's position, and that the indexes agree with the
// events. It compares the history with anchors, heads noted earlier and kept elsewhere, in any
// order: a history that was cut off, or rewritten with all its hashes, is sound in itself and
// disagrees with them. It goes on behind damage, and tells of every event what is known; a
// *DamagedError says what is wrong first. Where progress is not nil, it is called now and then with
// the newest verified event.
func Audit(ctx context.Context, f *archive.Folder, anchors []journal.Anchor, progress func(seq uint64)) (*Audited, error) {
	v := newVerifier(f)
	v.anchors, v.tell = anchors, progress
	err := v.run(ctx)
	if err == nil {
		err = v.problem()
	}
	err = f.Failed("verify", err)
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
	v.end()
	return ctx.Err()
}

// prepare reads what the history is compared with. Head and position go first: what a worker
// appends while we read must not look missing.
func (v *verifier) prepare(ctx context.Context) (err error) {
	if v.head, err = archive.ReadHead(v.folder.Dir); err != nil {
		return err
	}
	if err := v.faulty(archive.HeadFile, v.head.Damage); err != nil {
		return err
	}
	if v.examined, err = v.folder.NewestDatabase(); err == nil && v.examined != "" {
		newest := archive.Part{Path: v.examined}
		var s archive.Source
		if s, err = newest.Open(); err == nil {
			err = errors.Join(v.examine(ctx, s), s.Close())
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it was sealed meanwhile
		return err
	}
	v.position, v.live, err = v.folder.Position(ctx)
	if err := v.faulty(filepath.Base(v.examined), err); err != nil {
		return err
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
	kept := v.progress
	v.progress = progress{expected: kept.expected, compared: kept.compared, faults: kept.faults, more: kept.more, sound: kept.sound, state: nil}
	v.number = 0
}

// audited is what was found.
func (v *verifier) audited(err error) *Audited {
	state := v.sound
	if state == nil {
		state = v.stateOr()
	}
	a := &Audited{
		Sound: err == nil, First: v.oldest.First, State: state,
		Events: state.Seq, Time: state.Time, Hash: state.Hash.String(),
		Compared: v.compared, Unproven: v.unproven, More: v.more,
	}
	ranges := v.links.ranges(v.oldest.First, v.faults)
	if v.removed != nil && v.removed.Last > 0 {
		ranges = slices.Concat([]Range{*v.removed}, ranges)
	}
	for _, r := range ranges {
		if r.Verdict == Proven {
			a.Proven = r.Last
		} else if r.Verdict != Removed {
			break
		}
	}
	a.Ranges = ranges[:min(len(ranges), mostRanges)]
	a.More += len(ranges) - len(a.Ranges)
	for _, anchor := range v.anchors {
		if anchor.Seq+1 < a.First && v.removed != nil && anchor.Seq <= v.removed.Last {
			a.Unanswered++
		}
	}
	if err != nil {
		a.addFaults(err, v.faults, ranges)
	}
	return a
}

// addFaults says what is wrong, and which events are not affected.
func (a *Audited) addFaults(err error, faults []archive.Fault, ranges []Range) {
	var d *journal.DamagedError
	if a.Error = err.Error(); errors.As(err, &d) {
		a.FirstBad = d.Seq
	}
	for i := range faults {
		f := &faults[i]
		if f.Last > 0 && f.File == "" {
			continue // its range says so
		}
		if len(a.Faults) == mostFindings {
			a.More++
			continue
		}
		a.Faults = append(a.Faults, Finding{f.First, f.File, f.Text()})
	}
	if n := len(ranges); n > 0 {
		a.Events = ranges[n-1].Last
	}
	damaged := func(r Range) bool { return r.Verdict == Damaged || r.Verdict == Missing }
	if i := slices.IndexFunc(ranges, damaged); i >= 0 {
		if a.Events = ranges[i].First - 1; a.Events != a.State.Seq {
			a.Hash = ""
		}
	}
}

// verifier verifies a journal, segment by segment.
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
	removed  *Range           // the same as a range, once it is known
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
	links    links
	expected map[uint64][]expected // what is not passed yet, by sequence number
	compared int
	state    *journal.State // nil: not known, behind damage
	sound    *journal.State // before the first damage; nil: nothing is wrong yet
	last     journal.Hash   // of the newest event, as it is stored
	unknown  bool           // that is not known
	lost     *archive.Fault // damage whose end the next segment tells; nil: there is none
	faults   []archive.Fault
	more     int
}

func newVerifier(f *archive.Folder) *verifier {
	begun := progress{state: &journal.State{}, expected: map[uint64][]expected{}}
	return &verifier{folder: f, ends: map[int]journal.Anchor{}, progress: begun}
}

// maxFaults bounds how many faults are told one by one. What is wrong beyond that widens the last
// range.
const maxFaults = 1000

// broken notes that from here on something is wrong.
func (v *verifier) broken() {
	if v.sound == nil {
		sound := *v.stateOr()
		v.sound = &sound
	}
}

// fault notes something that is wrong.
func (v *verifier) fault(f archive.Fault) {
	v.broken()
	if f.Last == 0 && slices.ContainsFunc(v.faults, func(g archive.Fault) bool { return g.File == f.File && g.Last == 0 && g.Text() == f.Text() }) {
		return // the same file was met by another way
	}
	if len(v.faults) < maxFaults {
		v.faults = append(v.faults, f)
		return
	}
	v.more++
	if last := &v.faults[len(v.faults)-1]; f.Last > 0 {
		if last.Last == 0 {
			last.First = f.First
		}
		last.Missing, last.Last, last.Surplus = false, max(last.Last, f.Last), false
		last.Detail, last.Err = fmt.Sprintf("more than %d places are damaged", maxFaults), nil
	}
}

func (v *verifier) stateOr() *journal.State {
	if v.state != nil {
		return v.state
	}
	return &journal.State{}
}

// problem is the first fault as an error; nil where there is none.
func (v *verifier) problem() error {
	for i := range v.faults {
		return v.faults[i].Damage()
	}
	return nil
}

// faulty notes an error that is about the journal as a fault of a file, and gives back any other.
func (v *verifier) faulty(file string, err error) error {
	var d *journal.DamagedError
	if err = archive.Damaged(err); !errors.As(err, &d) {
		return err
	}
	v.fault(archive.Fault{First: d.Seq, File: file, Detail: d.Detail, Err: d.Err})
	return nil
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

// pass forgets what is expected of events up to one that can't be compared.
func (v *verifier) pass(last uint64) {
	maps.DeleteFunc(v.expected, func(seq uint64, _ []expected) bool { return seq <= last })
}

func (v *verifier) reportProgress() {
	if v.tell != nil && v.links.next > 0 {
		v.tell(v.links.next - 1)
	}
}
