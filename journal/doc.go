// Package journal is the worker's memory: the vocabulary of what can happen to a job,
// the append-only log on disk, and the fold that gives the state at any moment.
// It knows no table, no socket and no process.
//
// # What is on disk
//
// A journal is a folder with the database segment-00000001.db (SQLite, write-ahead
// log, synchronous=FULL), the file head, and the file lock. The database holds the table
// events, one row an event, which triggers keep append-only, and the mirror's position.
// Sequence numbers have no gap, times never run backwards, and each event's hash covers the
// hash before it, so a changed, lost or inserted event breaks the chain.
//
// # The crash argument
//
// Append returns when its events are in the write-ahead log and the log is synced. At each step:
//
//   - Killed during the first start: the database is made in one transaction, then the head file is made
//     and synced, and only then come events. What is missing is made by the next start; once
//     there is an event, a missing head file is damage.
//   - Killed before the commit: nothing of the append is there. Its caller was told nothing,
//     and had no effect yet, since effects follow appends.
//   - Killed after the commit, before the head file is written: the events are there, and the head
//     is older than the journal. That is legal: the caller was told nothing, and finds its
//     events when the journal is opened.
//   - Killed after the head was written: the events are there. Should they not be, because the
//     log lost its end, the head file tells, and Open refuses the journal.
//   - Power cut: as above, but the head file may be older. It is never newer than what was synced.
//   - Disk full: SQLite rolls the commit back and Append says ErrFull; the state in memory is
//     the one before, because it only follows commits.
//   - A write or an fsync that failed otherwise: what is on disk is not known, so the journal takes nothing
//     more (an fsync that fails once and is then repeated tells nothing). Opening it anew verifies it.
//   - A damaged journal is refused and left as it was found, its write-ahead log included: verification
//     comes before anything is opened for writing.
//   - The mirror's position is written with the next commit. After a crash it may be older than
//     the truth: the mirror then applies some events a second time, which the table's guards make harmless.
//
// The lock is the kernel's (flock), so it does not outlive its holder.
package journal
