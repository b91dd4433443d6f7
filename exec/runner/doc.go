// Package runner starts jobs as processes: each the leader of a process group of its own, its
// stdin empty, its stdout and stderr captured up to a limit, the rest drained and counted. What is
// left of the group when the process has ended is killed.
//
//	worker                                    runner process
//	Remote ─► link ═► outbox ──unix socket──► reader ─► requests ─► fork, some at a time
//	   processes ◄═ receive ◄──────────────── outbox ◄─ reactor ◄═ pidfds and pipes of all jobs
//
// Local starts jobs as children of this process. Server does so in a process of its own, which
// outlives the worker; Remote is the worker's side of it.
//
// # What it costs
//
// A job should cost what fork, exec and exit do. So the runner has one goroutine that reads what the worker asks, and starts
// what came together, and one, the reactor, for all that happens to jobs, however many run. A start wakes neither
// of them for the other. A job that ends within milliseconds is one event, its end, and one message: its pipes are read
// then, and watched only if it gets older. What one turn of the reactor brings goes out in one write, which it
// does itself; a goroutine writes only for a worker that does not read fast enough.
//
// # The crash argument
//
//   - The worker is killed: jobs run on, their pipes are read, outcomes are kept until a worker has journalled
//     them and says forget. Workers are served one after the other, each to the end of what it sent, so that
//     the next one hears of all starts that happened, and of none that may still happen: a job is known when its start
//     is read, and starts are done before more is read.
//   - The worker is killed between journalling an outcome and forget: the next one is told of the job again, and
//     says forget.
//   - The connection is lost while both live: the worker connects again, and its processes go on with what the runner says
//     of them then. A start that the same runner does not know was never read.
//   - The runner ends by itself when it has no worker and no job: it notes its name in runner.ended. A start that it
//     does not answer for then was never done. The list keeps the newest names; one that fell out of it counts as
//     killed.
//   - The runner is killed: its name is not noted. Its jobs run on, but their output has no reader any more and nobody learns
//     how they end: Adopt finds them by process id, start time and boot, and can only wait for their end. Of a job in its first
//     milliseconds not even those are known.
//   - The journal's folder is removed, or its file system detached: a runner that nobody can reach any more ends when its
//     jobs have.
//   - How long a job ran is measured by the boot clock, from before its fork until its end was seen. It is kept with the
//     outcome. Of an adopted process it is the time since its start, in clock ticks. Nobody knows it of one whose end
//     nobody saw.
//   - A process is reaped last: until then nobody else has its number, which is also that of its group, so that signals
//     reach nobody else.
package runner
