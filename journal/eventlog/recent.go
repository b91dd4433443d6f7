package eventlog

import (
	"jobd/journal"
	"jobd/journal/verify"
)

// Bounds of what is kept in memory for the follower.
const (
	maxRecentEvents = 4096
	maxRecentBytes  = 2 << 20
)

// recent is the end of the journal that the follower has not passed yet, in
// memory, within bounds; beyond them the follower reads from disk.
type recent struct {
	events []journal.Event // within room
	room   []journal.Event
	bytes  int

	since int           // the weight of all events since the last waypoint
	heavy chan struct{} // receives when that is enough for another
}

func (r *recent) add(events []journal.Event) {
	r.makeRoom(len(events))
	for _, e := range events {
		r.events = append(r.events, e)
		r.bytes += e.Weight()
		r.since += e.Weight()
	}
	if r.since >= verify.WaypointWeight {
		r.since = 0
		select {
		case r.heavy <- struct{}{}:
		default:
		}
	}
	for len(r.events) > maxRecentEvents || r.bytes > maxRecentBytes {
		r.shift()
	}
}

// makeRoom makes room for n more where there is none: by moving what is kept to the front, mostly,
// so that events which come and go leave nothing to collect.
func (r *recent) makeRoom(n int) {
	if len(r.events)+n <= cap(r.events) {
		return
	}
	n += len(r.events)
	if room := len(r.room); room < n+n/2 || room > max(8*n, 256) {
		r.room = make([]journal.Event, 2*n)
	}
	kept := copy(r.room, r.events)
	clear(r.room[kept:])
	r.events = r.room[:kept]
}

// drop forgets everything up to seq.
func (r *recent) drop(seq uint64) {
	for len(r.events) > 0 && r.events[0].Seq <= seq {
		r.shift()
	}
}

func (r *recent) shift() {
	r.bytes -= r.events[0].Weight()
	r.events[0] = journal.Event{} // lets go of its output
	r.events = r.events[1:]
}

// after gives the events behind seq, none where the oldest of them are not kept.
func (r *recent) after(seq uint64, limit int) []journal.Event {
	if len(r.events) == 0 || r.events[0].Seq > seq+1 {
		return nil
	}
	first := int(seq + 1 - r.events[0].Seq)
	last := min(first+limit, len(r.events))
	return append([]journal.Event(nil), r.events[first:last]...)
}
