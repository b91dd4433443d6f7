// Package exec takes jobs from claim to done: targets, which are queues with a limit, the worker
// that claims for them and runs what it claimed, and recovery. It is imported as jobexec.
//
// # The way of a job
//
//	poll, poke, start ─► claim loop ─► Claimer.Claim ─┐ decide: journal accepted,
//	run-manual ────────────────────► .ClaimManual ────┤ then the row, then COMMIT
//	                                                  ▼
//	                                          queue of its target
//	                                                  │ a slot is free
//	journal running ─► Mirror: row running ─► Runner.Start ─► journal started
//	                                                  │ the process is gone
//	journal done ─► slot free ─► Mirror: row done ─► answer to the client
//
// Every effect follows its event. One goroutine claims; every job that has a slot has a
// goroutine of its own; a job that waits for a slot has none.
//
// # The crash argument
//
// What if the worker is killed, or the link drops, right there:
//
//   - After the locking SELECT, before accepted is journalled: the server rolls back when the connection is
//     gone; nothing was promised.
//   - After accepted, before or during COMMIT: the claim is in doubt. The row is read with a
//     locking read; if it bears the claim's token it is ours and is queued, else
//     released is journalled. A living worker does the same when a claim failed in any way
//     after decide was called.
//   - In the queue: the same as above: the row bears the token.
//   - After running, before started: nobody knows whether a process came to be. The outcome is unknown.
//   - After started: the process is identified by pid, start time and boot. If it is alive its end is
//     waited for, and its outcome is unknown; if not, the outcome is unknown.
//   - After the end, before done: the outcome was only in memory, and is unknown.
//   - After done: nothing is lost; the mirror brings the row up to date.
//
// Unknown outcomes are reported as failed, or, where the configuration says so, the job is
// started again under the next attempt number. A job is never started twice otherwise: running is journalled
// before each start, and the journal refuses it to a job that is not accepted.
//
// A database that is away holds up claims and starts, never the end of what runs. A full disk holds
// up claims; outcomes wait in memory for room. A journal that fails ends the worker: it touches no
// job any more, and the next start takes them up.
package exec
