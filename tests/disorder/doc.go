// Package disorder is a model-based test of the whole system. It draws schedules of what happens in
// real life, many things at once and in any order, plays them to real daemons and a real server, and asks at
// every quiet point whether the promise holds. It is written from the promise, not from the code.
//
//	schedule ──► application: insert, rows due later, recurring or tried again, late COMMIT, locks, refusing triggers, NULLs, edits by hand
//	(rapid)      operator:    poke, poll, pause, continue, cancel, retry, targets, slots, reload, stop, start
//	             clients:     run-manual
//	             faults:      kill -9, at each point of a job's way too, runner killed, links cut, frozen or deaf, COMMITs lost, server and master killed
//	                │
//	                ▼
//	 MariaDB ◄── way ── w1, w2, w3 ── way ──► jobd-master        a way is a link that can be made bad
//	    ▲                 │     │
//	    │                 │     └► journals ──► verify, diff, conflicts
//	    │                 └► launcher ──► oracle: each start and each end, with the kernel's time
//	    │                                    │
//	 model: what is known of each row ───────┴──► heal ──► settle ──► verdict
//
// No worker polls by itself (poll_interval = 0). When a schedule is through, everything that is wrong is
// healed, and nobody gets a hint that the rules do not ask for: a row that the application was to poke for has been
// poked for once, after its COMMIT, or is poked for now. From there on every row must come to its end
// without anything happening for 10 s. Then the table, the oracle, the journals and what clients
// were told are compared:
//
//	stranded, stuck          a row waits, or is claimed, and nothing happens
//	held up                  the same in the midst, of a row that no lock, refusal or pause concerns
//	doubled                  a job was started more often than it was made waiting
//	started while paused     after pause was answered
//	wrong outcome            the row is not what its process did, or is not known without a cause
//	request, client unanswered; client told wrong
//	worker, master ended; stop; status; registration; diff; conflict; journal; rows; panic
//
// The order of things within a step is the machine's: a trial need not go the same way twice. What
// fails is made smaller with rapid's own shrinker, for -rapid.shrinktime; the schedule is printed as text,
// with the command that repeats it and the folder that keeps logs, journals and the oracle. A
// schedule that is worth keeping is recorded in recorded_test.go under a name.
//
//	DISORDER_SEEDS=1,2       these seeds instead of all others
//	DISORDER_SCHEDULE=…      this schedule instead
//	DISORDER_TIMES=20        each so often
//	DISORDER_WITHOUT=…       without these verbs
//	TORTURE=long             30 minutes of new seeds
package disorder
