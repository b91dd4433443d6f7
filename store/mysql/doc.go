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
// On a node of a Galera cluster each statement is sent by itself. Another node's transaction may undo ours there at any
// moment, and the server does not always tell: so a claim is committed only when its updates met every row that it
// had locked. Where it is known that a claim was undone, Claim fails with a *store.Overtaken.
//
// # What a crash or a cut link leaves
//
// Before the rows are locked: nothing. Before COMMIT arrives: a transaction that the server
// rolls back when it notices the loss, after 30 s at the latest (wait_timeout); until then its
// rows stay locked, which SKIP LOCKED passes by. After COMMIT arrived, and before its
// answer: rows that bear the claim's token, or changes that are there when Apply
// comes again. In no case can this side tell which it was: Claim fails and Rows, which
// waits for such a transaction to end, tells.
//
// A connection goes back to its pool only when its transaction has ended for
// certain; every other one is closed.
package mysql
