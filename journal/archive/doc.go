// Package archive is what a journal is on the disk: its segments, the head file, and the folder that
// holds them as one row.
//
//	 segment-00000006.zst        segment-00000007.db
//	┌────────┬─────────┐        ┌────────┬─────────────────┐
//	│ Header │ Records │◄───────│ Header │ Records         │
//	└────────┴─────────┘        └────────┴───────────────▲─┘
//	 Sealed, SealWriter          Appender               head
//
// The newest segment is a database (SQLite, write-ahead log, synchronous=FULL), and the only one
// that is written to. Those before it are sealed: compressed, never changed again. Both are read as
// a Source. docs/journal.md describes the bytes; sealed.go draws the sealed file, database_write.go
// has the tables.
//
// A segment opens with a Header: its number, its first sequence number, the last hash of the
// segment before, and a checkpoint, which is all that the fold needs to go on from there. The first
// event's hash covers the header, so the header is a link of the chain like any event. A Record is
// an event as it is stored; Verified gives the events of a source whose hashes and numbers fit, and
// what is wrong between them.
//
// A worker in another process may append, begin segments, seal and remove them while a Folder is
// read. So a listing may be out of date before it is used: Walk, Backward and Visit notice that a
// file is gone and look again. What retention removed is passed over; what is missing otherwise is
// damage.
//
// # The crash argument
//
//   - Killed while a database is made: that is one transaction. Without it there is a file without
//     a header, which is no segment: readers pass over it, and Make may be called again.
//   - Killed within Append: SQLite has all of the records or none. When Append has returned, the
//     write-ahead log is synced.
//   - Killed while a sealed file is written: nothing refers to it yet. Finish returns when its
//     content is durable; its name is its writer's to make final. Where a segment is there in both
//     forms the sealed one counts.
//   - The head file is made and synced before the first event, so a journal with events and without
//     a head is a damaged one. It is written after each commit and before anybody is told, without
//     an fsync. Killed between the two: the journal has more events than the head knows, which is
//     legal. Power cut: it may be older than the journal, never newer. So events that it knows and
//     the journal has not were lost, and are told as such.
//   - Reading changes no file.
package archive
