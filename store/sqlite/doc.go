// Package sqlite is the jobs table in an SQLite file, for machines without a database server.
// The application writes its rows into the same file, and several workers
// may share it, each in a process of its own, on one machine.
//
// SQLite has one writer at a time: every transaction here is a writing one from its
// beginning, so it waits for those of other processes instead of failing half way, and
// no row has to be locked by itself. A claim holds the file while its decision is made durable.
//
// What is wanted at the same time is one transaction (together.go): who submits, the mirror, a claim. Nobody is told of
// anything before the commit. A claim is the last part, so nothing that others want undoes what it has journalled. It may
// decide about rows that were inserted in the same transaction: killed before the commit, the journal has accepted jobs
// whose rows are not there, and the next start releases them, as any claim that was not won. Where another part fails,
// the transaction is rolled back, and each part is done by itself, the claim for the first time. Where the commit fails,
// all have failed.
//
// What a crash leaves is for SQLite to say: a transaction that has committed is on disk
// (WAL, synchronous FULL), any other never was. There is no doubtful commit, with one exception.
//
// The file can be deleted or replaced while it is open; SQLite then goes on in a file that nobody
// else sees. So the path is compared with the open file before each transaction and after it. While
// the path leads nowhere, the table is unreachable, and the old file stays open: so its inode is
// not given to another file, and it is the same table when it is back. When another file is there,
// that is opened, and claims wait until it has been confirmed. A transaction that was under way
// counts as not done: a claim is looked for in the new file, changes are applied again there. A
// table is made at the first Check of a new Table only. What SQLite keeps beside the file (-wal,
// -shm) has to be moved with it: a file that is put beside another one's WAL is damaged by SQLite
// itself.
//
// A connection prepares each statement once, which may take as long as to run it. SQLite prepares it
// again where the table has changed, and the statements end with the connection.
//
// An update that fails leaves nothing behind, whatever its error: Claim then tries each row by
// itself, undoes it, and names those at fault. Any value may stand in any column; none makes a
// method fail.
//
// Advisory locks are bytes of a file beside the table's, PATH-jobd, locked for as long as it is
// open: they end with the process at the latest.
package sqlite
