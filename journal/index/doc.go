// Package index keeps what people look for beside a worker's journal: one row a job, as the journal knew it last,
// the words at the end of its output, and how many jobs were started, ended and failed, in a SQLite file of the
// journal's folder. The journal alone is true; the index is a cache of it, which anybody may delete.
//
//	eventlog.Log ── Next ──► Index.Run: fold, one transaction a batch ──► index.db ──► Jobs, Rates
//
// A job has one row, not one an attempt: what one does about a job one does about its row in the table, and there
// it is one. Its attempts the journal tells. A row has the number of the event by which the job became what it
// is, so the order of rows is the order of time, of every index, too, and that of the words. A job that moves on
// gets another row in the place of its former one. Its newest end is kept beside where that is a failure: whatever
// comes after it, only another end changes that.
//
// One goroutine follows the journal from the event that the file notes on, behind the appends: it waits for them
// in Next, rests for longer than it works, and nobody waits for it. A fold in memory has the jobs under way
// and those of a batch; their rows carry it across a restart. What retention removes from the journal goes here,
// too, some thousand rows at a time.
//
// # What a query reads
//
// Every query walks an index from the newest row back: one for each target and status, for a status, for an exit
// code, or that of the words. Where an index has all that is asked for, it reads as many rows as it gives, and one
// of each target and status beside. Where a filter is left to be looked at row by row, or two words meet in few
// jobs, it does so window by window until its time is over, and tells behind which row to go on.
//
// # The crash argument
//
// Each transaction brings the rows, the numbers and the note of the event up to which they go. Killed before its
// commit: the events are read once more. Killed behind it: the next start goes on there. Power cut: synchronous is
// NORMAL, so the newest transactions may be gone, the note with them, and the file is whole. A file that can't be
// read, that another version wrote, that is another journal's or ahead of this one, as after a folder was set
// back, is deleted and made anew from the oldest event that is kept, and the log says so. That the note is this
// journal's the hash tells that it bears. Disk full: the index stops, says so, and tries again each minute; it
// stops earlier than the journal, while that has its reserve. Nobody claims, starts or ends a job less for it.
package index
