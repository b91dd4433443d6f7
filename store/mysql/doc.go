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
// # What is wrong, and with what
//
// A table is away where no connection can be had or one is lost, and where the table itself, asked without any row, can't be used.
// Everything else is about rows or about the moment. A server's error number never says which: a trigger may raise any. So
// Apply divides a batch that fails until the rows at fault stand alone (see rule.Divide), passes by rows that others have locked,
// and waits for a lock for a second at most, for the table's for five.
//
// Locks of others are met once: the update waits, fails with 1205, and is done again in two round trips, the first of
// which asks which rows can be locked. For a minute from then on it is done so at once, without a wait.
//
// # Which server
//
// Each connection is asked once which server it leads to, when it is made; it never moves. Claims are made on the confirmed
// server only. A proxy that moves a live session to another server is not noticed.
//
// Clients' requests share what is left of the connections when applying, claims and advisory locks have one each: they wait for
// each other, and the worker waits for none of them.
//
// # Galera
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
