package verify

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"jobd/journal"
	"jobd/journal/folder"
	"jobd/journal/segment"
)

// against says what a verification compares with and whom it tells how far it is.
type against struct {
	anchors  []journal.Anchor // heads noted earlier and kept elsewhere, in any order
	progress func(seq uint64) // called now and then with the newest verified event; may be nil
}

// verifier verifies a journal, segment by segment.
type verifier struct {
	folder   *folder.Folder
	against  against
	head     folder.Acknowledgement
	waypoint *waypoint // nil: there is none, or it was passed
	unfit    bool      // there is one that a start could not go on from
	notes    segment.Notes
	examined string           // the database whose definitions were looked at
	live     bool             // there is a newest segment, so this is no archive
	oldest   segment.Header   // what the history begins with
	removal  *journal.Removal // what retention has removed, as the newest event that was verified knows it
	removed  *Range           // the same as a range, once it is known
	unproven uint64

	progress
	before progress               // the same, when the newest segment was begun
	ends   map[int]journal.Anchor // the last event before a segment, by its number

	number    int                // of the newest segment begun; 0: none
	header    segment.Header     // of the newest segment begun
	begun     time.Time          // of its first event
	occurring []segment.JobBlock // where jobs occur in the segment in hand
	weight    int                // of what was verified
}

// progress is how far a verification is.
type progress struct {
	links    links
	expected []expected // what is not passed yet, by sequence number
	compared int
	state    *journal.State // nil: not known, behind damage
	sound    *journal.State // before the first damage; nil: nothing is wrong yet
	last     journal.Hash   // of the newest event, as it is stored
	other    journal.Hash   // as it should be
	unknown  bool           // neither is known
	doubt    *disagreement
	faults   []segment.Fault
	more     int
}

func newVerifier(f *folder.Folder, a against) *verifier {
	return &verifier{folder: f, against: a, ends: map[int]journal.Anchor{}, progress: progress{state: &journal.State{}}}
}

// maxFaults bounds how many faults are told one by one. What is wrong beyond that widens the last
// range.
const maxFaults = 1000

// fault notes something that is wrong.
func (v *verifier) fault(f segment.Fault) {
	if v.sound == nil {
		sound := *v.stateOr()
		v.sound = &sound
	}
	if f.Last == 0 && slices.ContainsFunc(v.faults, func(g segment.Fault) bool { return g.File == f.File && g.Last == 0 && g.Text() == f.Text() }) {
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
	if err = segment.Damaged(err); !errors.As(err, &d) {
		return err
	}
	v.fault(segment.Fault{First: d.Seq, File: file, Detail: d.Detail, Err: d.Err})
	return nil
}

// expected is a hash that an event must have.
type expected struct {
	journal.Anchor
	head bool // it is what the head file says
}

func (v *verifier) reportProgress() {
	if v.against.progress != nil && v.links.next > 0 {
		v.against.progress(v.links.next - 1)
	}
}
