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
// Where jobs stand is on the board (package board): pure data, which is told what has happened and
// answers with the effects that are to follow. The worker carries those out in one place
// (worker.go), and does everything that takes time: it asks the table, appends to the journal, and
// talks to the runner. It holds its mutex while it calls the board, and never while it waits.
//
// Every effect follows its event. One goroutine claims; one takes turns, in each of which
// everything that has happened to jobs with a slot since the last one is journalled in one append
// (turn.go); each group of jobs that was announced together has one until it is started (start.go).
// A job that waits or runs has none.
//
// # Looking is the guarantee
//
// Wake-ups are hints. A claim that finds fewer rows than it asked for does not mean that no row
// waits: somebody's lock hides rows from it, a dead connection's for one. So the worker asks the
// table, without locks and beside the starts of the claim's jobs, whether rows still wait, and
// looks again, 50 ms later at first and 1 s at most, until none does (claim.go). With that, a row
// whose lock ends is found without anybody's hint, and without a poll interval.
//
// # Nothing holds up anything else
//
// Only an error that has a method Away that says true is about the whole table, and only that, a
// full disk, and a name or mark that is not held stop all claims. Whatever else goes wrong concerns
//
//   - some rows. Those that the table refuses to a claim are set aside, journalled once as released
//     with the table's own word, and the table is asked from time to time whether it would take
//     them by now (aside.go). Where there are thousands, the newest are remembered, and claims are
//     made behind them (aside.go). Rows that the worker passes over because it still has their job
//     are left out of claims until that has ended. A row that is locked while its claim is in doubt
//     stays in doubt (claim.go), while its start is announced delays that start (start.go), while a
//     client wants it run is tried for some seconds (manual.go). A job whose start is delayed
//     for more than a moment gives its slot to the next one, and is announced anew when its row can
//     be updated (start.go). A slot is free again when the end of its job is known, whatever the
//     row says.
//   - some targets. One whose name the table does not take is not claimed for (targets.go). Claims
//     that fail twice for several targets are made for one at a time, and the one that fails rests,
//     ever longer; it claims ever fewer rows, down to one, which is set aside when it alone is what
//     fails (claim.go).
//
// All of it tells in Status why (hindrance.go), and since when (hindrance.go). What Status counts of the last
// minute, who paused a target, and since when the table is away, is in memory only: a worker that is
// killed begins anew, and is not paused. It asks neither table nor disk.
//
// # What runs a job
//
// A launcher says how it runs jobs (launcher.go): in a process of its own for each, in one that is kept
// for such jobs, or as a request to a service. The first two are the runner's; requests are made by
// the worker itself, through Requester. Which it is stands in running, as executor, so that nothing is
// started otherwise than was journalled: where the configuration has changed in between, the job is
// announced anew. What there is to be for each target the executors are told whenever targets, slots
// or launchers change (executors.go).
//
// A request can't outlive the worker, and nobody can be asked about it afterwards. So it is held
// (Held) when its connection is there, started is journalled with where that leads, and only then may
// the first byte be sent (board/cancel.go). While the journal takes nothing, it waits. Where started
// contradicts the journal, the request is given up, and was never sent. A worker that hands over waits
// for its requests (worker.go), as long as for all jobs of one that stops.
//
// An executor may be able to start nothing for a target: no process gets ready, or there is no
// connection. Then nothing is claimed for that target, what waits is given back, and clients are told
// why, until the executor says that it can (board/unable.go). No job is used up to find out, and other
// targets notice nothing.
//
// # What cannot be started has not failed
//
// The system may refuse to execute the launcher, or be short of what a process takes. Nothing ran
// then, so that is no outcome of the job: it is given back, and nothing is claimed until a start
// succeeds (board/unable.go). What comes back by itself is waited for first, some tenths of a
// second. A second attempt, whose job ran before, waits in its queue. A program that was executed
// and ends with 126 or 127 has run.
//
// # Whose rows
//
// A worker claims while it holds two advisory locks of the table, on its name and on the mark that
// its tokens bear (identity.go). So rows with its mark are nobody else's; those whose token its
// journal does not know are ended like jobs of unknown outcome, at each start and after each
// outage, once the mirror owes them nothing (recover.go).
//
// # Memory follows the journal
//
// What is to be journalled is appended first, without the worker's mutex, and the board changes
// then (worker.go). What happened is journalled by turns, which wait for room. So are jobs that are
// given back: they stay in memory, are counted and waited for, until their release is journalled.
// What is only wanted fails when the disk is full, and stays as it was: claims in doubt stay in
// doubt, a target that is to be removed is removed later, a client is told. Slots are the
// exception: they are reserved while a claim is journalled, and given back where that fails.
//
// A pause takes effect in this order: it is journalled; nothing new is claimed or announced; what
// is queued or announced is given back, manual jobs go back to their queue, or stay parked; starts
// that the runner is being asked for are waited for; it is answered. A claim whose COMMIT is under
// way meanwhile is given back when it is won.
//
// # The crash argument
//
// What if the worker is killed, or the link drops, right there:
//
//   - After the locking SELECT, before accepted is journalled: the server rolls back when the
//     connection is gone; nothing was promised.
//   - After accepted, before or during COMMIT: the claim is in doubt. The row is read with a
//     locking read; if it bears the claim's token it is ours and is queued, else released is
//     journalled. A living worker does the same when a claim failed in any way after decide was
//     called. A row that somebody has locked stays in doubt until it can be read, and nothing else
//     waits for it. It is no different where running was journalled with accepted: the start is
//     asked for only after COMMIT was answered, so a claim in doubt is of a job that this worker
//     did not start. After a crash nobody knows that, and the next start asks both, the table
//     first: a row without the token was never started; for one that bears it, what follows holds.
//   - After ignored, before or during COMMIT: a living worker reads the row, and takes the event
//     back by a conflict where the row is not ignored (board/claim.go); the client is told at once
//     that the job is not run. After a crash, and where the worker stopped meanwhile, the next
//     start asks the rows that were ignored last, and does the same.
//   - After retried, before or during COMMIT: a living worker reads the row under a lock, and takes
//     the event back by a conflict where the row still reads as it did before (board/claim.go); the
//     client hears which it was, for as long as it waits. After a crash, and where the worker
//     stopped meanwhile, the next start asks the rows that were set back last, and does the same. A
//     row is set back in the second after it ended at the earliest, so that its next end, however
//     soon it comes, does not look like the one before.
//   - After the COMMIT of a retry, before anybody was told: the next start tells its targets, and
//     the masters, when it has asked the row. A client that asks again is refused, because its row
//     waits, runs, or has ended at another time.
//   - Two workers that retry one end of a job: the row is locked while one decides, and reads
//     otherwise when the other does. The end that the client meant is named by its time. Where the
//     first is killed before its COMMIT, and the other sets the row back before the first is there
//     again, both journals say so: of a row that waits nobody can tell who made it wait. It is run
//     once all the same.
//   - Before a job that is cancelled is journalled as that, and after it, before its signals are
//     sent: see operate.go.
//   - Before a client's request is journalled: nothing was done about it. It is journalled with the
//     first event about any of its jobs, in one append: both are there, or none.
//   - After requeued, before the next attempt's running: the next start finds the job as it was,
//     and says so once more.
//   - In the queue: the same as above: the row bears the token.
//   - After running, before the runner was asked: the runner that the event names lives and knows
//     nothing of it, or has ended by itself, with nothing left, so it never happened, and the job
//     is queued again. The runner reads all that a killed worker sent before it listens to the next
//     one. No other runner does a start than the one that was announced for it; where that one was
//     replaced, running is journalled anew.
//   - While a job is parked: the same. Its row says running by and by, and it is announced once
//     more.
//   - After the runner was refused the start by the system, before released is journalled: the
//     runner knows nothing of the job, so that it never happened, and the job is queued again;
//     whoever starts it finds out anew. After released: the mirror gives the row back. That nothing
//     can be started is nowhere but in memory, and found out by one job after each start of the
//     worker.
//   - After the runner was asked: it has the process, or its outcome, until it is told to forget
//     it. The next start goes on waiting, and gets the true outcome.
//   - A request, after running, before started: its executor is in running, so that the next start
//     knows that it was never sent, whatever runner is there, and queues the job again. Where the
//     claim itself announced it, the table is asked first, as ever.
//   - A request, after started: it may have been sent. Its outcome is unknown. That is said of one,
//     too, whose first byte was not sent yet when the worker was killed.
//   - A request whose connection was lost behind started, before its first byte: it was never sent, as
//     its executor knows, and is announced once more under the same number. Killed before that: unknown.
//   - After an executor has said that it can start nothing, before jobs were given back: the next start
//     is told the same by its own, or finds out.
//   - After the end, before done: the same.
//   - After done, before the runner was told: the next start finds that the journal does not wait
//     for it, and tells it.
//   - After done: nothing is lost; the mirror brings the row up to date.
//   - The runner killed as well, or power lost: the process is identified by pid, start time and
//     boot. If it is alive its end is waited for. Its outcome is unknown. Some milliseconds may
//     pass before the journal knows which process it is; in that time it is unknown whether there
//     is one, and so is the outcome.
//   - The journal lost, or an older copy of it restored: rows bear the worker's mark, and a token
//     that the journal does not know; their outcome is unknown (recover.go). The mark of a new
//     journal is the one that this name gets first, so they are found, unless another worker that
//     lives has it.
//   - Between a mark that is held and its event: the event comes first, and a claim after it.
//   - While a row is set aside: what is known of that is lost; the next claim finds out again.
//   - After a pause was journalled, before jobs were given back: the next start's claims are those
//     of a worker that is not paused, and its claims from before go on.
//   - The link drops during any of it: what was asked of the table is asked again; what the table
//     was to be told is in the journal, and the mirror's to tell.
//
// # Rows that come at a time, and come back
//
// A delayed row is nobody's: it bears no token, and any worker of its target may claim it when it is
// due by the clock of the table's server. What follows the end of a run is decided once, by the board
// (board/plan.go), and is part of the one event done: with it the row is done, or delayed again. So
// a run, its retries and the runs after it may each be another worker's, and nothing about a row's
// future is in memory only. A worker remembers merely when it should look (due.go); who looks too
// early finds nothing, and who remembers nothing is told by the table when it next asks.
//
// What if the worker is killed, or the link drops, right there:
//
//   - Before a due row is claimed: it stays delayed, and due. Who claims it next runs it, or, where it
//     is too late for that and missed runs are skipped, plans it anew. Several planned times that
//     have passed are one run at most.
//   - While a due row is claimed: as for any claim. accepted has what the row said about time, so that
//     a release, or a claim that was not won, leaves it as it was: as due as before, with as many
//     attempts as before.
//   - After planned, before or during COMMIT: the row reads as before. Whoever meets it plans it once
//     more, to the same time or a later one, and journals that again. It was not run.
//   - After the COMMIT of planned, before anybody remembers when it is due: this worker's next look
//     tells, after its start for one; other workers' looks as well.
//   - After running, before the process, while it runs, and after its end, before done: as for any job.
//     The start is told apart by the claim's token and the attempt, which goes on counting where
//     earlier claims of the same run ended.
//   - After the failure of an attempt, before done: its outcome is had from the runner once more, and
//     what follows is decided then. Nothing was promised before.
//   - After done, before its row is updated: done says what follows. The mirror writes it, after the
//     next start if need be. Until then the row bears the claim's token and nobody claims it; if the
//     journal is lost as well, it is found as of unknown outcome.
//   - After the row is delayed again, before others are told: they learn of it when they next look, as
//     they do at least every ten minutes while they know of any delayed row, and when a master or
//     somebody else has them look.
//   - The outcome is unknown: with on_crash = requeue the next attempt follows in the same claim, as for
//     any job. Else, and where no attempt is left, the run has failed, and is not tried again; the
//     schedule goes on from the row's plan, which the claim has in the journal; where the journal was
//     lost, the row itself has it (recover.go).
//   - A signal that somebody asked for is journalled before it is sent, with the word that it ends the
//     run. Killed in between, the run is over without another attempt if it ends by a signal, and is
//     judged as any other if not.
//   - A timeout is the runner's to enforce, worker or not. running has it, so that it holds on where the
//     runner is lost: whoever takes up the process then does it (exec/runner).
//   - The database is away over a planned time: nothing is claimed; the row is due when it is back, and
//     is a missed run, if that took long enough. The end of a run that falls into that time plans from
//     the server's clock as it was last known, and what has passed until the end is dropped; what
//     passes between the end and the update is one missed run.
//   - The schedule of a row is edited while it runs: the mirror notices by the guard of its update,
//     asks Replan, and journals replanned before it writes that. After replanned it does the same again.
//
// Unknown outcomes are reported as failed, or, where the configuration says so, the job is started
// again under the next attempt number. A start is never made twice otherwise: running is
// journalled before each start, and the journal refuses it to a job that is not accepted.
//
// A database that is away holds up claims and starts, never the end of what runs. A full disk holds
// up claims; outcomes and releases wait in memory for room, and nothing is forgotten meanwhile.
// When there is room again all goes on without a restart. A journal that fails ends the worker: it
// touches no job any more, and the next start takes them up.
package exec
