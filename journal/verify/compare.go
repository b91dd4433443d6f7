package verify

import (
	"fmt"

	"jobd/journal"
	"jobd/journal/folder"
	"jobd/journal/segment"
)

// rewritten is what is said of events between one that an anchor agrees with and one that it does
// not.
const rewritten = "an anchor knows another history: this is not what was written"

// compare compares an event with what is expected of its number, and passes what is before it.
func (v *verifier) compare(event journal.Anchor) {
	for ; len(v.expected) > 0 && v.expected[0].Seq <= event.Seq; v.expected = v.expected[1:] {
		want := v.expected[0]
		switch {
		case want.Seq < event.Seq || want.Seq == 0:
			continue
		case want.Hash != event.Hash && want.head:
			v.fault(segment.Fault{First: event.Seq, File: folder.HeadFile, Detail: "it is not the event that was acknowledged under this number"})
		case want.Hash != event.Hash:
			v.links.disagrees(event.Seq, rewritten)
			v.fault(segment.Fault{First: event.Seq, Detail: "it is not the event that the anchor knows under this number: the history was rewritten"})
		case !want.head:
			v.compared++
			v.links.agrees(event.Seq)
		}
	}
}

// addDamage takes in what is wrong with the next events.
func (v *verifier) addDamage(f segment.Fault) {
	v.fault(f)
	if f.Surplus || f.Last < f.First {
		return
	}
	v.state = nil
	if f.Linked {
		v.links.sound(f.First)
		v.compare(journal.Anchor{Seq: f.First, Hash: f.Stored})
		v.last, v.other, v.unknown = f.Stored, f.Stored, false
		return
	}
	if len(v.expected) > 0 && v.expected[0].Seq == f.First && !v.expected[0].head &&
		v.expected[0].Hash == f.Computed && f.Computed != f.Stored && v.links.run.first > 0 {
		v.links.agrees(f.First - 1) // only the hash was changed: the event, and all before it, are what the anchor was made of
	}
	v.links.cut()
	v.links.next = f.Last + 1
	v.last, v.other, v.unknown = f.Stored, f.Computed, f.Stored == journal.Hash{} && f.Computed == journal.Hash{}
	for ; len(v.expected) > 0 && v.expected[0].Seq <= f.Last; v.expected = v.expected[1:] {
		want := v.expected[0]
		if want.Seq == f.First && f.Last == f.First && !f.Missing && want.Hash != f.Stored && want.Hash != f.Computed && !want.head {
			v.links.disagrees(want.Seq, rewritten)
		}
	}
}

// addEvent takes in the next event, whose hash is right.
func (v *verifier) addEvent(e *journal.Event) {
	v.links.sound(e.Seq)
	v.last, v.other, v.unknown = e.Hash, e.Hash, false
	if e.Seq == v.header.First {
		v.begun = e.Time
		if v.doubt != nil { // the header that contradicts what is before it is what the events behind it go on from
			v.links.against = append(v.links.against, *v.doubt)
		}
	}
	if v.state != nil {
		if err := v.state.Apply(*e); err != nil {
			v.fault(segment.Fault{First: e.Seq, Last: e.Seq, Err: err, Linked: true})
			v.state = nil
		}
	}
	v.weight += e.Weight()
	if p, ok := e.Payload.(journal.Retention); ok {
		v.addRemoval(e, p)
	}
	if v.waypoint != nil && v.waypoint.anchor.Seq == e.Seq {
		if err := v.waypoint.agrees(e.Hash, v.state); err != nil {
			_ = v.faulty(folder.WaypointFile, err) // it is damage
		}
		v.waypoint = nil
	}
	if len(v.expected) > 0 && v.expected[0].Seq <= e.Seq {
		v.compare(journal.Anchor{Seq: e.Seq, Hash: e.Hash})
	}
}

// addRemoval takes in what an event says of retention, which must be true of the segments that are
// still here.
func (v *verifier) addRemoval(e *journal.Event, p journal.Retention) {
	if end, here := v.ends[p.Last+1]; here && p.Last > 0 && (end.Seq != p.Seq || end.Hash.String() != p.Hash) {
		v.fault(segment.Fault{First: e.Seq, Last: e.Seq, Linked: true, Detail: fmt.Sprintf("it says that segment %d ended with event %d, which is not what it ended with", p.Last, p.Seq)})
		return
	}
	v.removal = v.removal.After(p)
}
