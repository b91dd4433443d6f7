// Package mysql is the jobs table in MySQL or MariaDB.
//
// It needs SELECT and UPDATE on that one table and uses no other. What the server is and what
// the columns can hold is asked when a method is first called, and again after a
// lost link: another server may answer then.
//
// # Round trips
//
// A claim takes two: one opens the transaction and locks rows of all targets, the
// other updates them and commits. Applying changes takes one, however many there are, as
// long as they fit into the server's max_allowed_packet.
//
// A claim that follows a full one looks for waiting rows behind the last row of that one: between two
// purges the server passes the index entries of all rows that have left. It takes one round trip more
// where too few are there, to look from the front in the same transaction.
//
// # What is wrong, and with what
//
// A table is away where no connection can be had or one is lost, and where the table itself, asked
// without any row, can't be used. Everything else is about rows or about the moment. A server's
// error number never says which: a trigger may raise any. So Apply divides a batch that fails until
// the rows at fault stand alone (see rule.Application), passes by rows that others have locked, and
// waits for a lock for a second at most, for the table's for five.
//
// Locks of others are met once: the update waits, fails with 1205, and is done again in two round
// trips, the first of which asks which rows can be locked. For a minute from then on it is done so
// at once, without a wait.
//
// # Which server
//
// Each connection is asked once which server it leads to, when it is made; it never moves. Claims
// are made on the confirmed server only. A proxy that moves a live session to another server is not
// noticed.
//
// Clients' requests share what is left of the connections when applying, claims and advisory locks
// have one each: they wait for each other, and the worker waits for none of them.
//
// # Galera
//
// On a node of a Galera cluster each statement is sent by itself. Another node's transaction may
// undo ours there at any moment, and the server does not always tell: so a claim is committed only
// when its updates met every row that it had locked. Where it is known that a claim was undone,
// Claim fails with a *store.Overtaken.
//
// # What a crash or a cut link leaves
//
// Before the rows are locked: nothing. Before COMMIT arrives: a transaction that the server rolls
// back when it notices the loss, after 30 s at the latest (wait_timeout); until then its rows stay
// locked, which SKIP LOCKED passes by. After COMMIT arrived, and before its answer: rows that bear
// the claim's token, or changes that are there when Apply comes again. The worker can't tell
// which happened. Claim fails. Rows then reports the row as locked until its transaction has ended,
// and gives it as it is afterwards.
//
// # What one row, one target or somebody's lock is about
//
// Nobody waits for a row's lock. A claim passes by rows that somebody holds, and Waiting tells that
// there are such rows: it reads what is committed, and what is not. To Rows and ClaimManual rows that are
// committed and can't be locked are held.
//
// An update that the server refuses says nothing by its number: a trigger may raise any. What
// counts is whether the transaction is still open afterwards, which the server is asked: if it is,
// COMMIT was not reached. Then the claim's update is tried for each row by itself and undone, and
// the error names the rows at fault.
//
// Rows whose ids are none to us, as 0, are passed by.
//
// # Rows that come at a time
//
// Where the table uses run_at, a claim has a second locking read for each target, of what is due by
// the server's clock, in the same round trip. What is not chosen of both is locked until the claim
// commits, and then as it was. Each read names its index. Where somebody has dropped or renamed it
// (1176), nothing was decided yet: the table is examined again, and the claim begun anew. Without its
// index nothing is claimed.
//
// A crash leaves what it leaves of any claim. The end of a run after which the row comes back is one
// update, guarded by the schedule that it was planned from.
//
// # Without SKIP LOCKED
//
// Servers before MySQL 8.0.1 and MariaDB 10.6 don't know that clause. There claims wait for rows that
// others have locked, up to innodb_lock_wait_timeout, and the start warns of it. TiDB takes the clause
// and locks nothing, and is refused.
//
// # Advisory locks
//
// Hold uses GET_LOCK on one connection of its own. When that is lost the locks are gone; it is
// noticed at the next ping, or at once where any other connection of the table is lost too. On a
// Galera cluster such locks hold on one node only.
//
// A connection goes back to its pool only when its transaction has ended for
// certain; every other one is closed.
package mysql
