// Package folder is a journal's folder as readers and verifiers see it: the segments as one row,
// from the oldest that retention has left to the newest, and the head file, which says what was
// acknowledged.
//
// A worker in another process may append, begin segments, seal and remove them meanwhile. So a
// listing may be out of date before it is used: Walk and Visit notice that a file is gone, look
// again, and visit a segment a second time where it was sealed or followed by another. What
// retention removed is passed over; what is missing otherwise is damage.
//
// # The crash argument
//
// Of all files in a folder this package writes the head file only.
//
//   - It is made and synced before the first event, so a journal with events and without a head is
//     a damaged one.
//   - It is written after each commit and before anybody is told, without an fsync. Killed between
//     the two: the journal has more events than the head knows, which is legal.
//   - Power cut: it may be older than the journal, never newer. So events that it knows and the
//     journal has not were lost, and are told as such: a write-ahead log that lost its end reads
//     like a shorter, sound journal.
//   - Where a segment is there in both forms, as a crash between sealing and removing leaves it,
//     the sealed one counts.
package folder
