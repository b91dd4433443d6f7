// Package exec takes jobs from claim to done: targets, which are queues with a limit, the worker
// that claims for them and runs what it claimed, and recovery. It is imported as jobexec.
//
// # The way of a job
//
//	poll, poke, start ─► claim loop ─► Claimer.Claim ─┐ decide: journal accepted, and running
//	run-manual ────────────────────► .ClaimManual ────┤ where a slot is free; then the row, then COMMIT
//	                                                  ├───────────────────────────┐
//	                                                  ▼                           │ it had a slot
//	                                          queue of its target                 │
//	                                                  │ a slot is free            ▼
//	turn: journal running ─► Mirror: row running ─► launch ─────────────────► Runner.Start
//	                                                                              │ it is known to run
//	turn: journal started ◄───────────────────────────────────────────────────────┤
//	                                                                              │ the process is gone
//	turn: journal done ◄──────────────────────────────────────────────────────────┘
//	  └─► slot to the next ─► Mirror: row done ─► answer to the client
//
// Every effect follows its event. One goroutine claims; one takes turns, in each of which everything that has
// happened to jobs with a slot since the last one is journalled in one append (turn.go); each group of jobs that
// a turn announced has one until it is started (launch.go). A job that waits or runs has none.
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
//     after decide was called. It is no different where running was journalled with accepted: the start is
//     asked for only after COMMIT was answered, so a claim in doubt is of a job that this worker did not start. After a
//     crash nobody knows that, and the next start asks both, the table first: a row without the
//     token was never started; for one that bears it, what follows holds.
//   - In the queue: the same as above: the row bears the token.
//   - After running, before the runner was asked: the runner that the event names lives and knows nothing of it, or
//     has ended by itself, with nothing left, so it never happened, and the job is queued again. The runner reads
//     all that a killed worker sent before it listens to the next one. No other runner does a start than the one
//     that was announced for it; where that one was replaced, running is journalled anew.
//   - After the runner was asked: it has the process, or its outcome, until it is told to forget it. The next start
//     goes on waiting, and gets the true outcome.
//   - After the end, before done: the same.
//   - After done, before the runner was told: the next start finds that the journal does not wait for it, and tells it.
//   - After done: nothing is lost; the mirror brings the row up to date.
//   - The runner killed as well, or power lost: the process is identified by pid, start time and boot. If it is alive
//     its end is waited for. Its outcome is unknown. Some milliseconds may pass before the journal knows
//     which process it is; in that time it is unknown whether there is one, and so is the outcome.
//   - The journal lost: rows bear the mark of the worker's name; their outcome is unknown (survey.go).
//
// Unknown outcomes are reported as failed, or, where the configuration says so, the job is
// started again under the next attempt number. A job is never started twice otherwise: running is journalled
// before each start, and the journal refuses it to a job that is not accepted.
//
// A database that is away holds up claims and starts, never the end of what runs. A full disk holds
// up claims; outcomes wait in memory for room. A journal that fails ends the worker: it touches no
// job any more, and the next start takes them up.
package exec
