package verify

import (
	"fmt"
	"path/filepath"

	"jobd/journal/folder"
	"jobd/journal/segment"
)

// known is the newest event that anything knows of, whether or not it is there.
func (v *verifier) known() uint64 {
	seq := max(v.head.Seq, v.notes.Position)
	if v.waypoint != nil {
		seq = max(seq, v.waypoint.anchor.Seq)
	}
	if n := len(v.expected); n > 0 {
		seq = max(seq, v.expected[n-1].Seq)
	}
	return seq
}

// end compares beginning and end of the history with what is known of them from elsewhere.
func (v *verifier) end() {
	v.atEnd()
	if v.number > 0 {
		v.atBeginning()
	}
	if v.live && v.removal != nil && v.notes.Kept > v.removal.Segment+1 {
		v.fault(segment.Fault{File: filepath.Base(segment.DatabasePath("", v.number)), Detail: fmt.Sprintf(
			"it notes that the history begins with segment %d, and no event says that retention removed those from %d on", v.notes.Kept, v.removal.Segment+1)})
	}
}

// atEnd compares the end.
func (v *verifier) atEnd() {
	end := max(v.links.next, 1) - 1
	lost := func(last uint64, file, format string) {
		if last > end {
			v.fault(segment.Fault{First: end + 1, Last: last, Missing: true, File: file, Detail: fmt.Sprintf(format, last, end)})
		}
	}
	if v.live && !v.head.Found && end > 0 {
		v.fault(segment.Fault{File: folder.HeadFile, Detail: folder.DetailNoHead})
	}
	if v.head.Found {
		lost(v.head.Seq, "", folder.DetailCut)
	}
	if !v.live && v.head.Seq <= end && (v.head.Found || folder.UsedByWorker(v.folder.Dir)) {
		v.fault(segment.Fault{First: end + 1, Detail: folder.DetailAllSealed})
	}
	if v.waypoint != nil {
		lost(v.waypoint.anchor.Seq, "", "the waypoint file knows event %d, the journal ends at %d")
	}
	lost(v.notes.Position, "", "the jobs table shows event %d, the journal ends at %d")
	if n := len(v.expected); n > 0 && !v.expected[n-1].head {
		lost(v.expected[n-1].Seq, "", "an anchor knows event %d, the journal ends at %d")
	}
}

// atBeginning asks whether retention has removed what is not there.
func (v *verifier) atBeginning() {
	oldest := v.oldest
	lacks := folder.LacksBefore(oldest, v.removal, v.notes, v.live)
	if lacks != nil {
		v.fault(*lacks)
	}
	if v.removal == nil {
		if lacks == nil {
			v.atNotedBeginning()
		}
		return
	}
	if v.removal.Segment == 0 || oldest.Number == 1 {
		return
	}
	last := min(v.removal.Seq, oldest.First-1)
	v.removed = &Range{First: 1, Last: last, Verdict: Removed, Detail: "by retention"}
	if v.removal.Noted > 0 {
		v.removed.Detail = fmt.Sprintf("by retention, segments up to %d before that was journalled: only a note said so", v.removal.Noted)
		v.unproven = v.ends[v.removal.Noted+1].Seq
		if v.unproven == 0 {
			v.unproven = last
		}
	}
}

// atNotedBeginning is atBeginning of a journal that only versions wrote which noted what they
// removed, and did not journal it. The note can be edited, so it proves nothing; that is told, and
// is no damage. The next start of a worker journals it, and bounds it so.
func (v *verifier) atNotedBeginning() {
	oldest := v.oldest
	if oldest.Number == 1 || oldest.First == 1 {
		return
	}
	v.unproven = oldest.First - 1
	v.removed = &Range{First: 1, Last: oldest.First - 1, Verdict: Removed, Detail: "before removals were journalled: only a note says so"}
	if !v.live {
		v.removed.Detail = "before removals were journalled: nothing here says so"
	}
}
