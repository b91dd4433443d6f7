// Package eventlog is the log that a worker writes: opening it, appending to it, beginning and
// sealing segments, what retention removes, and the room on its disk.
//
// There is one writer at a time, which holds the folder's lock. Append is group commit: one
// transaction and one fsync for all who append at the same time. Next gives what was appended to
// the mirror, from memory or from disk. Maintain, which Run calls when it is due, seals what is
// behind the newest segment, and archives or removes what is old and mirrored.
//
// # The crash argument
//
// Append returns when its events are in the write-ahead log and the log is synced. At each step:
//
//   - Killed during the first start: the database is made in one transaction, then the head file is
//     made and synced, and only then come events. What is missing is made by the next start; once
//     there is an event, a missing head file is damage.
//   - Killed before the commit: nothing of the append is there. Its caller was told nothing,
//     and had no effect yet, since effects follow appends.
//   - Killed after the commit, before the head file is written: the head is older than the journal,
//     which is legal. The caller was told nothing, and finds its events when the journal is opened.
//   - Killed after the head was written: the events are there. Where the log has lost its end, the
//     head file tells, and Open refuses the journal.
//   - Power cut: as above, but the head file may be older. It is never newer than what was synced.
//   - Disk full: SQLite rolls the commit back and Append says ErrFull; the state in memory is
//     the one before, because it only follows commits.
//   - A write or an fsync that failed otherwise: what is on disk is not known, so the journal takes
//     nothing more (an fsync that fails once and is then repeated tells nothing). Opening it anew
//     verifies it.
//   - A damaged journal is refused and left as it was found, its write-ahead log included:
//     verification comes before anything is opened for writing.
//   - The mirror's position is written with a commit, ten times a second. After a crash it may be
//     older than the truth: the mirror then applies some events a second time, which the table's
//     guards make harmless.
//
// Roll-over is the leader's, between two commits, so nobody appends meanwhile. Which segment counts
// is decided by one transaction: a database without a header is not there.
//
//   - Killed before that transaction: there is an empty database, which readers pass over and Open
//     removes. The segment before is still the newest.
//   - Killed after it: the new segment is the newest, the one before is never written to again. Its
//     last event was durable before, and the header names its hash: there is no gap and no fork.
//   - Power cut: the new file's name is synced before anything in it is acknowledged. Should the
//     name be lost, so is only a header, and the segment before counts.
//   - Disk full: the transaction is rolled back, the empty database is removed, and the journal
//     goes on in the old segment; it tries again a minute later. Any other failure ends the
//     journal, as that of an append does.
//
// Maintain seals, archives and removes, beside the appends. Each of its steps may be the last one,
// and is taken up again by the next Maintain, which Run calls each minute:
//
//   - Sealing writes segment-N.partial, syncs it, reads it back and verifies it whole: every hash,
//     every transition, the index, and the checkpoint that follows. Killed here: the partial file
//     is begun anew. Disk full: likewise; the database still counts.
//   - It is then renamed to segment-N.zst and the folder is synced: from here on it counts, and the
//     database beside it does not. Killed here: the sealed file is verified once more. The database
//     goes before its emptied log: no reader meets a database without its log.
//   - Retention archives first: copied, synced, compared, renamed, the folder synced, for all that it
//     removes. Then one retention event, durable, says which segments go, with the number and the
//     hash of the newest event in them. Only then are the files removed, the oldest first, and the
//     folder synced after each.
//   - Killed before the event, or disk full: copies may be in the archive, and are compared and taken
//     next time. The history is whole.
//   - Killed behind it: files are there that the history says are gone. They are as good as ever,
//     and are removed next time, without another event.
//   - Checkpoints carry on what the event says, so that it outlives its segment. What is missing
//     without such an event was not removed by the journal.
//   - A journal of an older version, which journalled no removal, gets one such event by its first
//     Maintain, about all that is missing then.
//   - Only what the mirror is durably past is removed, and never the newest segment.
//
// Ages go by a time line that moves on with the boot clock, since the wall clock may be set. The
// clock file keeps it across restarts: within a boot by the boot clock, else by the wall clock, three
// days of it at most. A jump of the wall clock is warned about, and removes nothing.
//
//   - The file is partial, synced, renamed: a crash leaves the one before, or the new one, both true.
//   - It is written each hour, with each segment and by Close. Segments that it does not know count
//     as of the next start, so that they are kept for longer, never shorter. Disk full: likewise.
//   - Where it is missing or unreadable the stamps of the events are believed, as in older versions.
//
// The lock is the kernel's (flock), so it does not outlive its holder.
package eventlog
