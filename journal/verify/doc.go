// Package verify judges a journal: whether all that was appended is there and as it was written,
// event by event and file by file, and how far that is proven by anchors, hashes that were kept out
// of reach of everybody who can change the folder.
//
// Audit reads the whole history up to the first damage, and says how far it is sound, and proven.
// Newest checks what a worker's start relies on, the newest segment, in a time that does not grow
// with the journal; Sound is the same for somebody who only asks. Segment checks one segment, as
// sealing does. A verification changes nothing.
package verify
