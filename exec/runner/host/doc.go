// Package host is the runner process: it starts jobs, each the leader of a process group of its
// own, its stdin empty, its stdout and stderr captured up to a limit, the rest drained and counted.
// What is left of the group when the process has ended is killed. The outcomes are kept until a
// worker has journalled them.
//
//	worker ──► requests ─► spawner: fork, some at a time ─► jobs
//	       ◄── jobs ◄────── reactor ◄═ pidfds and pipes of all jobs
//	             └─────► spool: files of those that run for long
//
// # What it costs
//
// A job should cost what fork, exec and exit do. So the runner has one goroutine that reads what
// the worker asks and starts what came together, and one, the reactor, for all that happens to
// jobs, however many run. A start does not make one wake the other. A job that ends within
// milliseconds is one event, its end, and one message: its pipes are read then, and watched only if
// it gets older. What one turn of the reactor brings goes out in one write, which the reactor does
// itself; a goroutine writes only for a worker that does not read fast enough.
//
// # The crash argument
//
//   - The worker is killed: jobs run on, their pipes are read, and outcomes are kept until a worker
//     says forget. Workers are served one after the other, each to the end of what it sent. So the
//     next one hears of all starts that happened, and of none that may still happen: a job is known
//     when its start is read, and starts are done before more is read.
//   - The runner ends by itself when it has no worker and no job, and notes its name in
//     runner.ended. A start that it does not answer for then was never done. The list keeps the
//     newest names; one that fell out of it counts as killed.
//   - The runner is killed: its name is not noted, and its jobs run on without it. Package runner
//     says what the worker does then.
//   - The journal's folder is removed, or its file system detached: a runner that nobody can reach
//     any more ends when its jobs have.
//   - What jobs have written that run for longer than a second is in files as well (spool.go), as
//     soon as a tenth of a second later. Killed before that, the runner takes it along. The files
//     are a copy for others: the runner never reads them. It removes them when the outcome is
//     forgotten; killed in between, it leaves them to the worker's next start. They are not synced:
//     a killed process loses nothing that was written, a loss of power may.
//   - A disk that is full, or slow, holds up one goroutine, which writes these files. A job's
//     output waits in memory, where it is kept anyway, and each job is in the line once.
//   - Whoever follows a job has no state here but the time of the last question. Killed, a follower
//     or a worker leaves a ring of 64 KiB, which goes when somebody needs it or the job has ended.
//   - A job that may run for so long only is ended by the runner, whether there is a worker or not
//     (limits.go): its group gets SIGTERM, and SIGKILL a time after that. Killed before SIGTERM,
//     between the two, or after SIGKILL, the runner takes along what it knew of that: who adopts
//     the process counts from its start again, and sends both, each with its time. A job that had
//     a SIGTERM may so get another. Killed after the job's end, before the outcome was told: that
//     is unknown, as ever. The worker killed at any of these moments: nothing changes; the outcome
//     says what was sent, and is kept.
//   - A limit counts by the boot clock, from before the fork: nobody sets it, and the time that the
//     host is asleep counts. What was due meanwhile is sent when it wakes. An end that came before
//     that is an end: a process that is a zombie gets no signal. Between that look and the signal
//     are microseconds; who ends in them counts as ended by the limit.
//   - How long a job ran is measured by the boot clock, from before its fork until its end was
//     seen, and kept with the outcome.
//   - A process is reaped last: until then nobody else has its number, which is also that of its
//     group, so that signals reach nobody else.
package host
