// Package host is the runner process: it starts jobs, each the leader of a process group of its
// own, its stdin empty, its stdout and stderr captured up to a limit, the rest drained and counted.
// What is left of the group when the process has ended is killed. The outcomes are kept until a
// worker has journalled them.
//
//	worker ──► requests ─► spawner: fork, some at a time ─► jobs
//	               └─────► pools: processes that are kept ─► jobs
//	       ◄── jobs ◄────── reactor ◄═ pidfds and pipes of all jobs
//
// # Pool processes
//
// A pool (pools.go, pool.go) keeps processes that were started ahead, for one target: each waits for
// a line on its descriptor 3 that asks for a job, and answers on 4 (pool_talk.go). In pool it runs the
// job itself, in fork a child of its does. Its states, and what may happen in each, are one table
// (pool_process.go); what follows for its job is in pool_job.go. All of that happens in the reactor's
// goroutine; others leave in the inbox what they ask for.
//
// A job of a pool is one as any other (job.go), whose turn says which process has it: so
// limits, signals and followers are what they are for a process of its own. Where its
// output ends nobody sees: so it is read as far as it is there when its end is told (capture.leave),
// which is why a process flushes before it tells.
//
// Processes are replaced one after the other: one more than there are slots may be there for a moment,
// and the old one goes when the new one is ready.
//
// # What it costs
//
// A job should cost what fork, exec and exit do. So the runner has one goroutine that reads what
// the worker asks, two at most that start jobs, and one, the reactor, for all that happens to jobs,
// however many run. A start does not make one wake the other. A job that ends within
// milliseconds is one event, its end, and one message: its pipes are read then, and watched only if
// it gets older. What comes together goes out in one write.
//
// # The crash argument
//
//   - The worker is killed: jobs run on, their pipes are read, and outcomes are kept until a worker
//     says forget. Workers are served one after the other, each to the end of what it sent. So the
//     next one hears of all starts that happened, and of none that may still happen: a job is known
//     when its start is read, and all starts are done before the next worker is served.
//   - The runner ends by itself when it has no worker and no job, and notes its name in
//     runner.ended. A start that it does not answer for then was never done.
//   - The runner is killed: its name is not noted, and its jobs run on without it. Package runner
//     says what the worker does then.
//   - The journal's folder is removed, or its file system detached: a runner that nobody can reach
//     any more ends when its jobs have.
//   - A limit of processes or threads is reached, as by jobs that fork: starts are refused for a moment.
//     The runner needs no thread that it has not made at its start (makeThreads).
//   - A follower of a job has no state here but the time of its last question. Killed, a follower or
//     a worker leaves 64 KiB of output, which go with the next that is written, or the job.
//   - A job that may run for so long only is ended by the runner, whether there is a worker or not
//     (job.go): its group gets SIGTERM, and SIGKILL a time after that. Killed before SIGTERM,
//     between the two, or after SIGKILL, the runner takes along what it knew of that: the worker that
//     adopts the process counts from its start again, and sends both, each at its time. A job that
//     had a SIGTERM may so get another. Killed after the job's end, before the outcome was told: that
//     is unknown, as ever. The worker killed at any of these moments: nothing changes; the outcome
//     says what was sent, and is kept.
//   - A limit counts by the boot clock, from before the fork: nobody sets it, and the time that the
//     host is asleep counts. What was due meanwhile is sent when it wakes. An end that came before
//     that is an end: a process that is a zombie gets no signal. Between that look and the signal are
//     microseconds; a process that ends in them counts as ended by the limit.
//   - How long a job ran is measured by the boot clock, from before its fork until its end was
//     seen, and kept with the outcome.
//   - A process is reaped last: until then nobody else has its number, which is also that of its
//     group, so that signals reach nobody else.
//
// Of jobs of pools, moreover:
//
//		what is gone          worker        process, or parent         forked child  runner
//		waiting               not started   waits on                   –             unknown
//		asked, line unread    true end      another process is asked   –             unknown
//		asked, line read      true end      unknown                    true end      unknown
//		started: fork         true end      true end, else unknown     true end      a stray
//		started: pool         true end      the process's end          –             a stray
//		end told, not kept    true end      true end                   true end      unknown
//
//	  - The worker is killed. What waits is forgotten. What a process was asked for is known; the
//	    next worker is told of it, and later which process it is, where that is yet to answer.
//	  - A process is killed before it has read of the line: the runner has the other end of 3, too,
//	    and takes the line out, all of it or nothing (takeUnread). What the process had said on 4 is read
//	    before, and counts.
//	  - A parent is killed between its fork and started: its group is killed, before it is reaped, and
//	    so is a child of its that has its own group already (killOrphans). Only when that is gone the
//	    outcome is told, and so no job begins later than its end.
//	  - A parent is killed after started: the child is ours, with the pipes, and is waited for by its
//	    number. Where the parent had reaped it and nothing is read of ended: unknown.
//	  - The runner is killed: processes read the end of 3 and end when they have no job; a forked child
//	    runs on, and its process is what the worker knows.
//	  - An outcome that nobody can tell is an outcome (wire.ResultLost), and kept until it is
//	    forgotten. A refusal is not kept: the next worker finds that the runner does not know the start,
//	    which is as true.
package host
