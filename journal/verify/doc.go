// Package verify judges a journal: whether all that was appended is there and as it was written,
// event by event and file by file, and how far that is proven by anchors, hashes that were kept
// where whoever can change the folder cannot reach.
//
// Audit reads the whole history, goes on behind damage, and gives a verdict of each range of
// events. Newest checks what a worker's start relies on, in a time that does not grow with the
// journal; Sound is the same for somebody who only asks. Segment checks one segment, as whoever
// seals it does.
//
// # The crash argument
//
// A verification changes nothing. The one file that this package writes is the waypoint, the state
// after some event of the newest segment, so that a start folds and verifies the events behind it
// only.
//
//   - It is written beside the appends, for events that are durable already, to a file of its own:
//     partial, synced, renamed. Killed at any point, there is the one before, which is as true, or
//     the new one.
//   - Power cut: the same. It is never newer than the events; the head file may be older than it.
//   - A roll-over makes it void, since it names its segment's header; the new segment's checkpoint
//     takes its place.
//   - Where it is missing, unreadable or of no event that is there, a start verifies the whole
//     segment, and removes it.
//   - A change of events before it is not seen by the start. Audit finds it, and so does sealing,
//     which verifies the whole segment. A forged state is found by the same two, since the next
//     segment's checkpoint goes back to it.
package verify
