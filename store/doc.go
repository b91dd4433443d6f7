// Package store is the way to the jobs table, the source of truth that the
// application writes: claiming rows, applying journalled transitions to rows,
// and the mirror that follows the journal.
//
// Rows are only ever selected and updated, never inserted or deleted.
// The table stands in MySQL or MariaDB (package mysql) or in an SQLite file
// (package sqlite); storetest holds the one conformance suite for both.
//
// # The mirror's crash argument
//
// The mirror reads the journal in order and makes each job's transitions part of its row. What it
// keeps in memory can be lost at any moment, since the bookmark never passes an event that is not
// in the table:
//
//   - Killed before the bookmark is on disk: the changes are applied once more. They are guarded
//     by the claim's token, and say again what the row says already.
//   - A row that can't be updated for now is quarantined, and the bookmark stays before the oldest
//     event of it, while the mirror goes on in memory. Killed then: the next start reads
//     everything from there again, quarantines the same row, and finds the other rows as they
//     should be. The event that tells of a quarantined row (set-aside) is for people only; nothing
//     depends on it, and a restart may journal it again.
//   - A row that is somebody else's by now becomes a conflict. The conflict is journalled before
//     the bookmark moves on. Killed in between: the row is judged again, and the same conflict is
//     journalled a second time, which changes nothing, since it names its claim. Where the disk is
//     full the mirror waits until there is room.
//   - A claim that was cancelled before it was started: its row becomes ignored by a change like any
//     other. It is guarded by the claim's token, and a row that is ignored by then is as it should be.
//   - A run that has ended, and its row comes back: that is one guarded update. Killed after the end
//     was journalled, before the update: it is made at the next start; the row bears the token until
//     then, so nobody claims it, and where it shows that end, or a newer one of another worker, the
//     update was made before.
//   - A row whose schedule somebody edited while it ran: the update meets no row, and what follows is
//     planned anew from the schedule that was found, and journalled as replanned before the update is
//     made of it, which is guarded by that schedule. Killed between the two: the next start makes the
//     same change of both events; where it reads them one by one, it plans anew once more. Edited
//     again in between: the row is quarantined like one that somebody holds, and then the same once
//     more.
//   - Several events of a job share a change, and later ones wait behind a quarantined one, so
//     a row never goes back to an earlier state, and a later claim's change is never applied
//     before an earlier one's.
//   - Beyond a number of changes and an amount of output in quarantine the mirror reads no further.
//     Nothing is dropped: it is in the journal.
//   - The table on another server: rows of the last minutes are compared with the journal, and
//     mended, before anything is claimed there. That it is done is an event; killed before it, the
//     next start does it again, and finds mended what was. Outcomes of a server that was not
//     compared are thrown away, and the changes applied again.
package store
