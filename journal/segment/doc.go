// Package segment is one file of a journal: its format, its hash chain, reading and writing it.
//
// The newest segment of a journal is a database, segment-00000007.db (SQLite, write-ahead log,
// synchronous=FULL), and the only one that is written to: see Appender. Those before it are sealed:
// segment-00000006.zst, compressed, never changed again: see SealWriter and Sealed. Both are read
// as a Source. docs/journal.md describes the bytes.
//
// A segment opens with a Header: its number, its first sequence number, the last hash of the
// segment before, and a checkpoint, which is all that the fold needs to go on from there. The first
// event's hash covers the header, so the header is a link of the chain like any event. A Record is
// an event as it is stored; Verified gives the events of a source whose hashes and numbers fit, and
// what is wrong between them.
//
// # The crash argument
//
//   - Killed while a database is made: that is one transaction. Without it there is a file without
//     a header, which is no segment: readers pass over it, and Make may be called again.
//   - Killed within Append: SQLite has all of the records or none. When Append has returned, the
//     write-ahead log is synced.
//   - Killed while a sealed file is written: nothing refers to it yet; the file has no end and is
//     no segment. Finish returns when its content is durable. Its name is its writer's to make
//     final.
//   - A database that nobody writes is read as it is, its write-ahead log too; reading changes no
//     file.
package segment
