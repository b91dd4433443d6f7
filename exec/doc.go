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
//	  └─► slot to the next ─► Mirror: row done ─► answer to run-manual's client; jobctl wait looks at the row
//
// Where jobs stand is on the board (package board): pure data, which is told what has happened and
// answers with the effects that follow. The worker (worker.go) carries those out, and does everything
// that takes time. It holds its mutex while it calls the board, and never while it waits. One goroutine
// claims (claim.go), one takes turns (turn.go): each turn journals in one append what has happened to
// jobs with a slot since the last one. A job that waits or runs has no goroutine.
//
//	claim.go, quarantine.go, due.go   which rows are asked for, and when
//	start.go, launcher.go             a job that has a slot becomes a process or a request
//	executors.go, hindrance.go        who can start nothing for now, and what Status says of it
//	manual.go, operate.go, retry.go   what clients and operators ask
//	recover.go, identity.go           what a former run left, and which rows are ours
//
// # The rules
//
//   - Looking is the guarantee, wake-ups are hints. A claim that comes back short does not mean that
//     no row waits. The worker asks again without locks, 50 ms later at first and 1 s at most, until
//     none does.
//   - Nothing holds up anything else. Only an error whose method Away says true is about the whole
//     table. All others concern some rows, which are quarantined, or some targets, which rest.
//   - What can't be started has not failed. The job is given back, and nothing is claimed for its
//     target until a start can succeed. A program that was executed has run, whatever it ends with.
//   - Rows with this worker's id are nobody else's: it holds the advisory locks on its name and id.
//   - Memory follows the journal. What is journalled is appended first; the board changes then.
//   - The database away holds up claims and starts, never the end of what runs. A full disk holds up
//     claims; outcomes wait in memory. A journal that fails ends the worker.
//
// # The crash argument
//
// What if the worker is killed, or the link drops, right after one of these? What was asked of the
// table is asked again; what the table must be told is in the journal, and the mirror tells it.
//
//	the locking SELECT     the server rolls back; nothing was promised
//	accepted, COMMIT       in doubt: slots are given back, the mirror leaves the row alone, and the worker
//	                       reads it under a lock. If it bears the claim's token, the job is queued; one
//	                       that was announced already is announced again, under the same attempt number.
//	                       Else released is journalled. A row that somebody holds stays in doubt
//	ignored, retried       in doubt, too: where the row reads as before, a conflict takes it back
//	planned                the row reads as before, and is planned once more; it was not run
//	in the queue           the row bears the token: queued again
//	running                the runner that it names knows nothing of it: queued again. No other
//	                       runner does that start
//	the runner was asked   it has the process, or its outcome, until it is told to forget it
//	the runner refused     the job never happened: queued again
//	started of a request   it may have been sent: unknown. Before started it was never sent
//	the end of a job       the next start hears the outcome from the runner
//	done                   the mirror brings the row up to date, and what follows stands in done
//	requeued               the next start finds the job as it was, and says so once more
//	a signal is journalled it may not have been sent. If a signal ends the run, this event says whether
//	                       the run may be tried again
//	pause                  the next start is not paused; claims from before go on
//	replanned              the mirror asks Replan again, and finds the same
//	the runner, or power   the process is known by pid, start time and boot; its outcome is unknown.
//	                       For the milliseconds before started nobody knows whether there is one
//	the journal is lost    rows bear the worker's id and a token that nobody knows: unknown
//
// An unknown outcome is reported as failed or, where on_crash says so, started again under the next
// attempt number. No start is made twice otherwise: the journal refuses running to a job that is not
// accepted. What comes after a run is decided once, as part of done, so that its retries and the runs
// after it may each be another worker's.
package exec
