// Package runner starts jobs as processes: each the leader of a process group of its own, its
// stdin empty, its stdout and stderr captured up to a limit, the rest drained and counted. What is
// left of the group when the process has ended is killed.
//
//	worker: Remote ──unix socket──► runner: Server ─► Local ─► jobs
//
// Local starts jobs as children of this process. Server does so in a process of its own, which
// outlives the worker; Remote is the worker's side of it.
//
// # The crash argument
//
//   - The worker is killed: jobs run on, their pipes are read, outcomes are kept until a worker has journalled
//     them and says forget. Workers are served one after the other, each to the end of what it sent, so that
//     the next one hears of all starts that happened, and of none that may still happen.
//   - The worker is killed between journalling an outcome and forget: the next one is told of the job again, and
//     says forget.
//   - The runner ends by itself when it has no worker and no job: it notes its name in runner.ended. A start that it
//     does not answer for then was never done.
//   - The runner is killed: its name is not noted. Its jobs run on, but their output has no reader any more and nobody learns
//     how they end: Adopt finds them by process id, start time and boot, and can only wait for their end.
//   - The journal's folder is removed: a runner that nobody can reach any more ends when its jobs have.
package runner
